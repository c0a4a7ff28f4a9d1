"""What an engine supplies to run attempts: `Launcher`, `Report`, and the values that they exchange."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.outcome import Fault, time_limit_reached
from batchai_magics.backends.node.ranks import leftovers, termination
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.signed_records import LogSeal, seals_of_logs
from batchai_magics.backends.node.restarts import EndWarning
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Limits, Plan, ProcessExit

if TYPE_CHECKING:
    from batchai_magics.backends.node.watch_process import WatchProgram

LOOPBACK = "127.0.0.1"  # where all nodes are on this machine
POLL_S = 1.0  # how often stop requests are looked for that come without a signal


class Deadline:
    """When an attempt has to end, and when its processes are warned; `end` is its outcome then."""

    def __init__(self, limits: Limits) -> None:
        self._at_s, self._warn_s = time.monotonic() + limits.wall_s, limits.warn_s
        self.end = time_limit_reached(limits)

    def shorten(self, left_s: float, end: Outcome) -> None:
        """Sets the outcome of the deadline, and moves it to `left_s` seconds from now if it is later."""
        self._at_s, self.end = min(self._at_s, time.monotonic() + left_s), end

    @property
    def left_s(self) -> float:
        """Seconds until the end; 0 after it."""
        return max(0.0, self._at_s - time.monotonic())

    @property
    def is_warning_due(self) -> bool:
        """Whether the processes are to be warned now, if the job asks for a warning."""
        return self.left_s <= self._warn_s

    @property
    def patience_s(self) -> float:
        """The maximum seconds to wait before the deadline is checked again."""
        left_s = self.left_s
        return min([POLL_S, left_s, *[left_s - self._warn_s] * (left_s > self._warn_s)])

    @property
    def outcome(self) -> Outcome | None:
        """The outcome if the time is over."""
        return None if self.left_s else self.end


class PlanProcesses(Protocol):
    """The processes of a plan, from start to end."""

    @property
    def is_running(self) -> bool:
        """Whether any process is still running."""

    @property
    def is_over(self) -> bool:
        """Whether the remaining processes must end: one has failed, or only parameter servers run."""

    @property
    def ends(self) -> Collection[ProcessExit]:
        """The exits of the processes that have ended."""

    @property
    def fault(self) -> Fault:
        """Why the processes must end although none of them failed."""

    def start(self) -> None:
        """Starts all processes."""

    def poll(self, timeout_s: float, /) -> set[int]:
        """Waits up to `timeout_s` for events; returns the signals received."""

    def warn(self, warning: EndWarning, reason: str) -> None:
        """Warns the processes of the end."""

    def end(self, *, patience_s: float, grace_s: float, is_hurried: Callable[[], bool]) -> None:
        """Ends all running processes, and kills those that outlive their grace or are hurried."""

    def outcome(self) -> Outcome:
        """The outcome that follows from the exits of the processes; the same before and after `end`."""

    def close(self) -> None:
        """Releases everything."""


class ClusterSetup(Protocol):
    """The setup task of a cluster, which runs once on each node, for the first job there."""

    env: Mapping[str, str]

    def missing(self) -> Sequence[str]:
        """The nodes of the attempt that are not set up."""

    def claimed(self, names: Sequence[str], /) -> AbstractContextManager[Sequence[str]]:
        """The nodes that this job may set up now; within the context, no other job sets them up."""

    def plan_of(self, names: Collection[str], /) -> Plan:
        """The plan that runs the task on these nodes."""

    def renew(self) -> None:
        """Keeps this job's claims alive."""

    def note(self, plan: Plan, ends: Collection[ProcessExit], /) -> Outcome | None:
        """Records how the task ended; returns the job's outcome if it failed."""


class Launcher(Protocol):
    """Starts the processes of plans on the nodes of an attempt; an engine derives its own from it."""

    files: JobLayout  # the files of the run
    env: Mapping[str, str]  # the environment of processes, with the job's secrets
    signal_pipe: SignalPipe  # the signals that this program gets
    address: str = LOOPBACK  # where programs on the nodes reach this one
    registry_password: str = ""  # for the registry of the job's image
    setup: ClusterSetup | None = None  # the setup task of its cluster, if the attempt runs it
    number: int = 1  # of the attempt: the first of a run is 1
    previous_end: str = ""  # why the attempt before ended
    left_behind: Sequence[str] = ()  # a sentence for each thing that could not be collected from the nodes

    @abstractmethod
    def processes(
        self, plan: Plan, env: Mapping[str, str], *, are_independent: bool = False
    ) -> PlanProcesses:
        """The processes of a plan, not started yet; a failed one ends the others unless independent."""

    def smaller(self, plan: Plan, nodes: Sequence[int]) -> Plan:
        """The resolved plan for some of its nodes, by number; only on engines that support a preflight."""
        raise AssertionError(f"jobs of {type(self).__name__} cannot leave out nodes")

    def reachable(self, plan: Plan) -> Plan:
        """The plan without the nodes whose folders this program cannot create."""
        return plan

    def kill_marked(self, mark: str) -> None:
        """Kills the processes that have this mark in their environment."""
        termination.kill(partial(leftovers.marked, mark))

    def close(self) -> None:
        """Ends everything that was started, and releases it."""
        termination.kill()

    def seals(self, plan: Plan) -> Mapping[str, LogSeal]:
        """The seals of the logs of the plan, once nothing writes to them any more."""
        return seals_of_logs(Path(plan.output.stdout.path).parent)


class Report(Protocol):
    """What an attempt asks of and reports to its engine; an engine derives its own from it."""

    engine: str = "the engine"  # the engine's name in messages
    gives_notice: bool = False  # whether processes are warned before their attempt is ended for another one
    deadline: Deadline  # when the attempt has to end

    @abstractmethod
    def stop_request(self, *, is_signalled: bool) -> Outcome | None:
        """The outcome if the attempt is to end; `is_signalled` if this program got SIGTERM."""

    def notes(self, limits: Limits) -> Iterable[str]:
        """The engine's warnings before processes start."""
        return ()

    def was_ended(self, processes: PlanProcesses) -> bool:
        """Whether a user or the engine may have ended processes, by a request that is not known yet."""
        return False

    def is_hurried(self) -> bool:
        """Whether the processes of a stopped run are to be killed at once."""
        return False

    def note_ending(self) -> None:
        """Records that the processes were asked to end, and that the run ends with them."""
        return

    def warn(self, text: str) -> None:
        """Records a warning about the run while it runs."""
        return

    def note_stop(self, reason: str) -> None:
        """Records that the watch program of the run requested its end."""
        return

    def watch_program(self) -> WatchProgram | None:
        """The program that watches a run; None if the engine has none."""
        return None
