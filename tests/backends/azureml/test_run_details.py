"""The details of a run, as run history writes them, and the names of its log files."""

import json
from datetime import datetime, timezone

import pytest

from batchai_magics.backends.azureml.run_details import (
    RankLog,
    RunDetails,
    attempt_count,
    other_logs,
    parse_log_name,
    rank_logs,
)
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
            "message": json.dumps({"NonCompliant": TEXT}),
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


def test_the_text_of_an_error_is_freed_of_its_wrapping():
    details = RunDetails.from_wire(FAILED)
    (error,) = details.errors
    assert error["code"] == "UserScriptError"
    assert error["message"] == TEXT
    assert error["details"] == [{"name": "Node", "value": "node 1"}]
    assert details.exit_code == 3


def test_warnings_do_not_make_a_job_fail():
    (warning,) = RunDetails.from_wire(FAILED).warnings
    assert warning["message"] == "Compute: 2 nodes were preempted"
    assert warning["code"] in WARNINGS


def test_times_and_logs_are_read():
    details = RunDetails.from_wire(FAILED)
    assert details.ended == datetime(2026, 11, 23, 10, 5, tzinfo=timezone.utc)
    assert list(details.log_files) == ["user_logs/std_log.txt"]
    assert "sig" not in repr(details)


@pytest.mark.parametrize("status", ["Completed", "Failed", "Canceled"])
def test_a_run_has_ended_in_a_final_status(status):
    assert RunDetails.from_wire({"status": status}).is_final


@pytest.mark.parametrize("status", ["Running", "Finalizing", "CancelRequested", "NotResponding", "Queued"])
def test_a_run_goes_on_in_any_other(status):
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
def test_the_exit_code_is_found_in_the_text(message, code):
    details = RunDetails.from_wire(
        {"status": "Failed", "error": {"error": {"code": "UserError", "message": message}}}
    )
    assert details.exit_code == code


# names of log files


@pytest.mark.parametrize(
    ("name", "attempt", "rank", "path"),
    [
        ("user_logs/std_log.txt", 0, 0, "stdout.txt"),
        ("user_logs/std_log_process_0.txt", 0, 0, "stdout-0.txt"),
        ("user_logs/std_log_process_07.txt", 0, 7, "stdout-7.txt"),
        ("user_logs/retry_002/std_log_process_11.txt", 2, 11, "stdout-11.txt"),
        ("user_logs/std_log_node_01_worker.txt", 0, 1, "stdout-wk-1.txt"),
        ("user_logs/std_log_node_00_ps.txt", 0, 3, "stdout-ps-0.txt"),
        ("azureml-logs/70_driver_log.txt", 0, 0, "stdout.txt"),
        ("azureml-logs/70_driver_log_1.txt", 0, 1, "stdout-1.txt"),
    ],
)
def test_a_name_says_whose_log_it_is(name, attempt, rank, path):
    log = parse_log_name(name, worker_count=3)
    assert log is not None
    assert (log.attempt, log.rank, log.path) == (attempt, rank, path)


@pytest.mark.parametrize(
    "name",
    [
        "system_logs/lifecycler/execution-wrapper.log",
        "user_logs/mpi_log.txt",
        "logs/std_log.txt",
        "std_log.txt",
    ],
)
def test_files_of_the_service_belong_to_no_process(name):
    assert parse_log_name(name) is None


def test_logs_are_in_the_order_of_attempt_and_rank_and_parameter_servers_come_last():
    processes = ["retry_001/std_log_process_0", "std_log_process_1", "std_log_process_0"]
    names = [*(f"user_logs/{name}.txt" for name in processes), "system_logs/x.log"]
    assert [(log.attempt, log.rank) for log in rank_logs(names)] == [(0, 0), (0, 1), (1, 0)]
    assert attempt_count(names) == 2
    names = [f"user_logs/std_log_node_{index:02}_{role}.txt" for role in ("ps", "worker") for index in (0, 1)]
    labels = [(log.rank, log.label) for log in rank_logs(names)]
    assert labels == [(0, "wk-0"), (1, "wk-1"), (2, "ps-0"), (3, "ps-1")]


def test_old_names_count_only_without_new_ones():
    old, new = "azureml-logs/70_driver_log.txt", "user_logs/std_log.txt"
    assert rank_logs([old]) == [RankLog(old, 0, 0)]
    assert rank_logs([old, new]) == [RankLog(new, 0, 0)]


def test_the_log_of_mpirun_is_found_for_each_attempt():
    names = ["user_logs/retry_001/mpi_log.txt", "user_logs/mpi_log.txt", "user_logs/std_log.txt"]
    assert [log.name for log in other_logs(names)] == names[1::-1]


def test_files_that_a_job_writes_beside_its_logs_are_logs_of_their_own():
    (log,) = other_logs(["logs/batchai/stdouterr/stdout-job_prep.txt", "logs/batchai/exits/0.json"])
    assert (log.path, log.tailed_path) == ("stdout-job_prep.txt", "stdout-job_prep.txt")
