"""The processes of a plan at work: of one node as children of this program, of several by srun."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from batchai_magics.backends.node.outcome import Outcome
from batchai_magics.backends.node.runner.bell import Bell
from batchai_magics.backends.slurm.node.near_crew import NearCrew
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.backends.slurm.node.spread_crew import SpreadCrew
from batchai_magics.launch.plan import Plan, ProcessExit


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


def crew(
    plan: Plan,
    bell: Bell,
    env: Mapping[str, str],
    *,
    files: RunFiles,
    mpi: str,
    is_each_alone: bool = False,
) -> Crew:
    """The processes of a plan, on the nodes that they are for; this program runs on the first of them.

    On several nodes one that fails ends the others, unless `is_each_alone`.
    """
    if {process.node for process in plan.processes} <= {0}:
        return NearCrew(plan, bell, env)
    return SpreadCrew(plan, bell, env, files=files, mpi=mpi, is_each_alone=is_each_alone)
