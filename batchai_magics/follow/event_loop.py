"""The only loop that waits: yields the events of a job from its current state to its end.

`Follower.poll` polls once without waiting; `events` polls repeatedly. At 50 ms, polling is as fast as file
system notifications, has no dependencies, and works on network file systems.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping

from batchai_magics.backends.base import Backend, FileRef, StatusPoller, StatusSnapshot
from batchai_magics.errors import UnreachableError
from batchai_magics.follow.event_types import ConnectionLost, ConnectionRestored, Event
from batchai_magics.follow.follower import Follower
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import JobResource, Resource

MIN_DELAY_S = 0.05  # poll interval while there are changes
MAX_DELAY_S = 0.5  # poll interval without changes
BACKOFF_FACTOR = 1.3
MAX_RETRY_DELAY_S = 5.0  # longest delay between attempts to reach an unreachable backend


def events(
    backend: Backend,
    id: ResourceId,
    *,
    files: Collection[FileRef] | None = None,
    patterns: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
    wait: Callable[[float], object] | None = None,
) -> Iterator[Event]:
    """Yield everything that happens to a job, from the first log byte to its end.

    Logs are drained before the last StateChanged, which has a final state. If a backend becomes unreachable
    after it has responded once, ConnectionLost is yielded, requests are retried with backoff, and
    ConnectionRestored follows; no event is lost.

    Args:
        backend: The backend of the job.
        id: The job.
        files: The logs to read; by default all logs of the job. Metrics come from its stdout.
        patterns: User-defined metrics: regular expressions by name.
        stop: Ends the iteration when set.
        wait: Replaces sleeping; takes seconds.

    Raises:
        NotFoundError: The job was deleted.
        UnreachableError: The backend never responded.
    """
    stop = stop or threading.Event()
    wait = wait or stop.wait
    follower = Follower(backend, id, files, patterns or {})
    delays = _Backoff(backend)
    while not stop.is_set():
        seen = _poll_once(follower, delays)
        yield from seen
        if follower.is_over:
            return
        delay_s = delays.after_failure() if delays.is_lost else delays.after(is_news=bool(seen))
        if delays.is_lost or not follower.is_behind:
            wait(delay_s)


def _poll_once(follower: Follower, delays: _Backoff) -> list[Event]:
    """The events of one poll; ConnectionLost once if the backend is unreachable."""
    try:
        seen = follower.poll(wait_s=delays.wait_s)
    except UnreachableError as error:
        if not delays.has_connected:
            raise
        news: list[Event] = [] if delays.is_lost else [ConnectionLost(follower.id, error.message)]
        delays.is_lost = True
        return news
    back: list[Event] = [ConnectionRestored(follower.id)] if delays.is_lost else []
    delays.has_connected, delays.is_lost = True, False
    return [*back, *seen]


def endings(
    backend: Backend,
    jobs: Collection[ResourceId],
    *,
    wait: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Collection[ResourceId]]:
    """Yield the jobs that have ended or were deleted since the last poll, until all have.

    All jobs are polled together. A poll without changes yields an empty collection.
    """
    left = {id.key: id for id in jobs}
    watcher = StatusPoller(backend, jobs, clock=clock)
    delays = _Backoff(backend)
    while left:
        try:
            look = watcher.poll()
        except UnreachableError:
            if not delays.has_connected:
                raise
            wait(delays.after_failure())
            continue
        delays.has_connected = True
        over = _ended_jobs(look, left.values())
        for id in over:
            del left[id.key]
        yield over
        delay_s = delays.after(is_news=bool(over))
        if left:
            wait(delay_s)


def _ended_jobs(look: StatusSnapshot | None, jobs: Collection[ResourceId]) -> list[ResourceId]:
    return [] if look is None else [id for id in jobs if _has_ended(look.of(id))]


def _has_ended(job: Resource | None) -> bool:
    return not isinstance(job, JobResource) or job.state.is_final


class _Backoff:
    """Poll delays: short after changes, growing without, at least the backend's poll interval."""

    def __init__(self, backend: Backend) -> None:
        pace = backend.capabilities.pace
        self._shortest_s = max(MIN_DELAY_S, pace.look_s)
        self._longest_s = max(MAX_DELAY_S, pace.look_s)
        self._delay_s = self._shortest_s
        self.wait_s = pace.longest_wait_s
        self.has_connected, self.is_lost = False, False  # a response was received; the connection is down now

    def after(self, *, is_news: bool) -> float:
        """The delay after a poll, in seconds."""
        self._delay_s = self._shortest_s if is_news else min(self._longest_s, self._delay_s * BACKOFF_FACTOR)
        return self._delay_s

    def after_failure(self) -> float:
        """The delay after a failed request, in seconds."""
        self.is_lost = True
        self._delay_s = min(MAX_RETRY_DELAY_S, self._delay_s * 2)
        return self._delay_s
