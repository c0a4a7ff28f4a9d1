"""Errors become answers: headers say how to come again, and the log alone has what a defect was."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable

import anyio
import pytest

from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.server.api_call import ApiError, ApiResponse
from batchai_magics.server.http.response_encoder import error_response, response_or_error
from batchai_magics.server.storage.storage_resource import storage_error_response
from tests.server.http.scopes import request_of


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (401, {"WWW-Authenticate": "Bearer"}),
        (503, {"Retry-After": "1"}),
        (404, {}),
        (500, {}),
    ],
)
def test_a_refusal_says_how_to_come_again(status: int, headers: dict[str, str]) -> None:
    answer = error_response(ApiError(status, "Code", "Message."))
    assert (answer.status, answer.headers) == (status, headers)
    assert (answer.data["error"]["code"], answer.data["error"]["message"]) == ("Code", "Message.")


def raising(error: Exception, render: Callable[[BatchAIError], ApiResponse] = error_response) -> ApiResponse:
    """The answer where a handler raises this."""

    async def fail() -> ApiResponse:
        raise error

    return anyio.run(response_or_error, request_of("PUT"), fail, render)


def test_a_defect_is_told_by_its_number_and_stands_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "batchai.server")
    answer = raising(ZeroDivisionError("a secret"))
    message = answer.data["error"]["message"]
    assert answer.status == 500
    assert "secret" not in message
    (record,) = caplog.records
    assert record.args[0] in message
    assert "PUT /here" in record.getMessage()
    assert "ZeroDivisionError: a secret" in record.getMessage()


def test_a_defect_of_storage_is_told_by_its_number_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "batchai.server")
    answer = raising(ZeroDivisionError("a secret"), storage_error_response)
    (record,) = caplog.records
    assert (answer.status, answer.headers["x-ms-error-code"]) == (500, "InternalError")
    assert record.args[0].encode() in answer.body
    assert b"secret" not in answer.body


def test_what_was_foreseen_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    assert raising(NotFoundError("gone", code="JobNotFound")).status == 404
    assert raising(OSError(errno.ENOSPC, "No space left on device")).status in (503, 507)
    assert raising(NotFoundError("gone", code="ShareNotFound"), storage_error_response).status == 404
    assert caplog.records == []
