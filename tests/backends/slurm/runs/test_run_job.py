"""What the program that runs a job makes of signals, and of a job that it is to wait for again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from batchai_magics.backends.folders.run_end import Predecessor, write_predecessors
from batchai_magics.backends.node.launcher import PlanProcesses
from batchai_magics.backends.node.outcome import REQUEUE
from batchai_magics.backends.slurm.node.attempt_ends import TERMINATED, RunningAttempt
from batchai_magics.backends.slurm.node.run_files import AttemptNote, RunFiles, SlurmSubmission
from batchai_magics.backends.slurm.node.slurm_launcher import SlurmReport
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


def test_word_that_the_job_has_to_end_may_come_behind_the_ends_of_all_it_has_started(tmp_path: Path) -> None:
    """Slurm signals all, in any order: a job that is begun again must not be taken to have failed."""
    files, plan = RunFiles(tmp_path), Plan("g", (), (), Output(LogPaths(""), LogPaths("")), "", "python3")
    report = SlurmReport(files, RunningAttempt(files, 1), ["node1"], plan)
    told = ScriptedProcesses(CHILD, set(), CHILD, END)
    assert report.was_ended(cast(PlanProcesses, told))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_requeued", "code", "text"),
    [
        (True, "JobLaunchFailed", "Slurm did not queue the job again: "),
        (False, "DependencyFailed", "first did not succeed"),  # it is over, and has left no outcome
    ],
)
def test_a_job_never_runs_beside_its_predecessor_or_after_one_that_was_killed(
    tmp_path: Path, is_requeued: bool, code: str, text: str
) -> None:
    first, second = RunFiles(tmp_path / "first"), RunFiles(tmp_path / "second")
    first.note_submission(1, SlurmSubmission("7", 1.0))
    if is_requeued:
        first.ask_to_stop(1, AttemptNote(REQUEUE, 2.0))
    write_predecessors(second, [Predecessor("first", "first", must_succeed=True)])
    words = [sys.executable, "-m", "batchai_magics.backends.slurm.node.run_job", str(second.root), "1"]
    done = subprocess.run(words, env={"PATH": "", "SLURM_JOB_ID": "8"}, check=False)  # there is no scontrol
    assert done.returncode == 1
    (error,) = second.outcome.errors
    assert (error["code"], error["message"].startswith(text)) == (code, True)
