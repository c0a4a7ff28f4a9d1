"""How a job ended, from the small files that its processes left. Nothing runs here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batchai_magics.backends.node import outcome
from batchai_magics.backends.node.outcome import (
    Outcome,
    failed_with,
    of_preparation,
    of_ranks,
    stopped,
)
from batchai_magics.launch.plan import LogFile, Node, Output, Plan, Process, Role


def plan(folder: Path, *roles: str, notes: tuple[str, ...] = ()) -> Plan:
    """A plan of processes on two nodes, every other one on the second."""
    return Plan(
        guid="g",
        nodes=tuple(Node(f"n{number}", "/", "/tmp", {}) for number in range(2)),
        processes=tuple(Process(rank, rank % 2, "x", Role(role)) for rank, role in enumerate(roles)),
        output=Output(*(LogFile(str(folder / name)) for name in ("stdout.txt", "stderr.txt"))),
        exits=str(folder),
        python="python",
        notes=notes,
    )


def leave(folder: Path, rank: int, code: int, ended: float = 1.0) -> None:
    body = {"rank": rank, "node": f"n{rank % 2}", "exit_code": code, "ended": ended}
    (folder / str(rank)).write_text(json.dumps(body))


def details(end: Outcome) -> dict[str, str]:
    return {item["name"]: item["value"] for item in end.errors[0].get("details", ())}


def test_a_job_whose_ranks_all_end_well_succeeds(tmp_path: Path) -> None:
    for rank in range(2):
        leave(tmp_path, rank, 0)
    end = of_ranks(tmp_path, plan(tmp_path, "rank", "rank"), {0, 1}, launcher_code=0)
    assert (end.is_success, end.exit_code, [rank.rank for rank in end.ranks]) == (True, 0, [0, 1])
    assert end.sentence == "the job ended with exit code 0"


def test_the_failure_that_came_first_decides(tmp_path: Path) -> None:
    leave(tmp_path, 0, 3, ended=20.0)
    leave(tmp_path, 1, 7, ended=10.0)
    leave(tmp_path, 2, 0, ended=5.0)
    end = of_ranks(tmp_path, plan(tmp_path, "rank", "rank", "rank"), {0, 1, 2}, launcher_code=0)
    assert (end.exit_code, end.errors[0]["code"]) == (7, "JobFailed")
    assert details(end) == {"failedRank": "1", "failedNode": "n1", "exitCode": "7"}
    assert [rank.rank for rank in end.ranks] == [1, 0, 2]
    assert end.sentence.startswith("the job ended with exit code 7 (JobFailed: ")


def test_of_two_failures_at_one_moment_the_lower_rank_is_named(tmp_path: Path) -> None:
    for rank in (0, 1):
        leave(tmp_path, rank, rank + 3)
    assert of_ranks(tmp_path, plan(tmp_path, "rank", "rank"), {0, 1}, launcher_code=0).exit_code == 3


def test_what_is_not_as_asked_for_is_told_with_the_failure(tmp_path: Path) -> None:
    leave(tmp_path, 0, 1)
    end = of_ranks(tmp_path, plan(tmp_path, "rank", notes=("no image",)), {0}, launcher_code=0)
    assert details(end)["note"] == "no image"


def test_parameter_servers_do_not_decide(tmp_path: Path) -> None:
    leave(tmp_path, 0, 0)
    leave(tmp_path, 1, 143)
    end = of_ranks(tmp_path, plan(tmp_path, "master", "ps"), {0}, launcher_code=0)
    assert (end.is_success, end.exit_code) == (True, 0)


@pytest.mark.parametrize("role", ["master", "worker"])
def test_all_others_do(tmp_path: Path, role: str) -> None:
    leave(tmp_path, 0, 0)
    leave(tmp_path, 1, 9)
    end = of_ranks(tmp_path, plan(tmp_path, "ps", role), {0, 1}, launcher_code=0)
    assert (end.is_success, end.exit_code) == (False, 9)


def test_a_file_that_is_being_written_does_not_count(tmp_path: Path) -> None:
    leave(tmp_path, 0, 0)
    (tmp_path / "1.part").write_text("{")
    end = of_ranks(tmp_path, plan(tmp_path, "rank", "rank"), {0}, launcher_code=0)
    assert [(rank.rank, rank.node, rank.exit_code) for rank in end.ranks] == [
        (0, "n0", 0),
        (1, "n1", None),
    ]
    assert details(end) == {"processes": "1"}


def test_a_rank_that_was_ended_with_the_job_is_not_its_first_failure(tmp_path: Path) -> None:
    """Rank 0 disappeared; rank 1 was told to end because of that."""
    leave(tmp_path, 1, 143)
    end = of_ranks(tmp_path, plan(tmp_path, "rank", "rank"), set(), launcher_code=0)
    assert (end.exit_code, end.errors[0]["message"]) == (
        255,
        "Processes disappeared before the job was done",
    )
    assert details(end) == {"processes": "1,0"}


@pytest.mark.parametrize(("launcher", "code"), [(-9, 137), (7, 7)])
def test_a_launcher_that_failed_gives_the_job_its_code(tmp_path: Path, launcher: int, code: int) -> None:
    end = of_ranks(tmp_path, plan(tmp_path, "rank"), set(), launcher_code=launcher)
    assert end.exit_code == code
    assert f"mpiexec) ended with code {launcher}" in end.errors[0]["message"]


def test_ranks_that_could_not_write_say_that_the_disk_is_full(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(outcome, "FULL_BYTES", 1 << 62)
    end = of_ranks(tmp_path, plan(tmp_path, "rank"), set(), launcher_code=0)
    assert (end.exit_code, end.errors[0]["code"]) == (None, "DiskFull")
    assert [rank.rank for rank in end.ranks] == [0]


def test_a_rank_that_failed_by_itself_on_a_full_disk_is_still_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(outcome, "FULL_BYTES", 1 << 62)
    leave(tmp_path, 0, 5)
    end = of_ranks(tmp_path, plan(tmp_path, "rank"), {0}, launcher_code=0)
    assert (end.exit_code, end.errors[0]["code"]) == (5, "JobFailed")


def test_preparation_fails_with_the_first_nodes_code() -> None:
    assert of_preparation([0, 0]) is None
    end = of_preparation([0, 4, 5])
    assert end
    assert (end.exit_code, end.errors[0]["code"]) == (4, "JobPreparationFailed")


def test_a_job_that_was_stopped_says_why() -> None:
    again = stopped("requeue")
    assert (again.is_requeued, again.is_success, again.errors) == (True, False, ())
    assert again.sentence == "the job was stopped and queued again"
    assert "by the user" in stopped("terminate").errors[0]["message"]
    assert stopped("the job was deleted").errors[0] == {
        "code": "JobTerminated",
        "message": "the job was deleted",
    }


def test_a_failure_of_no_process_has_no_exit_code_and_keeps_its_details() -> None:
    end = failed_with("FailedStartingContainer", "no image", imageName="tf")
    assert (end.exit_code, end.is_success, details(end)) == (None, False, {"imageName": "tf"})
    assert end.sentence == "the job ended with exit code none (FailedStartingContainer: no image)"


def test_a_stopped_job_still_tells_what_became_of_each_rank(tmp_path: Path) -> None:
    leave(tmp_path, 1, 143)
    end = stopped("terminate").with_ranks(tmp_path, plan(tmp_path, "rank", "rank"))
    assert [(rank.rank, rank.exit_code) for rank in end.ranks] == [(1, 143), (0, None)]
    assert end.exit_code is None
