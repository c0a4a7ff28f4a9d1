"""Requests as the parts of a server get them."""

from __future__ import annotations

import anyio
from starlette.requests import Request


def request_of(method: str = "GET", path: str = "/here", query: str = "", **headers: str) -> Request:
    """A request whose body never comes; `_` in names of headers stands for `-`."""
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": raw,
        "client": ("127.0.0.9", 1),
        "server": ("127.0.0.1", 80),
    }
    return Request(scope, anyio.sleep_forever)
