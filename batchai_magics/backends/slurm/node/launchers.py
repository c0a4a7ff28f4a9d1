"""The launchers of a plan's processes: on one node as children of this program, on several by srun."""

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

from batchai_magics.backends.node import mpi_check, mpi_launchers
from batchai_magics.backends.node.outcome import NO_TROUBLE, Outcome, Trouble, of_ranks
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.rank import die_with_parent
from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.backends.slurm.node.oom_kills import (
    KILLED,
    explained,
    of_kernel,
    oom_kills,
    out_of_memory,
)
from batchai_magics.backends.slurm.node.run_files import RunFiles, cut_off_folder, unkept_folder
from batchai_magics.backends.slurm.node.start_line import own_folder, start_words
from batchai_magics.launch.plan import Launcher, Plan, ProcessExit


class SingleNodeLauncher:
    """The processes of a plan of one node: children of this program, which is MPI's process manager."""

    def __init__(self, plan: Plan, bell: SignalPipe, env: Mapping[str, str]) -> None:
        self._env = {**env, **mpi_launchers.transport(plan)}
        self._ranks = Ranks(plan, bell, env=self._env)
        self._by_themselves: set[int] | None = None
        self._trouble = NO_TROUBLE
        self._kills = oom_kills()

    @property
    def is_running(self) -> bool:
        """Whether any has not ended yet."""
        return self._ranks.is_running

    @property
    def is_over(self) -> bool:
        """Whether the rest is to be ended."""
        has_failed = any(end.exit_code for end in self.ends)
        are_workers_done = self._ranks.plan.are_workers_done(self._ranks.ends)
        return has_failed or are_workers_done or self._found_trouble != NO_TROUBLE

    @property
    def ends(self) -> Collection[ProcessExit]:
        """How those that have ended did so."""
        return self._ranks.ends.values()

    def start(self) -> None:
        """Starts all of them."""
        self._ranks.start()

    def turn(self, timeout_s: float) -> set[int]:
        """Waits for news, no longer than that; gives the signals that came."""
        return self._ranks.turn(timeout_s)

    def end(self, *, patience_s: float) -> None:
        """Ends all that still runs."""
        self._by_themselves, self._trouble = set(self._ranks.ends), self._found_trouble
        termination.end(self._ranks, patience_s=patience_s)

    def outcome(self) -> Outcome:
        """How the job ends, as far as its processes say."""
        plan = self._ranks.plan
        by_themselves = set(self._ranks.ends) if self._by_themselves is None else self._by_themselves
        outcome = of_ranks(self.ends, plan, by_themselves, self._trouble)
        if outcome.exit_code == KILLED and oom_kills() > self._kills:
            return out_of_memory(outcome, of_kernel(plan.nodes[0].id))
        return outcome.without_mpi(len(plan.processes)) if mpi_check.is_missed(self._ranks) else outcome

    def close(self) -> None:
        """Releases everything."""
        termination.remove_containers(self._ranks.plan.containers.removals, self._env)
        self._ranks.close()

    @property
    def _found_trouble(self) -> Trouble:
        abort = self._ranks.manager.abort if self._ranks.manager else None
        return Trouble(abort, tuple(sorted(self._ranks.missed)), self._ranks.unwritable)


LOOK_S = 1.0  # between looks at the files of ranks that are elsewhere
SPREAD_S = 30.0  # what srun gets to end what it has started
RANK = "batchai_magics.backends.slurm.node.run_rank"


