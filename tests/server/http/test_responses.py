"""Responses and errors as they go out; the log alone has what a defect was."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from starlette.requests import Request

from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.server.api_call import ApiError, ApiResponse
from batchai_magics.server.http.request_limits import ThreadPool
from batchai_magics.server.http.response_encoder import error_response, response_or_error, to_starlette
from batchai_magics.server.storage.storage_resource import storage_error_response


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (401, {"WWW-Authenticate": "Bearer"}),
        (503, {"Retry-After": "1"}),
        (404, {}),
        (500, {}),
    ],
)
def test_error_response_says_how_to_authenticate_or_when_to_retry(
    status: int, headers: dict[str, str]
) -> None:
    answer = error_response(ApiError(status, "Code", "Message."))
    assert (answer.status, answer.headers) == (status, headers)
    assert (answer.data["error"]["code"], answer.data["error"]["message"]) == ("Code", "Message.")


HEAD = {"type": "http", "method": "PUT", "path": "/here", "query_string": b"", "headers": []}
REQUEST = Request(HEAD, anyio.sleep_forever)


def raising(error: Exception, render: Callable[[BatchAIError], ApiResponse] = error_response) -> ApiResponse:
    """The answer where a handler raises this."""

    async def fail() -> ApiResponse:
        raise error

    return anyio.run(response_or_error, REQUEST, fail, render)


@pytest.mark.parametrize("render", [error_response, storage_error_response])
def test_unexpected_error_is_logged_and_the_response_has_only_its_number(
    caplog: pytest.LogCaptureFixture, render: Callable[[BatchAIError], ApiResponse]
) -> None:
    caplog.set_level(logging.ERROR, "batchai.server")
    answer = raising(ZeroDivisionError("a secret"), render)
    (record,) = caplog.records
    assert "PUT /here" in record.getMessage()
    assert "ZeroDivisionError: a secret" in record.getMessage()
    told = str(answer.data or answer.body)
    assert (answer.status, record.args[0] in told, "secret" in told) == (500, True, False)
    assert answer.headers.get("x-ms-error-code", "InternalError") == "InternalError"


def test_expected_errors_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert raising(NotFoundError("gone", code="JobNotFound")).status == 404
    assert raising(OSError(errno.ENOSPC, "No space left on device")).status in (503, 507)
    assert raising(NotFoundError("gone", code="ShareNotFound"), storage_error_response).status == 404
    assert caplog.records == []


def sent(response: ApiResponse, *, is_file: bool = False) -> list[dict[str, Any]]:
    """The messages that go out."""
    messages: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    async def run() -> None:
        await to_starlette(response, ThreadPool(2), is_file=is_file)(REQUEST.scope, REQUEST.receive, send)

    anyio.run(run)
    return messages


def test_response_is_json_and_has_a_request_id() -> None:
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
