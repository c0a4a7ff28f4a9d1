"""The processes of a plan of one node, which are children of this program."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from batchai_magics.backends.node import mpi, mpi_use
from batchai_magics.backends.node.outcome import NO_TROUBLE, Outcome, Trouble, of_ranks
from batchai_magics.backends.node.runner import termination
from batchai_magics.backends.node.runner.bell import Bell
from batchai_magics.backends.node.runner.ranks import Ranks
from batchai_magics.backends.slurm.node.killed import KILLED, of_kernel, oom_kills, out_of_memory
from batchai_magics.launch.plan import Plan, ProcessExit


class NearCrew:
    """The processes of a plan of one node: children of this program, which is MPI's process manager."""

    def __init__(self, plan: Plan, bell: Bell, env: Mapping[str, str]) -> None:
        self._env = {**env, **mpi.transport(plan)}
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
        return outcome.without_mpi(len(plan.processes)) if mpi_use.is_missed(self._ranks) else outcome

    def close(self) -> None:
        """Lets go of everything."""
        termination.remove_containers(self._ranks.plan.containers.removals, self._env)
        self._ranks.close()

    @property
    def _found_trouble(self) -> Trouble:
        abort = self._ranks.manager.abort if self._ranks.manager else None
        return Trouble(abort, tuple(sorted(self._ranks.missed)), self._ranks.unwritable)
