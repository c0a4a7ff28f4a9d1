"""What applications inside the server send, and what of it goes out as HTTP."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.http.request_limits import ThreadPool
from batchai_magics.server.http.response_encoder import ExtensionFilter, ResponseEncoder, send_response
from tests.server.http.scopes import ask, responding, scope_of

OURS = ApiResponse(data={"name": "j", "batchaiRuns": 2})


def sent(app: Any, *, is_file: bool = False) -> list[dict[str, Any]]:
    """The messages that go out."""
    messages: list[dict[str, Any]] = []

    async def run() -> None:
        async def send(message: dict[str, Any]) -> None:
            messages.append(message)

        async def receive() -> None:
            await anyio.sleep_forever()

        await ResponseEncoder(app, ThreadPool(2), is_file=is_file)(scope_of(), receive, send)

    anyio.run(run)
    return messages


def test_a_response_goes_out_as_json_with_a_number_of_its_own() -> None:
    start, body = sent(responding(lambda _: ApiResponse(201, {"a": "é"}, {"X-More": "1"})))
    headers = dict(start["headers"])
    assert (start["status"], body["body"]) == (201, '{"a": "é"}'.encode())
    assert headers[b"content-type"] == b"application/json; charset=utf-8"
    assert headers[b"x-more"] == b"1"
    assert headers[b"request-id"] == headers[b"x-ms-request-id"]


@pytest.mark.parametrize(("is_file", "cached"), [(True, None), (False, b"no-cache")])
def test_resources_are_never_cached_and_files_say_themselves(is_file: bool, cached: bytes | None) -> None:
    start, _ = sent(responding(lambda _: ApiResponse(body=b"x")), is_file=is_file)
    assert dict(start["headers"]).get(b"cache-control") == cached


def test_a_response_goes_out_once_its_application_has_let_go_of_everything() -> None:
    held = []

    def pieces():
        yield str(held).encode()

    async def app(scope, receive, send) -> None:
        held.append("the body of the request")
        try:
            await send_response(send, ApiResponse(chunks=pieces()))
        finally:
            held.clear()

    assert b"".join(message.get("body", b"") for message in sent(app)) == b"[]"


def test_what_is_http_already_goes_out_as_it_is() -> None:
    message = {"type": "http.response.start", "status": 204, "headers": []}

    async def app(scope, receive, send) -> None:
        await send(message)

    assert sent(app) == [message]


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        ("/jobs/{name}", {}, {"name": "j"}),
        ("/jobs/{name}", {"x_batchai_client": "1"}, OURS.data),
        ("/jobs/{name}/batchaiTail", {}, OURS.data),
    ],
)
def test_our_extensions_are_for_our_own_client_and_operations(
    path: str, headers: dict[str, str], expected: dict[str, Any]
) -> None:
    assert ask(ExtensionFilter(responding(lambda _: OURS), path), scope_of(**headers)).data == expected
