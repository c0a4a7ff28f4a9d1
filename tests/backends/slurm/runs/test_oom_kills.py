"""What is made of processes on several nodes that were killed, by the words and files that they left."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from batchai_magics.backends.node.outcome import ranks_outcome
from batchai_magics.backends.slurm.node import attempt_ends
from batchai_magics.backends.slurm.node.attempt_ends import with_kill_reason
from batchai_magics.backends.slurm.node.run_files import RankMark
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import LogPaths, Output, Plan, PlanNode, Process, ProcessExit

BINDING = "srun: cluster configuration lacks support for cpu binding\n"
BY_SLURM = "slurmstepd-n1: error: StepId=7.0 exceeded memory limit (349999104 > 104857600), being killed\n"
BY_CGROUP = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks failed.\n"
BY_HAND = (
    "slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-23T14:46:57 ***\nsrun: error: n1: Killed\n"
)
NO_PLUGIN = "srun: error: Couldn't find the specified plugin name for mpi/pmix\n"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two ranks on two nodes, whose programs have started."""
    nodes = tuple(PlanNode(name, "/f", "/t", {}) for name in ("n1", "n2"))
    processes = (Process(0, 0, "x"), Process(1, 1, "x"))
    plan = Plan("g", nodes, processes, Output(LogPaths(""), LogPaths("")), str(tmp_path / "exits"), "python")
    for folder in (RankMark.STARTED.folder(plan), RankMark.OUT_OF_MEMORY.folder(plan)):
        folder.mkdir()
    for rank in (0, 1):
        (RankMark.STARTED.folder(plan) / str(rank)).touch()
    return plan


def outcome_after(
    plan: Plan, tmp_path: Path, words: str, *exits: ProcessExit, cut_off: Collection[int] = ()
) -> Outcome:
    """The outcome after these exits, some of which came from outside, and what srun said."""
    log, own = tmp_path / "batch.log", {end.rank for end in exits} - {*cut_off}
    log.write_text(BINDING + words)
    return with_kill_reason(ranks_outcome(exits, plan, own), plan, log, ended_on_their_own=own)


@pytest.mark.parametrize("words", [BY_SLURM, BY_CGROUP])
@pytest.mark.parametrize("code", [None, 137])
def test_ranks_that_slurm_killed_for_memory_say_so(plan, tmp_path, words, code):
    exits = [ProcessExit(1, "n2", code, 1.0)] if code else []
    outcome = outcome_after(plan, tmp_path, words, *exits)
    (error,) = outcome.errors
    assert error["code"] == "JobOutOfMemory"
    assert words.strip().partition("error: ")[2] in error["message"]
    assert len(outcome.ranks) == 2


def test_a_failure_of_its_own_is_told_before_a_lack_of_memory(plan, tmp_path):
    outcome = outcome_after(plan, tmp_path, BY_SLURM, ProcessExit(0, "n1", 7, 1.0))
    assert (outcome.errors[0]["code"], outcome.exit_code) == ("JobFailed", 7)


def test_the_kernels_counter_tells_a_lack_of_memory_where_slurm_says_nothing(plan, tmp_path):
    (RankMark.OUT_OF_MEMORY.folder(plan) / "1").touch()
    (error,) = outcome_after(plan, tmp_path, "", ProcessExit(1, "n2", 137, 1.0)).errors
    assert (error["code"], "kernel of n2" in error["message"]) == ("JobOutOfMemory", True)
    assert {"name": "failedNode", "value": "n2"} in error["details"]


def test_ranks_that_slurm_ends_for_others_that_were_killed_do_not_hide_that(plan, tmp_path):
    """The signal reaches one node later than the end of the step that follows from it."""
    words = "srun: error: n1: task 0: Killed\nsrun: error: n2: task 1: Exited with exit code 143\n"
    outcome = outcome_after(plan, tmp_path, words, ProcessExit(1, "n2", 143, 1.0), cut_off=[1])
    (error,) = outcome.errors
    assert (error["code"], outcome.exit_code) == ("JobFailed", 137)
    assert error["message"].startswith("Processes of the job (rank 0 on n1) were killed before they could")
    assert error["message"].endswith("Slurm said: n1: task 0: Killed")
    assert [(rank.rank, rank.exit_code) for rank in outcome.ranks] == [(0, 137), (1, 143)]


def test_ranks_that_slurm_never_started_say_why_and_not_what_follows_from_it(plan, tmp_path):
    for file in RankMark.STARTED.folder(plan).iterdir():
        file.unlink()
    aborted = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    unseen = f"{aborted}{BY_HAND}n2 does not see /home\n"
    for words, reason in (
        (NO_PLUGIN, "Couldn't find the specified plugin"),
        (unseen, "n2 does not see /home"),
    ):
        (error,) = outcome_after(plan, tmp_path, words).errors
        assert error["code"] == "JobLaunchFailed"
        assert error["message"].startswith(f"Slurm ran none of the job's processes: {reason}")


@pytest.mark.parametrize("code", [0, 143])
def test_one_rank_that_slurm_never_started_says_why(plan, tmp_path, code):
    (RankMark.STARTED.folder(plan) / "1").unlink()
    words = "srun: error: n2: task 1: Exited with exit code 1\nn2 does not see /home\n"
    first = ProcessExit(0, "n1", code, 1.0)
    outcome = outcome_after(plan, tmp_path, words, first, cut_off=[0] if code else [])
    (error,) = outcome.errors
    assert (error["code"], outcome.is_success) == ("JobLaunchFailed", False)
    assert error["message"] == "Slurm did not run rank 1 (n2): n2 does not see /home"
    assert [rank.exit_code for rank in sorted(outcome.ranks)] == [code, None]


def test_a_rank_that_was_killed_before_another_started_is_the_reason(plan, tmp_path):
    (RankMark.STARTED.folder(plan) / "1").unlink()
    (error,) = outcome_after(plan, tmp_path, NO_PLUGIN, ProcessExit(0, "n1", 137, 1.0)).errors
    assert (error["code"], {"name": "failedRank", "value": "0"} in error["details"]) == ("JobFailed", True)


@pytest.mark.parametrize(("text", "count"), [("pgfault 3\noom_kill 12\nx 1\n", 12), ("pgfault 3\n", 0)])
def test_the_kernel_counts_what_it_kills(tmp_path, text, count):
    (tmp_path / "vmstat").write_text(text)
    assert attempt_ends.oom_kills(tmp_path / "vmstat") == count
    assert attempt_ends.oom_kills(tmp_path / "none") == 0
