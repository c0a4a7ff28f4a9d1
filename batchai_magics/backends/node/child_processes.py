"""Launches plans as children of this program, which is the process manager of MPI's ranks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from batchai_magics.backends.node import mpi_launchers
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.launcher import Launcher, PlanProcesses
from batchai_magics.backends.node.outcome import NO_FAULT, Fault, ranks_outcome
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.leftovers import LiveProcess
from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.signed_records import LogSeal
from batchai_magics.backends.node.ranks.temporary_folder import TemporaryFolder
from batchai_magics.backends.node.restarts import EndWarning
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan, ProcessExit


class ChildProcesses:
    """The processes of a plan on this machine; their descendants end with them.

    After `close`, `seals` has the seals of the written logs, and `may_leave_memory` is whether MPI may have
    left shared memory behind.
    """

    def __init__(
        self,
        plan: Plan,
        signal_pipe: SignalPipe,
        env: Mapping[str, str],
        *,
        temporary: TemporaryFolder | None = None,
        find: Callable[[Ranks], list[LiveProcess]] = termination.processes_of,
    ) -> None:
        self.plan = plan
        self._env = {**env, **mpi_launchers.transport(plan)}
        self._ranks, self._find = Ranks(plan, signal_pipe, env=self._env, temporary=temporary), find
        self._ended_on_their_own: set[int] | None = None
        self._fault = NO_FAULT
        self.seals: dict[str, LogSeal] = {}
        self.may_leave_memory = False

    @property
    def is_running(self) -> bool:
        """Whether any process is still running."""
        return self._ranks.is_running

    @property
    def is_over(self) -> bool:
        """Whether the remaining processes must end: one has failed, or only parameter servers run."""
        has_failed = any(end.exit_code for end in self.ends)
        return has_failed or self.fault != NO_FAULT or self.plan.are_workers_done(self._ranks.ends)

    @property
    def ends(self) -> Collection[ProcessExit]:
        """The exits of the processes that have ended."""
        return self._ranks.ends.values()

    @property
    def fault(self) -> Fault:
        """Why the processes must end although none of them failed."""
        abort = self._ranks.manager.abort if self._ranks.manager else None
        return Fault(abort, tuple(sorted(self._ranks.missed)), self._ranks.unwritable)

    def start(self) -> None:
        """Starts all processes."""
        self._ranks.start()

    def poll(self, timeout_s: float, /) -> set[int]:
        """Waits up to `timeout_s` for output, exits or signals; returns the signals received."""
        return self._ranks.poll(timeout_s)

    def warn(self, warning: EndWarning, reason: str) -> None:
        """Warns the processes of the end."""
        warning.give(reason, self._find(self._ranks))

    def end(self, *, patience_s: float, grace_s: float, is_hurried: Callable[[], bool]) -> None:
        """Ends all running processes."""
        self._ended_on_their_own, self._fault = set(self._ranks.ends), self.fault
        termination.end(
            self._ranks, find=self._find, patience_s=patience_s, grace_s=grace_s, is_hurried=is_hurried
        )

    def outcome(self) -> Outcome:
        """The outcome that follows from the exits of the processes."""
        plan, ended = self.plan, self._ended_on_their_own
        ended_on_their_own = set(self._ranks.ends) if ended is None else ended
        outcome = ranks_outcome(self.ends, plan, ended_on_their_own, self._fault)
        is_alone = mpi_launchers.has_no_mpi(self._ranks.manager, plan, self._ranks.printed)
        return outcome.without_mpi(len(plan.processes)) if is_alone else outcome

    def close(self) -> None:
        """Kills all running processes, and removes their containers."""
        manager, codes = self._ranks.manager, [end.exit_code for end in self.ends]
        is_well = len(codes) == len(self.plan.processes) and not any(codes)
        self.may_leave_memory = not is_well or bool(manager and manager.attached)
        self.seals = self._ranks.seals
        termination.remove_containers(self.plan.containers.removals, self._env)
        self._ranks.close()


class ChildLauncher(Launcher):
    """Starts processes as children of this program: all nodes are folders of its machine."""

    def __init__(
        self,
        files: JobLayout,
        signal_pipe: SignalPipe,
        env: Mapping[str, str],
        *,
        temporary: TemporaryFolder | None = None,
        find: Callable[[Ranks], list[LiveProcess]] = termination.processes_of,
    ) -> None:
        self.files, self.signal_pipe, self.env = files, signal_pipe, env
        self._temporary, self._find = temporary, find
        self._launched: list[ChildProcesses] = []

    def processes(
        self, plan: Plan, env: Mapping[str, str], *, are_independent: bool = False
    ) -> PlanProcesses:
        """The processes of a plan, not started yet."""
        launched = ChildProcesses(plan, self.signal_pipe, env, temporary=self._temporary, find=self._find)
        self._launched.append(launched)
        return launched

    def seals(self, plan: Plan) -> Mapping[str, LogSeal]:
        """The seals of the logs that were written."""
        return {name: seal for launched in self._launched for name, seal in launched.seals.items()}
