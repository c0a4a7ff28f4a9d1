"""The processes of a plan on several nodes, as tasks of one srun."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from batchai_magics.backends.node.outcome import NO_FAULT, Fault, failed_with, of_ranks
from batchai_magics.backends.node.ranks.leftovers import LEFTOVER_S
from batchai_magics.backends.node.ranks.rank import die_with_parent
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.backends.node.restarts import EndWarning
from batchai_magics.backends.slurm.node import allocation
from batchai_magics.backends.slurm.node.attempt_ends import (
    KILLED,
    orphan_folder,
    orphaned,
    with_kill_reason,
    with_mpi_plugins,
)
from batchai_magics.backends.slurm.node.run_files import (
    RunFiles,
    cut_off_folder,
    ending_mark,
    unwritten_folder,
)
from batchai_magics.backends.slurm.node.start_line import own_folder, start_words
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import LaunchMode, Plan, ProcessExit

POLL_S = 1.0  # interval for reading the exit files of ranks on other nodes
SRUN_END_TIMEOUT_S = 30.0  # how long srun may take to end its tasks
TASK_END_TIMEOUT_S = 15.0  # how long the programs of tasks may take to end, in addition to their grace
RANK = "batchai_magics.backends.slurm.node.run_rank"


class SrunProcesses:
    """The processes of a multi-node plan as tasks of one srun, each with a supervising program.

    A failed task ends all the others, unless the tasks are independent.
    """

    def __init__(
        self,
        plan: Plan,
        signal_pipe: SignalPipe,
        env: Mapping[str, str],
        *,
        files: RunFiles,
        mpi: str,
        are_independent: bool,
    ) -> None:
        self._plan, self._signal_pipe, self._files = plan, signal_pipe, files
        self._are_independent = are_independent
        self._mpi = mpi if plan.launcher is LaunchMode.MPI else "none"
        self._host_file = files.root / "tasks"
        is_mpi = plan.launcher is LaunchMode.MPI
        self._env = env if is_mpi else {**env, "SLURM_HOSTFILE": str(self._host_file)}
        self._srun: subprocess.Popen[bytes] | None = None
        self._polled_s, self._ends = 0.0, list[ProcessExit]()
        self._was_ended = False

    @property
    def is_running(self) -> bool:
        """Whether srun is still running."""
        return self._srun is not None and self._srun.poll() is None

    @property
    def is_over(self) -> bool:
        """Whether only parameter servers are left, or srun waits for a slurmstepd that is gone.

        It ends all tasks itself when one fails.
        """
        return self._plan.are_workers_done({end.rank for end in self.ends}) or bool(self._orphans)

    @property
    def _orphans(self) -> list[int]:
        """The ranks that have ended because their slurmstepd was gone."""
        folder = orphan_folder(self._plan)
        return sorted(int(file.name) for file in folder.iterdir()) if folder.exists() else []

    @property
    def ends(self) -> Collection[ProcessExit]:
        """The exits of the processes that have ended, from their files, read once a second."""
        if time.monotonic() - self._polled_s > POLL_S or not self.is_running:
            self._ends, self._polled_s = exits_in(Path(self._plan.exits)), time.monotonic()
        return self._ends

    @property
    def fault(self) -> Fault:
        """Why the output of ranks could not be written, if so."""
        folder = unwritten_folder(self._plan)
        number = next((int(file.name) for file in folder.iterdir()), 0) if folder.exists() else 0
        return Fault(unwritable=OSError(number, os.strerror(number))) if number else NO_FAULT

    @property
    def notes(self) -> Sequence[str]:
        """None: Slurm is the process manager."""
        return ()

    def start(self) -> None:
        """Starts srun, which starts all processes."""
        hosts = "".join(f"{self._plan.node_of(process).id}\n" for process in self._plan.processes)
        self._host_file.write_text(hosts)
        plan_file = str(self._files.root / f"plan-of-{Path(self._plan.exits).name}.json")
        self._plan._replace(preparation=None).write(plan_file)  # each rank reads it
        program = start_words(self._plan.python, RANK, own_folder())
        with self._files.batch_log.open("ab") as log:
            self._srun = subprocess.Popen(
                [*self._srun_args(), *program, str(self._files.root), plan_file],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_detach,
            )

    def _srun_args(self) -> list[str]:
        """The command that starts a task for each process on its node.

        MPI ranks fill one node before the next: only with that distribution does Slurm tell them their
        neighbours. All others are placed by `SLURM_HOSTFILE`.
        """
        nodes = [process.node for process in self._plan.processes]
        distribution = ["--distribution=arbitrary"]
        names = ",".join(node.id for node in self._plan.nodes)
        if self._plan.launcher is LaunchMode.MPI:
            distribution = [
                "--distribution=block",
                f"--nodes={max(nodes) + 1}",
                f"--ntasks-per-node={nodes.count(0)}",
                f"--nodelist={names}",
            ]
        end = [f"--kill-on-bad-exit={int(not self._are_independent)}", "--wait=0"]
        tasks = [f"--ntasks={len(nodes)}", *distribution, "--overcommit", *end]
        return ["srun", *tasks, "--cpu-bind=none", f"--mpi={self._mpi}", "--export=ALL", "--input=none"]

    def poll(self, timeout_s: float) -> set[int]:
        """Waits up to `timeout_s` for a signal; returns the signals received."""
        select.select([self._signal_pipe], [], [], min(timeout_s, POLL_S))
        return self._signal_pipe.read()

    def warn(self, warning: EndWarning, reason: str) -> None:
        """Announces the end in the run's folder: the program of each rank looks for it."""
        warning.give(reason, ())

    def end(self, *, patience_s: float, grace_s: float, is_hurried: Callable[[], bool]) -> None:
        """Has the program of each task end it, which also sees whether it is hurried, then srun itself.

        A signal to srun ends the tasks at once.
        """
        if self.is_running and grace_s > LEFTOVER_S:
            ending_mark(self._plan).touch(mode=0o600)
            allocation.wake_tasks()
            self._wait_for_srun(grace_s + TASK_END_TIMEOUT_S)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._srun and self.is_running:
                self._was_ended = True
                self._srun.send_signal(number)
                self._wait_for_srun(SRUN_END_TIMEOUT_S)

    def _wait_for_srun(self, timeout_s: float) -> None:
        if self._srun:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._srun.wait(timeout_s)

    def outcome(self) -> Outcome:
        """The outcome according to the processes."""
        cut_off = {int(file.name) for file in cut_off_folder(self._plan).iterdir()}
        ended_on_their_own = {end.rank for end in self.ends} - cut_off
        fault = self.fault
        outcome = of_ranks(_in_order(self.ends, ended_on_their_own), self._plan, ended_on_their_own, fault)
        if fault.unwritable:
            return outcome
        if orphans := self._orphans:
            return orphaned(outcome, self._plan, orphans)
        if self._srun and self._srun.returncode == -signal.SIGKILL and not self._was_ended:
            return self._without_srun(outcome)
        log = self._files.batch_log
        outcome = with_kill_reason(outcome, self._plan, log, ended_on_their_own=ended_on_their_own)
        is_mpi = self._plan.launcher is LaunchMode.MPI
        return with_mpi_plugins(outcome, self._mpi, allocation.mpi_plugins) if is_mpi else outcome

    def _without_srun(self, outcome: Outcome) -> Outcome:
        """The outcome of processes that ended because srun was killed; none of them failed."""
        where = os.environ.get("SLURMD_NODENAME", self._plan.nodes[0].id)
        text = f"srun, which ran the job's processes from {where}, was killed: by a user, or as the node"
        failed = failed_with("JobFailed", f"{text} was short of memory")
        ranks = tuple(rank._replace(exit_code=rank.exit_code and None) for rank in outcome.ranks)
        return failed._replace(exit_code=KILLED, ranks=ranks)

    def close(self) -> None:
        """Ends whatever still runs."""
        self.end(patience_s=0.0, grace_s=LEFTOVER_S, is_hurried=lambda: False)


def _detach() -> None:
    """Runs in the child before srun: leaves this process group, and dies with this program."""
    os.setpgid(0, 0)
    die_with_parent(signal.SIGTERM)


def _in_order(ends: Collection[ProcessExit], ended_on_their_own: Collection[int]) -> Sequence[ProcessExit]:
    """The exits, with ranks that were ended placed after those that failed on their own.

    The clocks of two nodes always differ.
    """
    failures = [end.ended or 0.0 for end in ends if end.exit_code and end.rank in ended_on_their_own]
    first = min(failures, default=0.0)
    return [
        end if end.rank in ended_on_their_own else end._replace(ended=max(first, end.ended or 0.0))
        for end in ends
    ]
