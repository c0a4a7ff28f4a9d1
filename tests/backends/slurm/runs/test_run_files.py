"""The files of a run: each written once, by whoever is first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batchai_magics.backends.node.outcome import REQUEUE, stopped
from batchai_magics.backends.slurm.node import attempt_ends, run_files
from batchai_magics.backends.slurm.node.attempt_ends import EndState
from batchai_magics.backends.slurm.node.job_bundle import JobBundle
from batchai_magics.backends.slurm.node.run_files import (
    AttemptEnd,
    AttemptStart,
    RunFiles,
    SlurmSubmission,
    Stop,
    has_next_attempt,
)
from batchai_magics.launch.outcome import Outcome, RunAttempt
from batchai_magics.launch.plan import LogPaths, Output, Plan, PlanNode, Process
from batchai_magics.launch.references import ReferenceKind, joined, reference


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles(tmp_path)


def test_the_latest_attempt_is_the_one_submitted_last(files: RunFiles) -> None:
    assert files.attempt == 0
    for number in (1, 2):
        assert files.note_submission(number, SlurmSubmission(str(number), 1.0))
    assert (files.attempt, files.submission(2)) == (2, SlurmSubmission("2", 1.0))
    assert not files.note_submission(2, SlurmSubmission("3", 1.0))


def test_the_first_reason_to_stop_stands(files: RunFiles) -> None:
    assert files.ask_to_stop(1, Stop("terminate", 1.0))
    assert not files.ask_to_stop(1, Stop("another", 2.0))
    assert files.stop(1) == files.last_stop(1) == Stop("terminate", 1.0)
    assert files.stop(2) is None


def test_an_attempt_that_is_to_be_begun_again_can_be_ended_for_good(files: RunFiles) -> None:
    reopen, end = Stop(REQUEUE, 1.0), Stop("terminate", 2.0)
    assert files.last_stop(1) is None
    assert files.ask_to_stop(1, reopen) == 1
    assert not files.ask_to_stop(1, reopen)
    assert files.last_stop(1) == reopen
    assert files.ask_to_stop(1, end) == 2
    assert not files.ask_to_stop(1, end)
    assert (files.stop(1), files.stop(2), files.last_stop(1)) == (reopen, end, end)


def test_an_attempt_that_slurm_starts_again_has_begun_anew(files: RunFiles) -> None:
    files.note_attempt_start(1, AttemptStart("7", ("n1",), 1.0))
    files.note_attempt_start(1, AttemptStart("7", ("n2", "n3"), 2.0, restarts=1))
    assert files.attempt_start(1) == AttemptStart("7", ("n2", "n3"), 2.0, restarts=1)


def test_every_beginning_is_kept_with_why_it_was_over(files: RunFiles) -> None:
    first, second, third = (
        AttemptStart("7", ("n1",), 1.0),
        AttemptStart("7", ("n2",), 2.0, 1),
        AttemptStart("8", ("n1",), 3.0),
    )
    files.note_submission(1, SlurmSubmission("7", 0.0))
    files.note_attempt_start(1, first)
    files.note_attempt_end(1, 0, AttemptEnd("preempted", 1.5))
    files.note_attempt_end(1, 0, AttemptEnd("another", 1.6))
    assert not files.is_superseded(1, 0)
    files.note_attempt_start(1, second)
    assert (files.is_superseded(1, 0), files.is_superseded(1, 1)) == (True, False)
    files.note_submission(2, SlurmSubmission("8", 2.5))
    files.note_attempt_start(2, third)
    assert files.is_superseded(1, 1)
    assert files.attempts() == [
        RunAttempt(("n1",), 1.0, 1.5, "preempted"),
        RunAttempt(("n2",), 2.0, 3.0, run_files.NOT_REPORTED),
        RunAttempt(("n1",), 3.0),
    ]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-11-22T10:00 DUE TO PREEMPTION ***",
            "PREEMPTION",
        ),
        (
            "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-11-22T10:00 DUE TO NODE FAILURE,"
            " SEE SLURMCTLD LOG FOR DETAILS ***",
            "NODE FAILURE",
        ),
        ("slurmstepd-node1: error: *** JOB 1 ON node1 CANCELLED AT 2026-11-22T10:00:00 ***", ""),
        ("", ""),
    ],
)
def test_slurm_says_why_it_ends_a_script(files: RunFiles, said: str, reason: str) -> None:
    files.batch_log.write_text(f"something else\n{said}\n")
    assert attempt_ends.batch_log_text(files.batch_log) == reason


@pytest.mark.parametrize(
    ("said", "ending"),
    [
        ("slurmstepd: error: Exceeded job memory limit", EndState.OUT_OF_MEMORY),
        (
            "slurmstepd: error: StepId=1.batch exceeded memory limit (108007424 > 52428800), being killed",
            EndState.OUT_OF_MEMORY,
        ),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0 cgroup.", EndState.OUT_OF_MEMORY),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.", EndState.OUT_OF_MEMORY),
        (
            "slurmstepd: error: *** JOB 2 ON n1 CANCELLED AT 2026-11-22T15:10 DUE TO TIME LIMIT ***",
            EndState.TIMEOUT,
        ),
        ("slurmstepd: error: *** JOB 2 ON n1 CANCELLED AT 2026-11-22T15:10:34 ***", None),
    ],
)
def test_what_slurm_writes_into_the_scripts_log_tells_how_it_ended(
    files: RunFiles, said: str, ending: EndState | None
) -> None:
    files.batch_log.write_text(f"{said}\n")
    assert attempt_ends.logged_end(files.batch_log) is ending


def test_processes_of_an_earlier_beginning_see_that_there_is_another(files: RunFiles) -> None:
    def plan(exits: str) -> Plan:
        node = PlanNode("n", "/h", "", {})
        return Plan("g", (node,), (), Output(LogPaths("o"), LogPaths("e")), f"{files.root}/{exits}", "python")

    (files.root / "exits-2").mkdir()
    assert has_next_attempt(plan("exits"))
    assert not has_next_attempt(plan("exits-2"))
    assert not has_next_attempt(plan("preparation-exits"))


def test_a_run_ends_once_and_its_secrets_go(files: RunFiles) -> None:
    files.secrets.write_text(json.dumps({"KEY": "hush"}))
    assert files.note_end(Outcome(0, ended=1.0))
    assert not files.note_end(stopped("terminate"))
    assert files.end == Outcome(0, ended=1.0)
    assert [file.name for file in files.root.iterdir()] == ["end.json"]


def test_who_sees_that_a_run_has_ended_finds_no_secret(
    files: RunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.secrets.write_text(json.dumps({"KEY": "hush"}))
    link, left = run_files.link_once, []
    monkeypatch.setattr(
        run_files, "link_once", lambda *names: left.append(files.secrets.exists()) or link(*names)
    )
    assert files.note_end(Outcome(0, ended=1.0))
    assert left == [False]


def test_an_order_is_resolved_with_the_nodes_and_ports_that_there_are() -> None:
    names = [reference(ReferenceKind.NODE, number) for number in (0, 1, 10)]
    nodes = tuple(PlanNode(name, joined(["/h/", name]), "", {}) for name in names)
    command = joined(
        ["connect ", reference(ReferenceKind.ADDRESS, 10), ":", reference(ReferenceKind.PORT, 0)]
    )
    plan = Plan(
        "g",
        nodes,
        (Process(0, 2, command),),
        Output(LogPaths("o"), LogPaths("e")),
        "x",
        "python",
        port_count=1,
    )
    bundle = JobBundle(plan.to_json(), "pmi2", "/p")
    given = ["a", "b", *(f"x{number}" for number in range(2, 10)), "c"]
    resolved = bundle.resolved(plan, "guid", given, [f"{name}.net" for name in given])
    assert [node.id for node in resolved.nodes] == ["a", "b", "c"]
    assert [node.folder for node in resolved.nodes] == ["/h/a", "/h/b", "/h/c"]
    host, _, number = resolved.processes[0].command.partition(":")
    assert (host, 1024 <= int(number) < 65536) == ("connect c.net", True)