class SrunLauncher:
    """The processes of a plan of several nodes: tasks of one srun, a program watching over each.

    One that fails ends all the others, unless each has something of its own to do.
    """

    def __init__(
        self,
        plan: Plan,
        bell: SignalPipe,
        env: Mapping[str, str],
        *,
        files: RunFiles,
        mpi: str,
        is_each_alone: bool,
    ) -> None:
        self._plan, self._bell, self._files = plan, bell, files
        self._is_each_alone = is_each_alone
        self._mpi = mpi if plan.launcher is Launcher.MPI else "none"
        self._host_file = files.root / "tasks"
        is_mpi = plan.launcher is Launcher.MPI
        self._env = env if is_mpi else {**env, "SLURM_HOSTFILE": str(self._host_file)}
        self._srun: subprocess.Popen[bytes] | None = None
        self._looked_s, self._ends = 0.0, list[ProcessExit]()

    @property
    def is_running(self) -> bool:
        """Whether srun still runs."""
        return self._srun is not None and self._srun.poll() is None

    @property
    def is_over(self) -> bool:
        """Whether only parameter servers are left; srun itself ends all when one fails."""
        return self._plan.are_workers_done({end.rank for end in self.ends})

    @property
    def ends(self) -> Collection[ProcessExit]:
        """How those that have ended did so, by their files, looked at once a second."""
        if time.monotonic() - self._looked_s > LOOK_S or not self.is_running:
            self._ends, self._looked_s = exits_in(Path(self._plan.exits)), time.monotonic()
        return self._ends

    def start(self) -> None:
        """Starts srun, which starts all of them."""
        hosts = "".join(f"{self._plan.node_of(process).id}\n" for process in self._plan.processes)
        self._host_file.write_text(hosts)
        plan_file = str(self._files.root / f"plan-of-{Path(self._plan.exits).name}.json")
        self._plan.write(plan_file)
        program = start_words(self._plan.python, RANK, own_folder())
        with self._files.batch_log.open("ab") as log:
            self._srun = subprocess.Popen(
                [*self._srun_words(), *program, str(self._files.root), plan_file],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_apart,
            )

    def _srun_words(self) -> list[str]:
        """The line that starts a task for each process on its node.

        MPI's ranks fill a node before the next: only by that distribution does Slurm tell them who their
        neighbours are. All others are where `SLURM_HOSTFILE` says.
        """
        nodes = [process.node for process in self._plan.processes]
        place = ["--distribution=arbitrary"]
        if self._plan.launcher is Launcher.MPI:
            place = [
                "--distribution=block",
                f"--nodes={max(nodes) + 1}",
                f"--ntasks-per-node={nodes.count(0)}",
            ]
        end = [f"--kill-on-bad-exit={int(not self._is_each_alone)}", "--wait=0"]
        tasks = [f"--ntasks={len(nodes)}", *place, "--overcommit", *end]
        return ["srun", *tasks, "--cpu-bind=none", f"--mpi={self._mpi}", "--export=ALL", "--input=none"]

    def turn(self, timeout_s: float) -> set[int]:
        """Waits for a signal, no longer than that; gives those that came."""
        select.select([self._bell], [], [], min(timeout_s, LOOK_S))
        return self._bell.read()

    def end(self, *, patience_s: float) -> None:
        """Has srun end all that it has started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._srun and self.is_running:
                self._srun.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._srun.wait(SPREAD_S)

    def outcome(self) -> Outcome:
        """How the job ends, as far as its processes say."""
        cut_off = {int(file.name) for file in cut_off_folder(self._plan).iterdir()}
        by_themselves = {end.rank for end in self.ends} - cut_off
        trouble = _trouble(self._plan)
        outcome = of_ranks(_in_order(self.ends, by_themselves), self._plan, by_themselves, trouble)
        return outcome if trouble.unwritable else explained(outcome, self._plan, self._files.batch_log)

    def close(self) -> None:
        """Nothing of it is left: what still runs is ended."""
        self.end(patience_s=0.0)


def _trouble(plan: Plan) -> Trouble:
    """Why the output of ranks could not be kept, if it could not."""
    number = next((int(file.name) for file in unkept_folder(plan).iterdir()), 0)
    return Trouble(unwritable=OSError(number, os.strerror(number))) if number else NO_TROUBLE


def _apart() -> None:
    """In the child, before srun: signals to this program's group are for this program; it dies with it."""
    os.setpgid(0, 0)
    die_with_parent(signal.SIGTERM)


def _in_order(ends: Collection[ProcessExit], by_themselves: Collection[int]) -> Sequence[ProcessExit]:
    """The ends, with those of ranks that were ended behind those of ranks that failed by themselves.

    The clocks of two nodes are never the same.
    """
    failures = [end.ended or 0.0 for end in ends if end.exit_code and end.rank in by_themselves]
    first = min(failures, default=0.0)
    return [
        end if end.rank in by_themselves else end._replace(ended=max(first, end.ended or 0.0)) for end in ends
    ]


TOLD_TO_END = 128 + signal.SIGTERM
HEARING_S = 1.0  # by which a signal comes to this program behind processes that it runs: Slurm signals all
ENDING_S = 0.3  # what the other ranks get to end by themselves when one has failed


class RankLauncher(Protocol):
    """The processes of a plan, from their start to their end."""

    @property
    def is_running(self) -> bool:
        """Whether any has not ended yet."""

    @property
    def is_over(self) -> bool:
        """Whether the rest is to be ended: one has failed, or only parameter servers are left."""

    @property
    def ends(self) -> Collection[ProcessExit]:
        """How those that have ended did so."""

    def start(self) -> None:
        """Starts all of them."""

    def turn(self, timeout_s: float) -> set[int]:
        """Waits for news, no longer than that; gives the signals that came."""

    def end(self, *, patience_s: float) -> None:
        """Ends all that still runs."""

    def outcome(self) -> Outcome:
        """How the job ends, as far as its processes say: asked before and after `end`, it says the same."""

    def close(self) -> None:
        """Releases everything."""


def launcher_of(
    plan: Plan,
    bell: SignalPipe,
    env: Mapping[str, str],
    *,
    files: RunFiles,
    mpi: str,
    is_each_alone: bool = False,
) -> RankLauncher:
    """The processes of a plan, on the nodes that they are for; this program runs on the first of them.

    On several nodes one that fails ends the others, unless `is_each_alone`.
    """
    if {process.node for process in plan.processes} <= {0}:
        return SingleNodeLauncher(plan, bell, env)
    return SrunLauncher(plan, bell, env, files=files, mpi=mpi, is_each_alone=is_each_alone)


def let_end(started: RankLauncher) -> set[int]:
    """Lets the other processes end by themselves, for a moment; gives the signals that came."""
    heard = _turn(started, ENDING_S, lambda: started.is_running)
    may_be_cut_off = is_cut_off(started)
    return heard | _turn(started, HEARING_S, lambda: may_be_cut_off)


def is_cut_off(started: RankLauncher) -> bool:
    """Whether Slurm may have ended the processes: its word of that comes to them in any order."""
    return not started.ends or any(end.exit_code == TOLD_TO_END for end in started.ends)


def _turn(started: RankLauncher, span_s: float, is_wanted: Callable[[], bool]) -> set[int]:
    """Lets processes go on for so long, or until it is told to end; gives the signals that came."""
    deadline, heard = time.monotonic() + span_s, set[int]()
    while is_wanted() and signal.SIGTERM not in heard and (left_s := deadline - time.monotonic()) > 0:
        heard |= started.turn(left_s)
    return heard
