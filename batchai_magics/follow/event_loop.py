"""The only loop that waits, and the only back-off: events of a job, and ends of several.

`Follower.poll` polls once without waiting; `events` polls repeatedly. At 50 ms, polling is as fast as file
system notifications, has no dependencies, and works on network file systems.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from batchai_magics.backends.base import Backend, FileRef, StatusSnapshot
from batchai_magics.errors import UnreachableError
from batchai_magics.follow.hang_signs import StandstillPoller
from batchai_magics.follow.job_errors import error_of
from batchai_magics.follow.job_events import (
    ConnectionLost,
    ConnectionRestored,
    Event,
    JobFailed,
    LogBytes,
    NodesChanged,
    QueuePoller,
    StateChanged,
    TelemetryPoller,
)
from batchai_magics.follow.log_follower import LogFollower
from batchai_magics.follow.status_poller import StatusPoller
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.models.states import ExecutionState

MIN_DELAY_S = 0.05  # poll interval while there are changes
MIN_END_DELAY_S = 0.02  # the same of `endings`, which reads no logs
MAX_DELAY_S = 0.5  # poll interval without changes
BACKOFF_FACTOR = 1.3
END_BACKOFF_FACTOR = 1.1  # the same of `endings`
READ_INTERVAL_S = 1.0  # poll interval of `changes`
MAX_RETRY_DELAY_S = 5.0  # longest delay between attempts to reach an unreachable backend
News = TypeVar("News")


def events(
    backend: Backend,
    id: ResourceId,
    *,
    files: Collection[FileRef] | None = None,
    patterns: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
    stalled_s: float = 0.0,
) -> Iterator[Sequence[Event]]:
    """Yield everything that happens to a job, from the first log byte to its end.

    The events of each poll come together, in an empty sequence if there are none. Logs are drained before the
    last StateChanged, which has a final state. If a backend becomes unreachable after it has responded once,
    ConnectionLost is yielded, requests are retried with backoff, and ConnectionRestored follows; no event is
    lost.

    Args:
        backend: The backend of the job.
        id: The job.
        files: The logs to read; by default all logs of the job. Metrics come from its stdout.
        patterns: User-defined metrics: regular expressions by name.
        stop: Ends the iteration when set; the loop waits on it.
        stalled_s: How long the logs may not grow before a standstill is reported; 0: forever.

    Raises:
        NotFoundError: The job was deleted.
        UnreachableError: The backend never responded.
    """
    stop = stop or threading.Event()
    follower = Follower(backend, id, files, patterns or {}, stalled_s=stalled_s)
    backoff, max_wait_s = PollBackoff.of(backend), backend.capabilities.pace.max_wait_s

    def pause(delay_s: float) -> None:
        if backoff.is_lost or not follower.is_behind:
            stop.wait(delay_s)

    for result in _polls(lambda: [] if stop.is_set() else follower.poll(wait_s=max_wait_s), backoff, pause):
        if not isinstance(result, UnreachableError):
            yield [ConnectionRestored(id), *result] if backoff.was_lost else result
        else:
            yield [ConnectionLost(id, result.message)] if backoff.failure_count == 1 else []
        if follower.is_over or stop.is_set():
            return


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
    open_jobs = {id.key: id for id in jobs}
    poller = StatusPoller(backend, jobs, clock=clock)

    def poll() -> list[ResourceId]:
        snapshot = poller.poll()
        if snapshot is None:
            return []
        states = [(id, snapshot.of(id)) for id in open_jobs.values()]
        return [id for id, job in states if not isinstance(job, JobResource) or job.state.is_final]

    backoff = PollBackoff.of(backend, MIN_END_DELAY_S, END_BACKOFF_FACTOR)
    for ended in _polls(poll, backoff, wait) if open_jobs else ():
        if not isinstance(ended, UnreachableError):
            for id in ended:
                del open_jobs[id.key]
            yield ended
        if not open_jobs:
            return


def changes(
    backend: Backend, read: Callable[[], News], *, wait: Callable[[float], object] = time.sleep
) -> Iterator[News]:
    """Yield the result of `read` now and whenever it has changed; never ends.

    `read` is called once a second, or less often if the backend's pace requires that. If the backend stops
    responding, the call is retried.
    """
    previous: list[News] = []

    def poll() -> Sequence[News]:
        backend.reconcile()
        current = [read()]
        if current == previous:
            return ()
        previous[:] = current
        return current

    pause_s = max(READ_INTERVAL_S, backend.capabilities.pace.poll_interval_s)
    for result in _polls(poll, PollBackoff(pause_s, pause_s), wait):
        if not isinstance(result, UnreachableError):
            yield from result


def _polls(
    poll: Callable[[], Sequence[News]], backoff: PollBackoff, wait: Callable[[float], object]
) -> Iterator[Sequence[News] | UnreachableError]:
    """The loop: the news of each poll, or the error of one that failed; it waits before the next.

    A failure before the first response is raised.
    """
    has_connected = False
    while True:
        try:
            news = poll()
        except UnreachableError as error:
            if not has_connected:
                raise
            delay_s = backoff.after_failure()
            yield error
        else:
            has_connected = True
            delay_s = backoff.after(is_news=bool(news))
            yield news
        wait(delay_s)


class PollBackoff:
    """The delays between polls: short after news, growing without, and longer after failed requests."""

    def __init__(self, shortest_s: float, longest_s: float, factor: float = BACKOFF_FACTOR) -> None:
        self._shortest_s, self._longest_s, self._factor = shortest_s, longest_s, factor
        self._delay_s = shortest_s
        self.failure_count = 0  # of the requests since the last response
        self.was_lost = False  # the last response was the first one after failures

    @classmethod
    def of(
        cls, backend: Backend, shortest_s: float = MIN_DELAY_S, factor: float = BACKOFF_FACTOR
    ) -> PollBackoff:
        """The back-off of a backend, which is not polled more often than its pace allows."""
        poll_interval_s = backend.capabilities.pace.poll_interval_s
        return cls(max(shortest_s, poll_interval_s), max(MAX_DELAY_S, poll_interval_s), factor)

    @property
    def is_lost(self) -> bool:
        """Whether the last request failed."""
        return self.failure_count > 0

    def after(self, *, is_news: bool) -> float:
        """The delay after a response, in seconds."""
        self.was_lost, self.failure_count = self.is_lost, 0
        self._delay_s = self._shortest_s if is_news else min(self._longest_s, self._delay_s * self._factor)
        return self._delay_s

    def after_failure(self) -> float:
        """The delay after a failed request, in seconds."""
        self.failure_count += 1
        self._delay_s = min(MAX_RETRY_DELAY_S, self._delay_s * 2)
        return self._delay_s


@dataclass
class Follower:
    """The position in a job's history. Each `poll` returns the events since the previous one."""

    backend: Backend
    id: ResourceId
    files: Collection[FileRef] | None = None
    patterns: Mapping[str, str] = field(default_factory=dict)
    is_over: bool = False
    clock: Callable[[], float] = time.monotonic
    with_telemetry: bool = False  # include resource usage
    stalled_s: float = 0.0  # without output, after which a standstill is reported; 0: never

    def __post_init__(self) -> None:
        self._logs = LogFollower(self.backend, self.id, self.patterns, self.files)
        self._status_poller = StatusPoller(self.backend, [self.id], clock=self.clock)
        self._due_at = 0.0
        self._job: JobResource | None = None
        # cluster node counts and job state at the last request
        self._known_counts: tuple[NodeStateCounts, ExecutionState] | None = None
        self._queue = QueuePoller(self.backend, clock=self.clock)
        self._telemetry = TelemetryPoller(self.backend, self.id, clock=self.clock)
        self._standstill = StandstillPoller(self.backend, self.stalled_s)
        self._cluster: ResourceId | None = None
        self._last_snapshot = StatusSnapshot({})
        self._pending: list[Event] = []

    def poll(self, *, wait_s: float = 0.0) -> list[Event]:
        """Poll once.

        Args:
            wait_s: How long the backend may wait for new log data (long polling).

        Returns:
            The new events; empty while the backend's minimum poll interval has not passed. A final state
            comes after the last log byte.
        """
        if self.is_over or not (self.is_behind or self.clock() >= self._due_at):
            return []
        self._due_at = self.clock() + self.backend.capabilities.pace.poll_interval_s
        snapshot = self._poll_status()
        # `show` raises the appropriate error if the job was deleted
        job = snapshot.of(self.id) or self.backend.show(self.id)
        assert isinstance(job, JobResource)
        self._add_events(self._state(job))
        self._add_events(self._nodes(snapshot, job))
        self._add_events(self._queue.poll(job))
        self._add_events(self._telemetry.poll(job) if self.with_telemetry else [])
        self._add_events(self._read_logs(0.0 if self._pending or job.state.is_final else wait_s))
        self._add_events(self._standstill.poll(job))
        if job.state.is_final and not self.is_behind:
            self._add_events(self._logs.check())
            self._add_events([] if self.is_behind else self._end(job))
        events, self._pending = self._pending, []
        return events

    def _add_events(self, events: Iterable[Event]) -> None:
        """Keep events, each as it comes, so that none is lost if a later request fails."""
        for event in events:
            self._pending.append(event)

    @property
    def is_behind(self) -> bool:
        """Whether more log data is available immediately."""
        return self._logs.is_behind and not self.is_over

    def _poll_status(self) -> StatusSnapshot:
        """The current status of job and cluster; the previous one while the poll interval has not passed."""
        snapshot = self._status_poller.poll() or self._last_snapshot
        job = snapshot.of(self.id)
        if isinstance(job, JobResource) and self._cluster is None:
            self._cluster = ResourceId.parse(job.spec.cluster.id)
            self._status_poller.add(self._cluster)
            snapshot = self._status_poller.poll() or snapshot
        self._last_snapshot = snapshot
        return snapshot

    def _state(self, job: JobResource) -> list[Event]:
        if job == self._job or job.state.is_final:
            return []
        self._job = job
        return [StateChanged(job)]

    def _nodes(self, snapshot: StatusSnapshot, job: JobResource) -> list[Event]:
        """Request the job's nodes if its state or its cluster's node counts changed."""
        cluster = snapshot.of(self._cluster) if self._cluster else None  # jobs outlive their cluster
        if not isinstance(cluster, Cluster):
            return []
        if self._known_counts == (cluster.node_states, job.state):
            return []
        job_nodes = self.backend.nodes(self.id) if job.execution and not job.state.is_final else ()
        self._known_counts = (cluster.node_states, job.state)
        counts = NodeStateCounts.counting(node.state for node in job_nodes)
        return [NodesChanged(self.id, counts, cluster.node_states)]

    def _read_logs(self, wait_s: float) -> Iterator[Event]:
        for event in self._logs.read(wait_s):
            if isinstance(event, LogBytes):
                self._standstill.printed(event.chunk)
            yield event

    def _end(self, job: JobResource) -> list[Event]:
        error = error_of(self.backend, job)
        self.is_over = True
        failures = [JobFailed(self.id, error)] if error else []
        return [*self._logs.finish(), *failures, StateChanged(job)]
