"""The processes of a plan at work: of one node as children of this program, of several by srun."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from batchai_magics.backends.node import mpi
from batchai_magics.backends.node.bell import Bell
from batchai_magics.backends.node.exits import exits_in
from batchai_magics.backends.node.outcome import NO_TROUBLE, Outcome, Trouble, of_ranks
from batchai_magics.backends.node.rank import die_with_parent
from batchai_magics.backends.node.ranks import Ranks
from batchai_magics.backends.slurm.node import ending
from batchai_magics.backends.slurm.node.endings import not_launched
from batchai_magics.backends.slurm.node.run_files import RunFiles, cut_off_folder
from batchai_magics.launch.plan import Launcher, Plan, ProcessExit, Role

LOOK_S = 1.0  # between looks at the files of ranks that are elsewhere
ENDING_S = 0.3  # what the other ranks get to end by themselves when one has failed
PATIENCE_S = 2.0  # what a disk gets to take the last output of a job that was told to end
SPREAD_S = 30.0  # what srun gets to end what it has started
START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {} import main; main()"
RANK = "batchai_magics.backends.slurm.node.run_rank"


class Crew(Protocol):
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
        """Lets go of everything."""


class NearCrew:
    """The processes of a plan of one node: children of this program, which is MPI's process manager."""

    def __init__(self, plan: Plan, bell: Bell, env: Mapping[str, str]) -> None:
        self._env = {**env, **mpi.transport(plan)}
        self._ranks = Ranks(plan, bell, env=self._env)
        self._by_themselves: set[int] | None = None
        self._trouble = NO_TROUBLE

    @property
    def is_running(self) -> bool:
        """Whether any has not ended yet."""
        return self._ranks.is_running

    @property
    def is_over(self) -> bool:
        """Whether the rest is to be ended."""
        return is_over(self._ranks.plan, self._ranks.ends.values()) or self._found_trouble != NO_TROUBLE

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
        ending.end(self._ranks, patience_s=patience_s)

    def outcome(self) -> Outcome:
        """How the job ends, as far as its processes say."""
        plan, manager = self._ranks.plan, self._ranks.manager
        by_themselves = set(self._ranks.ends) if self._by_themselves is None else self._by_themselves
        outcome = of_ranks(self.ends, plan, by_themselves, self._trouble)
        is_alone = manager is not None and manager.size > 1 and not manager.spoken
        return outcome.without_mpi(len(plan.processes)) if is_alone else outcome

    def close(self) -> None:
        """Lets go of everything."""
        ending.remove_containers(self._ranks.plan.containers.removals, self._env)
        self._ranks.close()

    @property
    def _found_trouble(self) -> Trouble:
        abort = self._ranks.manager.abort if self._ranks.manager else None
        return Trouble(abort, tuple(sorted(self._ranks.missed)), self._ranks.unwritable)


class SpreadCrew:
    """The processes of a plan of several nodes: tasks of one srun, a program watching over each."""

    def __init__(self, plan: Plan, bell: Bell, env: Mapping[str, str], *, files: RunFiles, mpi: str) -> None:
        self._plan, self._bell, self._files = plan, bell, files
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
        return _are_workers_done(self._plan, self.ends)

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
        with self._files.batch_log.open("ab") as log:
            self._srun = subprocess.Popen(
                [*srun_words(self._plan, self._mpi), *rank_words(self._plan, self._files.root, plan_file)],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_apart,
            )

    def turn(self, timeout_s: float) -> set[int]:
        """Waits for a signal, no longer than that; gives those that came."""
        select.select([self._bell], [], [], min(timeout_s, LOOK_S))
        return self._bell.heard()

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
        outcome = of_ranks(_in_order(self.ends, by_themselves), self._plan, by_themselves)
        return outcome if self.ends else not_launched(self._files.batch_log)

    def close(self) -> None:
        """Nothing of it is left: what still runs is ended."""
        self.end(patience_s=0.0)


def crew(plan: Plan, bell: Bell, env: Mapping[str, str], *, files: RunFiles, mpi: str) -> Crew:
    """The processes of a plan, on the nodes that they are for; this program runs on the first of them."""
    if {process.node for process in plan.processes} <= {0}:
        return NearCrew(plan, bell, env)
    return SpreadCrew(plan, bell, env, files=files, mpi=mpi)


def srun_words(plan: Plan, mpi: str) -> list[str]:
    """The line that starts a task for each process on its node; a failed one ends all the others.

    MPI's ranks fill a node before the next: only by that distribution does Slurm tell them who their
    neighbours are. All others are where `SLURM_HOSTFILE` says.
    """
    place = ["--distribution=arbitrary"]
    if plan.launcher is Launcher.MPI:
        node_count = max(process.node for process in plan.processes) + 1
        per_node = [process.node for process in plan.processes].count(0)
        place = ["--distribution=block", f"--nodes={node_count}", f"--ntasks-per-node={per_node}"]
    tasks = [f"--ntasks={len(plan.processes)}", *place, "--overcommit", "--kill-on-bad-exit=1", "--wait=0"]
    return ["srun", *tasks, "--cpu-bind=none", f"--mpi={mpi}", "--export=ALL", "--input=none"]


def rank_words(plan: Plan, root: Path, plan_file: str) -> list[str]:
    """The line that each task runs."""
    return [plan.python, "-I", "-S", "-c", START.format(RANK), programs_folder(), str(root), plan_file]


def programs_folder() -> str:
    """Where this very program was started from."""
    return next(path for path in sys.path if path)


def is_over(plan: Plan, ends: Collection[ProcessExit]) -> bool:
    """Whether a process has failed, or only parameter servers are left."""
    return any(end.exit_code for end in ends) or _are_workers_done(plan, ends)


def _are_workers_done(plan: Plan, ends: Collection[ProcessExit]) -> bool:
    servers = {each.rank for each in plan.processes if each.role is Role.PARAMETER_SERVER}
    workers = {each.rank for each in plan.processes} - servers
    return bool(servers) and workers <= {end.rank for end in ends}


def _in_order(ends: Collection[ProcessExit], by_themselves: Collection[int]) -> Sequence[ProcessExit]:
    """The ends, with those of ranks that were ended behind those of ranks that failed by themselves.

    The clocks of two nodes are never the same.
    """
    failures = [end.ended or 0.0 for end in ends if end.exit_code and end.rank in by_themselves]
    first = min(failures, default=0.0)
    return [
        end if end.rank in by_themselves else end._replace(ended=max(first, end.ended or 0.0)) for end in ends
    ]


def _apart() -> None:
    """In the child, before srun: signals to this program's group are for this program; it dies with it."""
    os.setpgid(0, 0)
    die_with_parent(signal.SIGTERM)
