"""What goes out as HTTP of a response."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.http.request_limits import ThreadPool
from batchai_magics.server.http.response_encoder import to_starlette
from tests.server.http.scopes import request_of


def sent(response: ApiResponse, *, is_file: bool = False) -> list[dict[str, Any]]:
    """The messages that go out."""
    messages: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    async def run() -> None:
        request = request_of()
        await to_starlette(response, ThreadPool(2), is_file=is_file)(request.scope, request.receive, send)

    anyio.run(run)
    return messages


def test_a_response_goes_out_as_json_with_a_number_of_its_own() -> None:
    start, body = sent(ApiResponse(201, {"a": "é"}, {"X-More": "1"}))
    headers = dict(start["headers"])
    assert (start["status"], body["body"]) == (201, '{"a": "é"}'.encode())
    assert headers[b"content-type"] == b"application/json; charset=utf-8"
    assert headers[b"x-more"] == b"1"
    assert headers[b"request-id"] == headers[b"x-ms-request-id"]


@pytest.mark.parametrize(("is_file", "cached"), [(True, None), (False, b"no-cache")])
def test_resources_are_never_cached_and_files_say_themselves(is_file: bool, cached: bytes | None) -> None:
    start, _ = sent(ApiResponse(body=b"x"), is_file=is_file)
    assert dict(start["headers"]).get(b"cache-control") == cached
