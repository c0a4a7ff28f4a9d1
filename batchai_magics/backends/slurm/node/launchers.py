"""Launchers of a plan's processes: on one node as children of this program, on several through srun."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from batchai_magics.backends.node import mpi_launchers
from batchai_magics.backends.node.outcome import NO_FAULT, Fault, failed_with, of_ranks
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.leftovers import LEFTOVER_S
from batchai_magics.backends.node.ranks.rank import die_with_parent
from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.backends.node.restarts import EndWarning
from batchai_magics.backends.slurm.node import allocation
from batchai_magics.backends.slurm.node.attempt_ends import (
    KILLED,
    TERMINATED,
    kernel_reason,
    oom_kills,
    orphan_folder,
    orphaned,
    out_of_memory,
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
from batchai_magics.launch.plan import Launcher, Plan, ProcessExit


def _never() -> bool:
    return False


class SingleNodeLauncher:
    """Launches the processes of a single-node plan as children; this program is MPI's process manager."""

    def __init__(self, plan: Plan, signal_pipe: SignalPipe, env: Mapping[str, str]) -> None:
        self._env = {**env, **mpi_launchers.transport(plan)}
        self._ranks = Ranks(plan, signal_pipe, env=self._env)
        self._ended_on_their_own: set[int] | None = None
        self._trouble = NO_FAULT
        self._kills = oom_kills()

    @property
    def is_running(self) -> bool:
        """Whether any process is still running."""
        return self._ranks.is_running

    @property
    def is_over(self) -> bool:
        """Whether the remaining processes are to be ended."""
        has_failed = any(end.exit_code for end in self.ends)
        are_workers_done = self._ranks.plan.are_workers_done(self._ranks.ends)
        return has_failed or are_workers_done or self._current_trouble != NO_FAULT

    @property
    def ends(self) -> Collection[ProcessExit]:
        """The exits of the processes that have ended."""
        return self._ranks.ends.values()

    def start(self) -> None:
        """Starts all processes."""
        self._ranks.start()

    def poll(self, timeout_s: float) -> set[int]:
        """Waits up to `timeout_s` for output, exits or signals; returns the signals received."""
        return self._ranks.poll(timeout_s)

    def warn(self, warning: EndWarning, reason: str) -> None:
        """Warns the processes of the end."""
        warning.give(reason, termination.processes_of(self._ranks))

    def end(
        self, *, patience_s: float, grace_s: float = LEFTOVER_S, is_hurried: Callable[[], bool] = _never
    ) -> None:
        """Ends all processes that still run."""
        self._ended_on_their_own, self._trouble = set(self._ranks.ends), self._current_trouble
        termination.end(self._ranks, patience_s=patience_s, grace_s=grace_s, is_hurried=is_hurried)

    def outcome(self) -> Outcome:
        """The outcome according to the processes."""
        plan = self._ranks.plan
        ended_on_their_own = (
            set(self._ranks.ends) if self._ended_on_their_own is None else self._ended_on_their_own
        )
        outcome = of_ranks(self.ends, plan, ended_on_their_own, self._trouble)
        if outcome.exit_code == KILLED and oom_kills() > self._kills:
            return out_of_memory(outcome, kernel_reason(plan.nodes[0].id))
        return outcome.without_mpi(len(plan.processes)) if mpi_launchers.has_no_mpi(self._ranks) else outcome

    def close(self) -> None:
        """Releases everything."""
        termination.remove_containers(self._ranks.plan.containers.removals, self._env)
        self._ranks.close()

    @property
    def _current_trouble(self) -> Fault:
        abort = self._ranks.manager.abort if self._ranks.manager else None
        return Fault(abort, tuple(sorted(self._ranks.missed)), self._ranks.unwritable)


POLL_S = 1.0  # interval for reading the exit files of ranks on other nodes
SRUN_END_TIMEOUT_S = 30.0  # how long srun may take to end its tasks
TASK_END_TIMEOUT_S = 15.0  # how long the programs of tasks may take to end, in addition to their grace
RANK = "batchai_magics.backends.slurm.node.run_rank"


