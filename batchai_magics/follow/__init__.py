"""The only loop that waits: a job's events, from wherever it stands to its end.

`Follower.poll` looks once and never waits; `events` polls and waits in between. Polling beats file
notification here: it is as quick at 50 ms, needs nothing, and works on network file systems.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping

from batchai_magics.backends.base import Backend, FileRef, Look, Watcher
from batchai_magics.backends.service.log_records import records_in
from batchai_magics.errors import UnreachableError
from batchai_magics.follow.event import (
    Event,
    LogBytes,
    LogFault,
    MetricsSeen,
    NodesChanged,
    Reached,
    StateChanged,
    Unreached,
)
from batchai_magics.follow.follower import METRICS_FILE, Follower
from batchai_magics.follow.queue import QueueSeen
from batchai_magics.follow.telemetry import UseSeen
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import JobResource, Resource

__all__ = [
    "METRICS_FILE",
    "Event",
    "Follower",
    "LogBytes",
    "LogFault",
    "MetricsSeen",
    "NodesChanged",
    "QueueSeen",
    "Reached",
    "StateChanged",
    "Unreached",
    "UseSeen",
    "endings",
    "events",
    "records_in",
]

SHORTEST_S = 0.05  # between two looks while something happens
LONGEST_S = 0.5  # while nothing does
GROWTH = 1.3
LOST_S = 5.0  # the most between two tries to reach a backend that does not answer any more


def events(
    backend: Backend,
    id: ResourceId,
    *,
    files: Collection[FileRef] | None = None,
    patterns: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
    wait: Callable[[float], object] | None = None,
) -> Iterator[Event]:
    """Everything that happens to a job, from its first byte to its end; then it stops by itself.

    Logs are drained before the last StateChanged, which has a final state. `files` are the ones to read
    (of any output directory; by default all logs, and metrics from stdout). `stop` ends it early;
    `wait` takes seconds and replaces sleeping. Raises NotFoundError when the job is deleted.

    A backend that answered and then cannot be reached is asked again, ever more rarely: Unreached says so,
    Reached that it is over, and nothing is lost.
    """
    stop = stop or threading.Event()
    wait = wait or stop.wait
    follower = Follower(backend, id, files, patterns or {})
    delays = _Delays(backend)
    while not stop.is_set():
        seen = _looked(follower, delays)
        yield from seen
        if follower.is_over:
            return
        if delays.is_lost:
            wait(delays.after_failure())
            continue
        delay_s = delays.after(is_news=bool(seen))
        if not follower.is_behind:
            wait(delay_s)


def _looked(follower: Follower, delays: _Delays) -> list[Event]:
    """What is new in one look, or that nobody answers any more, told once."""
    try:
        seen = follower.poll(wait_s=delays.wait_s)
    except UnreachableError as error:
        if not delays.is_met:
            raise
        news: list[Event] = [] if delays.is_lost else [Unreached(follower.id, error.message)]
        delays.is_lost = True
        return news
    back: list[Event] = [Reached(follower.id)] if delays.is_lost else []
    delays.is_met, delays.is_lost = True, False
    return [*back, *seen]


def endings(
    backend: Backend,
    jobs: Collection[ResourceId],
    *,
    wait: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Collection[ResourceId]]:
    """Those of these jobs that have ended, or are gone, since the last look, until none is left.

    All are looked at together. A look that finds none gives nothing but a moment to do something else.
    """
    left = {id.key: id for id in jobs}
    watcher = Watcher(backend, jobs, clock=clock)
    delays = _Delays(backend)
    while left:
        try:
            look = watcher.look()
        except UnreachableError:
            if not delays.is_met:
                raise
            wait(delays.after_failure())
            continue
        delays.is_met = True
        over = _over(look, left.values())
        for id in over:
            del left[id.key]
        yield over
        delay_s = delays.after(is_news=bool(over))
        if left:
            wait(delay_s)


def _over(look: Look | None, jobs: Collection[ResourceId]) -> list[ResourceId]:
    return [] if look is None else [id for id in jobs if _has_ended(look.of(id))]


def _has_ended(job: Resource | None) -> bool:
    return not isinstance(job, JobResource) or job.state.is_final


class _Delays:
    """How long to wait between two looks: briefly after news, ever longer without, at the backend's pace."""

    def __init__(self, backend: Backend) -> None:
        pace = backend.capabilities.pace
        self._shortest_s = max(SHORTEST_S, pace.look_s)
        self._longest_s = max(LONGEST_S, pace.look_s)
        self._delay_s = self._shortest_s
        self.wait_s = pace.longest_wait_s
        self.is_met, self.is_lost = False, False  # it has answered; it did, and does not any more

    def after(self, *, is_news: bool) -> float:
        """The delay after a look, in seconds."""
        self._delay_s = self._shortest_s if is_news else min(self._longest_s, self._delay_s * GROWTH)
        return self._delay_s

    def after_failure(self) -> float:
        """The delay after a question that nobody has answered, in seconds."""
        self.is_lost = True
        self._delay_s = min(LOST_S, self._delay_s * 2)
        return self._delay_s
