"""How a job ended, from the small files that its processes left. Nothing runs here."""

from __future__ import annotations

import errno

import pytest

from batchai_magics.backends.node.outcome import (
    Fault,
    launch_failure,
    ranks_outcome,
    stop_outcome,
    supervisor_failure,
    time_limit_reached,
    write_error,
    write_failure,
)
from batchai_magics.backends.node.ranks.pmi import Abort
from batchai_magics.errors import StorageError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Limits, LogPaths, Output, Plan, PlanNode, Process, ProcessExit, Role
from batchai_magics.options.job_options import short_duration


def plan(*roles: str, notes: tuple[str, ...] = ()) -> Plan:
    """A plan of processes on two nodes, every other one on the second."""
    return Plan(
        guid="g",
        nodes=tuple(PlanNode(f"n{number}", "/", "/tmp", {}) for number in range(2)),
        processes=tuple(Process(rank, rank % 2, "x", Role(role)) for rank, role in enumerate(roles)),
        output=Output(*(LogPaths(f"/output/{name}") for name in ("stdout.txt", "stderr.txt"))),
        exits="/exits",
        python="python",
        notes=notes,
    )


def process_exit(rank: int, code: int, at: float = 1.0) -> ProcessExit:
    return ProcessExit(rank, f"n{rank % 2}", code, at)


def details(end: Outcome) -> dict[str, str]:
    return {item["name"]: item["value"] for item in end.errors[0].get("details", ())}


def test_the_failure_that_came_first_decides():
    ends = [process_exit(0, 3, at=20.0), process_exit(1, 7, at=10.0), process_exit(2, 0, at=5.0)]
    end = ranks_outcome(ends, plan("rank", "rank", "rank"), {0, 1, 2})
    assert (end.exit_code, end.errors[0]["code"]) == (7, "JobFailed")
    assert details(end) == {"failedRank": "1", "failedNode": "n1", "exitCode": "7"}
    assert [rank.rank for rank in end.ranks] == [1, 0, 2]
    assert end.sentence.startswith("the job ended with exit code 7 (JobFailed: ")


def test_of_two_failures_at_one_moment_the_lower_rank_is_named():
    assert (
        ranks_outcome([process_exit(0, 3), process_exit(1, 4)], plan("rank", "rank"), {0, 1}).exit_code == 3
    )


def test_notes_of_the_plan_are_reported_with_the_failure():
    end = ranks_outcome([process_exit(0, 1)], plan("rank", notes=("no image",)), {0})
    assert details(end)["note"] == "no image"


def test_a_rank_that_was_ended_with_the_job_is_not_its_first_failure():
    """Rank 0 left no exit code; rank 1 was told to end because of that."""
    end = ranks_outcome([process_exit(1, 143)], plan("rank", "rank"), set())
    assert [(rank.rank, rank.node, rank.exit_code) for rank in end.ranks] == [(1, "n1", 143), (0, "n0", None)]
    message = "Processes disappeared before the job was done"
    assert (end.exit_code, end.errors[0]["code"], end.errors[0]["message"]) == (255, "JobFailed", message)
    assert details(end) == {"processes": "1,0"}


@pytest.mark.parametrize(("code", "expected"), [(42, 42), (300, 44), (0, 1), (256, 1)])
def test_a_rank_that_aborts_fails_the_job_with_its_code(code, expected):
    end = ranks_outcome(
        [process_exit(0, 143)], plan("rank", "rank"), set(), Fault(abort=Abort(1, code, "why"))
    )
    assert end.exit_code == expected
    assert details(end) == {"failedRank": "1", "failedNode": "n1", "exitCode": str(expected)}


def test_ranks_that_leave_the_others_waiting_fail_the_job_whatever_their_code():
    ends = [process_exit(0, 143), process_exit(1, 0)]
    end = ranks_outcome(ends, plan("rank", "rank"), {1}, Fault(missed=(1,)))
    message = "Rank 1 ended without MPI_Finalize while other ranks were waiting for it"
    assert (end.exit_code, end.errors[0]["code"], end.errors[0]["message"]) == (255, "JobFailed", message)
    assert details(end) == {"processes": "1"}
    both = ranks_outcome(ends, plan("rank", "rank"), {1}, Fault(missed=(1, 2)))
    assert both.errors[0]["message"].startswith("Ranks 1, 2 ended without MPI_Finalize")
    assert both.errors[0]["message"].endswith("waiting for them")
    assert details(both) == {"processes": "1,2"}


