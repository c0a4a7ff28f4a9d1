"""The details of a run, as run history writes them."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from batchai_magics.backends.azureml.run_details import RunDetails
from batchai_magics.models.states import WARNINGS

TEXT = "Process 'worker 1' exited with code 3 and error message ''"
FAILED = {
    "runId": "j",
    "status": "Failed",
    "startTimeUtc": "2026-11-23T10:00:00.123Z",
    "endTimeUtc": "2026-11-23T10:05:00+00:00",
    "logFiles": {"user_logs/std_log.txt": "https://a.blob.core.windows.net/c/x?sig=1"},
    "error": {
        "error": {
            "code": "UserError",
            "message": json.dumps(
                {"NonCompliant": "Process 'worker 1' exited with code 3 and error message ''"}
            ),
            "innerError": {
                "code": "BadArgument",
                "innerError": {"code": "UserScriptError", "innerError": None},
            },
            "details": [{"code": "Node", "message": "node 1"}],
            "referenceCode": None,
        },
        "correlation": {"operation": "x"},
    },
    "warnings": [{"source": "Compute", "message": "2 nodes were preempted"}, {"message": None}],
}


def test_the_text_of_an_error_is_freed_of_its_wrapping() -> None:
    details = RunDetails.from_wire(FAILED)
    (error,) = details.errors
    assert error["code"] == "UserScriptError"
    assert error["message"] == TEXT
    assert error["details"] == [{"name": "Node", "value": "node 1"}]
    assert details.exit_code == 3


def test_warnings_do_not_make_a_job_fail() -> None:
    (warning,) = RunDetails.from_wire(FAILED).warnings
    assert warning["message"] == "Compute: 2 nodes were preempted"
    assert warning["code"] in WARNINGS


def test_times_and_logs_are_read() -> None:
    details = RunDetails.from_wire(FAILED)
    assert details.ended == datetime(2026, 11, 23, 10, 5, tzinfo=timezone.utc)
    assert list(details.log_files) == ["user_logs/std_log.txt"]
    assert "sig" not in repr(details)


@pytest.mark.parametrize("status", ["Completed", "Failed", "Canceled"])
def test_a_run_has_ended_in_a_final_status(status: str) -> None:
    assert RunDetails.from_wire({"status": status}).is_final


@pytest.mark.parametrize("status", ["Running", "Finalizing", "CancelRequested", "NotResponding", "Queued"])
def test_a_run_goes_on_in_any_other(status: str) -> None:
    details = RunDetails.from_wire({"status": status, "error": None, "logFiles": None})
    assert not details.is_final
    assert details.errors == ()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("User process '/opt/python' exited with status code 1. Please check log file", 1),
        ("Execution failed. Process exited with code -9", -9),
        ("Exit code: 137", 137),
        ("the image could not be pulled", None),
    ],
)
def test_the_exit_code_is_found_in_the_text(message: str, code: int | None) -> None:
    details = RunDetails.from_wire(
        {"status": "Failed", "error": {"error": {"code": "UserError", "message": message}}}
    )
    assert details.exit_code == code
