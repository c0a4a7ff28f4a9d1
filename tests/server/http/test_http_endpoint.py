"""Errors become answers: headers say how to come again, and the log alone has what a defect was."""

from __future__ import annotations

import errno
import logging

import pytest

from batchai_magics.errors import NotFoundError
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.api_errors import ApiError
from batchai_magics.server.http.http_endpoint import error_response, run_handler


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


def raising(error: Exception) -> ApiResponse:
    """The answer of a handler that raises this."""

    def handler(service: object, call: ApiCall) -> ApiResponse:
        raise error

    return run_handler(handler, None, ApiCall("PUT", "/here"))


def test_a_defect_is_told_by_its_number_and_stands_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "batchai.server")
    answer = raising(ZeroDivisionError("a secret"))
    message = answer.data["error"]["message"]
    assert answer.status == 500
    assert "secret" not in message
    (record,) = caplog.records
    assert record.args[0] in message
    assert "ZeroDivisionError: a secret" in record.getMessage()


def test_what_was_foreseen_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    assert raising(NotFoundError("gone", code="JobNotFound")).status == 404
    assert raising(OSError(errno.ENOSPC, "No space left on device")).status in (503, 507)
    assert caplog.records == []
