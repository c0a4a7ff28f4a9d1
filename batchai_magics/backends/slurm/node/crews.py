"""The processes of a plan at work: of one node as children of this program, of several by srun."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from batchai_magics.backends.node.outcome import Outcome
from batchai_magics.backends.node.runner.bell import Bell
from batchai_magics.backends.slurm.node.near_crew import NearCrew
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.backends.slurm.node.spread_crew import SpreadCrew
from batchai_magics.launch.plan import Plan, ProcessExit

TOLD_TO_END = 128 + signal.SIGTERM
HEARING_S = 1.0  # by which a signal comes to this program behind processes that it runs: Slurm signals all
ENDING_S = 0.3  # what the other ranks get to end by themselves when one has failed


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


def let_end(started: Crew) -> set[int]:
    """Lets the other processes end by themselves, for a moment; gives the signals that came."""
    heard = _turn(started, ENDING_S, lambda: started.is_running)
    may_be_cut_off = is_cut_off(started)
    return heard | _turn(started, HEARING_S, lambda: may_be_cut_off)


def is_cut_off(started: Crew) -> bool:
    """Whether Slurm may have ended the processes: its word of that comes to them in any order."""
    return not started.ends or any(end.exit_code == TOLD_TO_END for end in started.ends)


def _turn(started: Crew, span_s: float, is_wanted: Callable[[], bool]) -> set[int]:
    """Lets processes go on for so long, or until it is told to end; gives the signals that came."""
    deadline, heard = time.monotonic() + span_s, set[int]()
    while is_wanted() and signal.SIGTERM not in heard and (left_s := deadline - time.monotonic()) > 0:
        heard |= started.turn(left_s)
    return heard
