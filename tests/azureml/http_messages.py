"""Requests and responses of the stand-in, and the errors that its services answer with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape


@dataclass(frozen=True)
class Request:
    """A request as it arrived; the path is unquoted."""

    method: str
    host: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    def json(self) -> dict[str, Any]:
        return json.loads(self.body) if self.body else {}


@dataclass(frozen=True)
class Response:
    """What is sent back; its length is added."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class RefusedError(Exception):
    """A service refuses a request."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def as_json(self) -> Response:
        """How Azure Resource Manager says it."""
        return json_response(
            {"error": {"code": self.code, "message": self.message}}, self.status, self.headers
        )

    def as_xml(self) -> Response:
        """How storage says it."""
        text = f"<Error><Code>{self.code}</Code><Message>{escape(self.message)}</Message></Error>"
        headers = {"Content-Type": "application/xml", "x-ms-error-code": self.code, **self.headers}
        return Response(self.status, f'<?xml version="1.0" encoding="utf-8"?>{text}'.encode(), headers)


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A value as JSON."""
    return Response(
        status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})}
    )


Handler = Callable[..., Response]


class Routes:
    """Finds who answers a request by its method and path; `{name}` stands for one part of a path."""

    def __init__(self, base: str = "") -> None:
        self._base = base
        self._rows: list[tuple[str, re.Pattern[str], Handler]] = []

    def add(self, method: str, pattern: str, handler: Handler) -> None:
        """Sends requests to a handler, which gets the request and the named parts of its path."""
        parts = re.split(r"\{(\w+)\}", self._base + pattern)
        text = "".join(
            f"(?P<{part}>[^/]+)" if place % 2 else re.escape(part) for place, part in enumerate(parts)
        )
        self._rows.append((method, re.compile(text + "/?", re.IGNORECASE), handler))

    def answer(self, request: Request) -> Response | None:
        """The response of the first handler that fits; None if none does."""
        for method, pattern, handler in self._rows:
            if method == request.method and (found := pattern.fullmatch(request.path)):
                return handler(request, **found.groupdict())
        return None
