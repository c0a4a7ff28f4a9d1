"""Runs one process of a plan as a task of `srun`: the rank that Slurm assigned to this task.

On SIGTERM it ends its process gracefully, keeps the last output, and records that the rank was ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.node import requirements
from batchai_magics.backends.node.outcome import KILLED
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.temporary_folder import TemporaryFolder
from batchai_magics.backends.node.restarts import EndWarning, send_sigusr1
from batchai_magics.backends.slurm.node.attempt_ends import TERMINATED, oom_kills
from batchai_magics.backends.slurm.node.run_files import (
    RankMark,
    RunFiles,
    ending_mark,
    has_next_attempt,
    read_secrets,
)
from batchai_magics.backends.slurm.node.scratch import ScratchCollection
from batchai_magics.launch.plan import LaunchMode, Plan

WARNING_POLL_S = 1.0  # interval for checking whether a job that wants a warning is about to end
POLL_S = 5.0  # interval for checking whether the job has ended or was restarted elsewhere
OUTPUT_TIMEOUT_S = 2.0  # how long the last output may take to be written
# How much later than its rank this program may receive a signal that Slurm sends to all processes of a step:
# less than the job's program waits before it ends srun.
SIGNAL_DELAY_S = 0.5
NO_PROCESS_MANAGER = 78  # exit code of an MPI rank without a process manager
_MANAGERS = ("PMI_FD", "PMI_PORT", "PMIX_SERVER_URI2", "PMIX_SERVER_URI3", "PMIX_SERVER_URI41", "PMIX_RANK")


def main() -> None:
    """Runs the rank (`ROOT PLAN`), and exits with its exit code."""
    files, plan = RunFiles(Path(sys.argv[1])), Plan.read(sys.argv[2])
    rank = int(os.environ["SLURM_PROCID"])
    if lacks_process_manager(plan):
        sys.stderr.write("Slurm starts no process manager for MPI here\n")
        sys.exit(NO_PROCESS_MANAGER)
    collection = ScratchCollection(files, plan)
    if collection.is_wanted and (problem := make_scratch_folder(plan, rank)):
        sys.stderr.write(problem)
        sys.exit(os.EX_CANTCREAT)
    termination.adopt_orphans()
    RankMark.STARTED.add(plan, rank)
    temporary = TemporaryFolder()
    code, is_stopped = run(files, plan, rank, temporary)
    termination.kill()
    temporary.remove()
    if is_stopped:  # if Slurm is ending the run, no other program can start on this node
        collection.collect_after_rank(rank)
    sys.exit(code if code is not None else os.EX_IOERR)


def run(files: RunFiles, plan: Plan, rank: int, temporary: TemporaryFolder) -> tuple[int | None, bool]:
    """Runs the rank; returns its exit code, None if unknown, and whether it was stopped."""
    kills, is_stopped, warning = oom_kills(), False, RankWarning(plan)
    env, parent = os.environ | secrets_of(files, plan), os.getppid()
    signal_pipe = SignalPipe((signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGCONT))
    with contextlib.closing(Ranks(plan, signal_pipe, env=env, temporary=temporary)) as ranks:
        ranks.start_one(rank)
        while ranks.is_running:
            signals = ranks.poll(warning.poll_s)
            warning.forward_to(ranks)
            is_orphan = os.getppid() != parent  # slurmstepd was killed, which Slurm notices much later
            if is_orphan:
                RankMark.ORPHAN.add(plan, rank)
            if signal.SIGTERM in signals or is_over(files, plan) or is_orphan:
                is_stopped = True
                RankMark.CUT_OFF.add(plan, rank)
                termination.end(
                    ranks,
                    patience_s=OUTPUT_TIMEOUT_S,
                    grace_s=plan.limits.grace_s,
                    is_hurried=files.kill_request.exists,
                )
        if not is_stopped and is_signalled_late(ranks, rank):
            is_stopped = True
            RankMark.CUT_OFF.add(plan, rank)
        if ranks.unwritable and ranks.unwritable.errno:
            RankMark.UNWRITTEN.add(plan, ranks.unwritable.errno)
        termination.remove_containers(plan.containers.removals[rank : rank + 1], os.environ)
        code = ranks.ends[rank].exit_code if rank in ranks.ends else None
    if code == KILLED and oom_kills() > kills:
        RankMark.OUT_OF_MEMORY.add(plan, rank)
    return code, is_stopped


def is_over(files: RunFiles, plan: Plan) -> bool:
    """Whether the rank has to end: the run's program requests it and sends SIGCONT, or has ended."""
    return bool(ending_mark(plan).exists() or files.outcome or has_next_attempt(plan))


class RankWarning:
    """Forwards the warning of the attempt's end to the processes of a rank, once.

    Plans without a warning, such as a setup task's, need not name its file.
    """

    def __init__(self, plan: Plan) -> None:
        self._warning = EndWarning(plan) if plan.limits.warn_s else None
        self._is_forwarded = False

    @property
    def poll_s(self) -> float:
        """The interval for checking the warning and other changes in the run's folder."""
        return WARNING_POLL_S if self._warning else POLL_S

    def forward_to(self, ranks: Ranks) -> None:
        """Signals the processes if the end has been announced."""
        if self._warning and not self._is_forwarded and self._warning.is_announced:
            self._is_forwarded = True
            send_sigusr1(termination.processes_of(ranks))


def is_signalled_late(ranks: Ranks, rank: int) -> bool:
    """Whether the signal that ended the rank reaches this program too: Slurm signals both, in any order.

    Slurm ends a step with SIGTERM and then SIGKILL, which may reach the rank before this program gets the
    first: the rank then looks as if it alone had been killed.
    """
    end = ranks.ends.get(rank)
    deadline = time.monotonic()
    if end and end.exit_code in (TERMINATED, KILLED):
        deadline += SIGNAL_DELAY_S
    while signal.SIGTERM not in ranks.poll(max(0.0, deadline - time.monotonic())):
        if time.monotonic() >= deadline:
            return False
    return True


def make_scratch_folder(plan: Plan, rank: int) -> str:
    """Creates the rank's working directory on this node's own disk; returns the problem, if any."""
    node = plan.node_of(plan.processes[rank])
    try:
        private_files.make_folder(Path(node.folder))
    except OSError as error:
        return f"slurm.scratch: {node.folder} cannot be made on {node.id}: {error.strerror}\n"
    outcome = requirements.directories(plan._replace(nodes=(node,)))
    return f"{outcome.sentence}\n" if outcome else ""


def lacks_process_manager(plan: Plan) -> bool:
    """Whether each MPI rank would silently be rank 0 of 1."""
    is_mpi = plan.launcher is LaunchMode.MPI and len(plan.processes) > 1
    return is_mpi and not any(os.environ.get(name) for name in _MANAGERS)


def secrets_of(files: RunFiles, plan: Plan) -> dict[str, str]:
    """The job's secrets that the plan passes to its processes."""
    return {name: value for name, value in read_secrets(files.secrets).items() if name in plan.secrets}


if __name__ == "__main__":
    main()
