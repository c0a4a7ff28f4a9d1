"""The program that runs a job on the first node of its allocation.

Started as `ROOT ATTEMPT`. It records the start, runs the attempt and records the outcome, all in the job's
folder.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from batchai_magics.backends.node.attempt import AttemptRunner
from batchai_magics.backends.node.outcome import dependency_failed, failed_with, not_run
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.slurm.node import allocation, notification_sending
from batchai_magics.backends.slurm.node.attempt_ends import RunningAttempt
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.backends.slurm.node.scratch import ScratchError
from batchai_magics.backends.slurm.node.slurm_launcher import SlurmLauncher
from batchai_magics.launch.outcome import Outcome


def main() -> None:
    """Runs the job, and records its end."""
    files, signal_pipe = RunFiles(Path(sys.argv[1])), SignalPipe()
    termination.adopt_orphans()
    if files.end or _waits_again(files):  # it was already recorded as lost, or is not due
        return
    running = RunningAttempt(files, int(sys.argv[2]))
    try:
        outcome = _failed_predecessor(files) or _run(files, running, signal_pipe)
    except ScratchError as error:
        outcome = failed_with("JobLaunchFailed", str(error))
    except Exception as error:  # noqa: BLE001 whatever it was, the job must not stay "running"
        outcome = not_run(error)
    if outcome.is_requeued or running.is_superseded:
        running.record_end()
        outcome = _requeued(outcome)
    if not (outcome.is_requeued or running.is_superseded):
        files.note_end(outcome._replace(ended=time.time()))
        notification_sending.send(files)
    sys.exit(0 if outcome.is_success or outcome.is_requeued else 1)


def _waits_again(files: RunFiles) -> bool:
    """Has Slurm queue the job again if a run that it starts after is to run again; Slurm cannot know."""
    awaited = [each for each in files.after if files.of_run(each.guid).is_requeued]
    return bool(awaited) and not allocation.requeue(is_allowed=True)


def _failed_predecessor(files: RunFiles) -> Outcome | None:
    """The outcome of a job that starts after one which has failed, whatever its script's exit code was."""
    for each in files.after:
        end = files.of_run(each.guid).end
        if each.must_succeed and end and not end.is_success:
            return dependency_failed(each.name)
    return None


def _run(files: RunFiles, running: RunningAttempt, signal_pipe: SignalPipe) -> Outcome:
    launcher = SlurmLauncher(files, running, signal_pipe)
    running.start(launcher.nodes)
    launcher.previous_end = running.previous_end  # known once the start is recorded
    if launcher.plan.limits.max_restarts == launcher.number - 1:
        allocation.forbid_requeue()
    outcome = AttemptRunner(launcher.plan, launcher, launcher.report).run()
    running.reason = outcome.reason or running.reason
    return outcome


def _requeued(outcome: Outcome) -> Outcome:
    """The outcome after asking Slurm for another attempt: this one's if it refuses."""
    refusal = allocation.requeue() if outcome.reason else ""
    if not refusal:
        return outcome
    text = f"Slurm did not queue the job again: {refusal}"
    return outcome._replace(is_requeued=False).warned("JobNotRequeued", text)


if __name__ == "__main__":
    main()
