"""The files of a run: each written once, by whoever is first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batchai_magics.backends.node.outcome import stop_outcome
from batchai_magics.backends.slurm.node import attempt_ends, run_files, slurm_launcher
from batchai_magics.backends.slurm.node.attempt_ends import EndState
from batchai_magics.backends.slurm.node.run_files import JobBundle, RunFiles, has_next_attempt
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import LogPaths, Output, Plan, PlanNode, Process
from batchai_magics.launch.references import ReferenceKind, joined, reference


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles(tmp_path)


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (" DUE TO PREEMPTION", "Slurm took its nodes for another job"),
        (" DUE TO JOB REQUEUE", "somebody had Slurm queue it again"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "Slurm lost a node of it"),
        ("", "somebody had Slurm queue it again"),
    ],
)
def test_why_slurm_begins_a_job_again_is_told_in_words(files, why, words):
    files.batch_log.write_text(f"slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-11-22T10:00{why} ***\n")
    attempt_ends.RunningAttempt(files, 1).record_end()
    assert files.attempt_end(1, 0).reason == words


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
def test_what_slurm_writes_into_the_scripts_log_tells_how_it_ended(files, said, ending):
    files.batch_log.write_text(f"{said}\n")
    assert attempt_ends.logged_end(files.batch_log) is ending


def test_processes_of_an_earlier_beginning_see_that_there_is_another(files):
    def plan(exits: str) -> Plan:
        node = PlanNode("n", "/h", "", {})
        return Plan("g", (node,), (), Output(LogPaths("o"), LogPaths("e")), f"{files.root}/{exits}", "python")

    (files.root / "exits-2").mkdir()
    assert has_next_attempt(plan("exits"))
    assert not has_next_attempt(plan("exits-2"))
    assert not has_next_attempt(plan("preparation-exits"))


def test_a_run_ends_once_and_its_secrets_go(files):
    files.secrets.write_text(json.dumps({"KEY": "hush"}))
    assert files.note_end(Outcome(0, ended=1.0))
    assert not files.note_end(stop_outcome("terminate"))
    assert files.outcome == Outcome(0, ended=1.0)
    assert [file.name for file in files.root.iterdir()] == ["end.json"]


def test_secrets_are_removed_before_the_end_of_a_run_is_visible(files, monkeypatch):
    files.secrets.write_text(json.dumps({"KEY": "hush"}))
    link, left = run_files.link_once, []
    monkeypatch.setattr(
        run_files, "link_once", lambda *names: left.append(files.secrets.exists()) or link(*names)
    )
    assert files.note_end(Outcome(0, ended=1.0))
    assert left == [False]


def test_an_order_is_resolved_with_the_nodes_and_ports_that_there_are():
    names = [reference(ReferenceKind.NODE, number) for number in (0, 1, 10)]
    nodes = tuple(PlanNode(name, joined(["/h/", name]), "", {}) for name in names)
    command = joined(
        ["connect ", reference(ReferenceKind.ADDRESS, 10), ":", reference(ReferenceKind.PORT, 0)]
    )
    output = Output(LogPaths("o"), LogPaths("e"))
    plan = Plan("g", nodes, (Process(0, 2, command),), output, "x", "python", port_count=1)
    bundle = JobBundle(plan.to_json(), "pmi2", "/p")
    given = ["a", "b", *(f"x{number}" for number in range(2, 10)), "c"]
    resolved = slurm_launcher.resolved(bundle, plan, "guid", given, [f"{name}.net" for name in given])
    assert [node.id for node in resolved.nodes] == ["a", "b", "c"]
    assert [node.folder for node in resolved.nodes] == ["/h/a", "/h/b", "/h/c"]
    host, _, number = resolved.processes[0].command.partition(":")
    assert (host, 1024 <= int(number) < 65536) == ("connect c.net", True)
