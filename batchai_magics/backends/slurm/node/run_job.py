"""The program that runs a job on the first node of its allocation.

Started as `ROOT ATTEMPT`. It records the start, runs the attempt and records the outcome, all in the job's
folder.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from pathlib import Path

from batchai_magics.backends.folders import notification_sending
from batchai_magics.backends.folders.run_end import read_predecessors
from batchai_magics.backends.node.attempt import AttemptRunner
from batchai_magics.backends.node.outcome import dependency_failed, failed_with, node_loss, supervisor_failure
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.slurm.node import allocation
from batchai_magics.backends.slurm.node.attempt_ends import RunningAttempt
from batchai_magics.backends.slurm.node.run_files import JobBundle, RunFiles, read_secrets
from batchai_magics.backends.slurm.node.scratch import ScratchError
from batchai_magics.backends.slurm.node.slurm_launcher import SlurmLauncher
from batchai_magics.launch.outcome import Outcome

_RETRIES = 5  # how often a predecessor without an outcome is checked again before it counts as lost
_NOT_QUEUED = "Slurm did not queue the job again: {}"


def main() -> None:
    """Runs the job, and records its end."""
    files, signal_pipe = RunFiles(Path(sys.argv[1])), SignalPipe()
    termination.adopt_orphans()
    if files.outcome:  # it was already recorded as lost
        return
    running = RunningAttempt(files, int(sys.argv[2]))
    try:
        outcome, open_jobs = _predecessors(files)
        if outcome is None and open_jobs:
            refusal = allocation.wait_for(open_jobs)
            if not refusal:
                return
            outcome = failed_with("JobLaunchFailed", _NOT_QUEUED.format(refusal))
        outcome = outcome or _run(files, running, signal_pipe)
    except ScratchError as error:
        outcome = failed_with("JobLaunchFailed", str(error))
    except Exception as error:  # noqa: BLE001 after any error, the job must not stay "running"
        outcome = supervisor_failure(error)
    if outcome.is_requeued or running.is_superseded:
        running.record_end()
        outcome = _requeued(outcome)
    if not (outcome.is_requeued or running.is_superseded):
        files.note_end(outcome._replace(ended=time.time()))
        secrets = read_secrets(files.secrets)
        notification_sending.send(files, sys.executable, log=files.batch_log, secrets=secrets)
    sys.exit(0 if outcome.is_success or outcome.is_requeued else 1)


def _predecessors(files: RunFiles) -> tuple[Outcome | None, list[str]]:
    """The outcome of a job one of whose predecessors has failed, and the Slurm jobs of those still open.

    An open one may run again, as another Slurm job or the same one, which Slurm cannot know. One that has
    ended without an outcome was killed; one that was deleted had ended.
    """
    open_jobs = []
    for earlier in read_predecessors(files):
        predecessor = files.of_run(earlier.guid)
        if open_job := _open_job(predecessor, files):
            open_jobs.append(open_job)
        elif predecessor.root.exists() and earlier.has_failed(predecessor.outcome or node_loss({})):
            return dependency_failed(earlier.name), []
    return None, open_jobs


def _open_job(predecessor: RunFiles, files: RunFiles) -> str:
    """The Slurm job of a predecessor that has not ended; empty if it has, was deleted, or counts as lost.

    The outcome recorded by another node may take a moment to appear here, for example because NFS caches
    that it is missing: the wait for it is as long as that of clients, `lost_s`.
    """
    for retry in range(_RETRIES + 1):
        if predecessor.outcome or not predecessor.root.exists():
            return ""
        submission = predecessor.submission(predecessor.attempt)
        is_open = allocation.is_open(submission.slurm_job) if submission else False
        if submission and (is_open or (is_open is None and predecessor.is_requeued)):
            return submission.slurm_job
        if retry < _RETRIES:
            time.sleep(JobBundle.read(files.bundle).lost_s / _RETRIES)
            with contextlib.suppress(OSError):  # an NFS client re-reads a folder that it has changed
                tempfile.TemporaryFile(dir=predecessor.root).close()
    return ""


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
    return outcome._replace(is_requeued=False).warned("JobNotRequeued", _NOT_QUEUED.format(refusal))


if __name__ == "__main__":
    main()
