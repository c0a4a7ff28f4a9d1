"""Requests as the middleware of a server gets them, and applications inside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.http.response_encoder import response_of, send_response


def scope_of(method: str = "GET", path: str = "/here", query: str = "", **headers: str) -> dict[str, Any]:
    """The scope of a request; `_` in names of headers stands for `-`."""
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {
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


def responding(respond: Callable[[dict[str, Any]], ApiResponse]) -> Any:
    """An application with the response of a function of its scope, which may raise."""

    async def app(scope, receive, send) -> None:
        await send_response(send, respond(scope))

    return app


def ask(app: Any, scope: dict[str, Any]) -> ApiResponse:
    """The response of an application; no body comes."""
    return anyio.run(response_of, app, scope, _nothing)


async def _nothing() -> None:
    await anyio.sleep_forever()