def test_ranks_that_all_end_well_in_time_are_no_failure_whoever_left_first():
    assert ranks_outcome(
        [process_exit(0, 0), process_exit(1, 0)], plan("rank", "rank"), {0, 1}, Fault(missed=(1,))
    ).is_success


FULL = OSError(28, "No space left on device")


def test_output_that_could_not_be_kept_fails_the_job_with_its_reason():
    end = ranks_outcome([], plan("rank"), set(), Fault(unwritable=FULL))
    assert (end.exit_code, end.errors[0]["code"]) == (None, "DiskFull")
    remedy = "free some space in /output, then resubmit"
    assert end.errors[0]["message"] == f"The disk that holds the job's output is full: {remedy}"
    assert [rank.rank for rank in end.ranks] == [0]
    assert write_failure(OSError(5, "Input/output error"), plan("rank")).errors[0] == {
        "code": "OutputLost",
        "message": "The job's output could not be written: Input/output error",
    }


@pytest.mark.parametrize(
    ("errnos", "expected"),
    [((), None), ((errno.EAGAIN, errno.ENOSPC), errno.ENOSPC), ((errno.EIO, errno.EAGAIN), errno.EIO)],
)
def test_of_what_kept_ranks_from_writing_a_full_disk_is_reported(errnos, expected):
    error = write_error(errnos)
    assert (error.errno if error else None) == expected


@pytest.mark.parametrize("error", [FULL, StorageError("state.db is full", code="DiskFull")])
def test_a_job_that_a_full_disk_does_not_let_run_says_so(error):
    ends = [end(error).errors[0] for end in (supervisor_failure, launch_failure)]
    assert [end["code"] for end in ends] == ["DiskFull", "DiskFull"]
    assert [end["message"] for end in ends] == [
        "The disk is full: the job could not be run to its end",
        "The disk is full: nothing of the job was started. Free some space and submit it again",
    ]


def test_other_errors_are_reported_with_their_own_message():
    error = OSError(2, "No such file")
    assert supervisor_failure(error).errors[0]["code"] == "SupervisorFailed"
    assert launch_failure(error).errors[0] == {
        "code": "JobLaunchFailed",
        "message": "[Errno 2] No such file",
    }


@pytest.mark.parametrize(("code", "errors"), [(5, ["JobFailed", "DiskFull"]), (0, ["DiskFull"])])
def test_a_process_that_ended_by_itself_on_a_full_disk_has_its_exit_code(code, errors):
    end = ranks_outcome([process_exit(0, code)], plan("rank"), {0}, Fault(unwritable=FULL))
    assert (end.exit_code, [error["code"] for error in end.errors]) == (code, errors)


def test_a_job_that_was_stopped_says_why():
    again = stop_outcome("requeue")
    assert (again.is_requeued, again.is_success, again.errors) == (True, False, ())
    assert again.sentence == "the job was stopped and queued again"
    assert "by the user" in stop_outcome("terminate").errors[0]["message"]
    assert stop_outcome("the job was deleted").errors[0] == {
        "code": "JobTerminated",
        "message": "the job was deleted",
    }


@pytest.mark.parametrize(
    ("seconds", "said", "more"),
    [
        (5.0, "5 s", "10s"),
        (0.5, "0.5 s", "2s"),
        (60.0, "1 min", "2m"),
        (9030.0, "2 h 30 min 30 s", "5h1m"),
        (604_800.0, "7 d", "14d"),
    ],
)
def test_a_job_that_took_too_long_is_told_its_limit_and_how_to_raise_it(seconds, said, more):
    message = time_limit_reached(Limits(wall_s=seconds)).errors[0]["message"]
    assert message == f"The job reached its time limit of {said}; to give it more: --max-time {more}"
    assert short_duration("--max-time", more)