class SrunLauncher:
    """Launches the processes of a multi-node plan as tasks of one srun, each with a supervising program.

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
        self._mpi = mpi if plan.launcher is Launcher.MPI else "none"
        self._host_file = files.root / "tasks"
        is_mpi = plan.launcher is Launcher.MPI
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

    def start(self) -> None:
        """Starts srun, which starts all processes."""
        hosts = "".join(f"{self._plan.node_of(process).id}\n" for process in self._plan.processes)
        self._host_file.write_text(hosts)
        plan_file = str(self._files.root / f"plan-of-{Path(self._plan.exits).name}.json")
        self._plan.write(plan_file)
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
        if self._plan.launcher is Launcher.MPI:
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

    def end(
        self, *, patience_s: float, grace_s: float = LEFTOVER_S, is_hurried: Callable[[], bool] = _never
    ) -> None:
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
        trouble = _trouble(self._plan)
        outcome = of_ranks(_in_order(self.ends, ended_on_their_own), self._plan, ended_on_their_own, trouble)
        if trouble.unwritable:
            return outcome
        if orphans := self._orphans:
            return orphaned(outcome, self._plan, orphans)
        if self._srun and self._srun.returncode == -signal.SIGKILL and not self._was_ended:
            return self._without_srun(outcome)
        log = self._files.batch_log
        outcome = with_kill_reason(outcome, self._plan, log, ended_on_their_own=ended_on_their_own)
        is_mpi = self._plan.launcher is Launcher.MPI
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
        self.end(patience_s=0.0)


def _trouble(plan: Plan) -> Fault:
    """Why the output of ranks could not be written, if so."""
    number = next((int(file.name) for file in unwritten_folder(plan).iterdir()), 0)
    return Fault(unwritable=OSError(number, os.strerror(number))) if number else NO_FAULT


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


SIGNAL_DELAY_S = (
    1.0  # how much later than its children this program may receive a signal that Slurm sends to all
)
ENDING_TIMEOUT_S = 0.3  # how long the other ranks may take to end on their own after one has failed


class RankLauncher(Protocol):
    """The processes of a plan, from start to end."""

    @property
    def is_running(self) -> bool:
        """Whether any process is still running."""

    @property
    def is_over(self) -> bool:
        """Whether the rest is to be ended: one has failed, or only parameter servers are left."""

    @property
    def ends(self) -> Collection[ProcessExit]:
        """The exits of the processes that have ended."""

    def start(self) -> None:
        """Starts all processes."""

    def poll(self, timeout_s: float) -> set[int]:
        """Waits up to `timeout_s` for news; returns the signals received."""

    def warn(self, warning: EndWarning, reason: str) -> None:
        """Warns the processes of the end."""

    def end(
        self, *, patience_s: float, grace_s: float = LEFTOVER_S, is_hurried: Callable[[], bool] = _never
    ) -> None:
        """Ends all processes that still run: those that have not exited after their grace, or are hurried."""

    def outcome(self) -> Outcome:
        """The outcome according to the processes; the same before and after `end`."""

    def close(self) -> None:
        """Releases everything."""


def launcher_of(
    plan: Plan,
    signal_pipe: SignalPipe,
    env: Mapping[str, str],
    *,
    files: RunFiles,
    mpi: str,
    are_independent: bool = False,
) -> RankLauncher:
    """The launcher for a plan, whose first node runs this program.

    On several nodes a failed process ends the others, unless `are_independent`.
    """
    own_node = os.environ.get("SLURMD_NODENAME", plan.nodes[0].id)
    if {plan.node_of(process).id for process in plan.processes} <= {own_node}:
        return SingleNodeLauncher(plan, signal_pipe, env)
    return SrunLauncher(plan, signal_pipe, env, files=files, mpi=mpi, are_independent=are_independent)


def await_ends(launcher: RankLauncher) -> set[int]:
    """Gives the other processes a moment to end on their own; returns the signals received."""
    signals = _poll_for(launcher, ENDING_TIMEOUT_S, lambda: launcher.is_running)
    may_be_cut_off = is_cut_off(launcher)
    return signals | _poll_for(launcher, SIGNAL_DELAY_S, lambda: may_be_cut_off)


def is_cut_off(launcher: RankLauncher) -> bool:
    """Whether Slurm may have ended the processes: its signal reaches them in any order."""
    return not launcher.ends or any(end.exit_code in (TERMINATED, KILLED, None) for end in launcher.ends)


def _poll_for(launcher: RankLauncher, span_s: float, is_wanted: Callable[[], bool]) -> set[int]:
    """Runs the launcher for up to `span_s`, or until SIGTERM; returns the signals received."""
    deadline, signals = time.monotonic() + span_s, set[int]()
    while is_wanted() and signal.SIGTERM not in signals and (left_s := deadline - time.monotonic()) > 0:
        signals |= launcher.poll(left_s)
    return signals
