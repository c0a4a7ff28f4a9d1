"""What the program that runs a job makes of signals, and of a job that it is to wait for again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.run_end import Predecessor, write_end, write_predecessors
from batchai_magics.backends.node.launcher import PlanProcesses
from batchai_magics.backends.node.outcome import REQUEUE
from batchai_magics.backends.slurm.node.attempt_ends import TERMINATED, RunningAttempt
from batchai_magics.backends.slurm.node.run_files import AttemptNote, JobBundle, RunFiles, SlurmSubmission
from batchai_magics.backends.slurm.node.slurm_launcher import SlurmReport
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import LogPaths, Output, Plan, ProcessExit

CHILD: set[int] = {signal.SIGCHLD}
END: set[int] = {signal.SIGTERM}


class ScriptedProcesses:
    """Processes that were told to end, of which these signals come one after the other."""

    def __init__(self, *signals: set[int]) -> None:
        self.is_running = False
        self.ends = [ProcessExit(rank=0, node="node1", exit_code=TERMINATED)]
        self._signals = iter(signals)

    def poll(self, timeout_s: float) -> set[int]:
        """The next of them."""
        return next(self._signals)


def test_word_that_the_job_has_to_end_may_come_behind_the_ends_of_all_it_has_started(tmp_path):
    """Slurm signals all, in any order: a job that is begun again must not be taken to have failed."""
    files, plan = RunFiles(tmp_path), Plan("g", (), (), Output(LogPaths(""), LogPaths("")), "", "python3")
    report = SlurmReport(files, RunningAttempt(files, 1), ["node1"], plan)
    told = ScriptedProcesses(CHILD, set(), CHILD, END)
    assert report.was_ended(cast(PlanProcesses, told))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_requeued", "says", "code", "text"),
    [
        (True, "", "JobLaunchFailed", "Slurm did not queue the job again: "),  # there is no scontrol
        (True, "JobState=CANCELLED", "DependencyFailed", "first did not succeed"),  # before it ran again
        (False, "", "DependencyFailed", "first did not succeed"),  # it is over, and has left no outcome
    ],
)
def test_a_job_never_runs_beside_its_predecessor_or_after_one_that_was_killed(
    tmp_path, is_requeued, says, code, text
):
    first = predecessor(tmp_path)
    if is_requeued:
        first.ask_to_stop(1, AttemptNote(REQUEUE, 2.0))
    (error,) = end_behind(tmp_path, f"echo {says}" if says else "").errors
    assert (error["code"], error["message"].startswith(text)) == (code, True)


@pytest.mark.slow
def test_an_end_that_appears_on_the_node_of_the_next_job_only_after_a_moment_counts(tmp_path):
    """As on NFS, whose clients remember for a while which files are missing."""
    first = predecessor(tmp_path)
    write_end(first.root / "seen", Outcome(0))
    appear = f"[ -e {tmp_path}/asked ] && /bin/mv {first.root}/seen {first.end}; : > {tmp_path}/asked"
    (error,) = end_behind(tmp_path, f"{appear}; echo JobState=COMPLETED").errors
    assert error["code"] == "SupervisorFailed"  # it runs, although it has no plan
    assert not [file.name for file in first.root.iterdir() if file.name.startswith("tmp")]


def predecessor(folder: Path) -> RunFiles:
    """A run that was submitted."""
    files = RunFiles(folder / "first")
    files.note_submission(1, SlurmSubmission("7", 1.0))
    return files


def end_behind(folder: Path, scontrol: str) -> Outcome:
    """How a job without a plan ends that starts after that run; `scontrol` is what that does, if any."""
    files, programs = RunFiles(folder / "second"), folder / "bin"
    write_predecessors(files, [Predecessor("first", "first", must_succeed=True)])
    private_files.write(files.bundle, JobBundle("", "pmi2", "", lost_s=0.5).to_json())
    programs.mkdir()
    if scontrol:
        (programs / "scontrol").write_text(f"#!/bin/sh\n{scontrol}\n")
        (programs / "scontrol").chmod(0o755)
    words = [sys.executable, "-m", "batchai_magics.backends.slurm.node.run_job", str(files.root), "1"]
    done = subprocess.run(words, env={"PATH": str(programs), "SLURM_JOB_ID": "8"}, check=False)
    assert (done.returncode, files.outcome is None) == (1, False)
    return files.outcome or Outcome(None)
