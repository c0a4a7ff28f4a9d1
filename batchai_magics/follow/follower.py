"""Polls one job: state, nodes, log bytes, metrics and progress since the previous poll."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from batchai_magics.backends.base import Backend, FileRef, StatusPoller, StatusSnapshot
from batchai_magics.follow.job_errors import error_of
from batchai_magics.follow.job_events import (
    Event,
    FailureFound,
    LogBytes,
    NodesChanged,
    QueuePoller,
    StateChanged,
    TelemetryPoller,
)
from batchai_magics.follow.log_follower import LogFollower
from batchai_magics.follow.stack_collector import StandstillPoller
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.models.states import ExecutionState


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
        self._watcher = StatusPoller(self.backend, [self.id], clock=self.clock)
        self._due_at = 0.0
        self._job: JobResource | None = None
        # cluster node counts and job state at the last request
        self._nodes_of: tuple[NodeStateCounts, ExecutionState] | None = None
        self._queue = QueuePoller(self.backend, clock=self.clock)
        self._telemetry = TelemetryPoller(self.backend, self.id, clock=self.clock)
        self._standstill = StandstillPoller(self.backend, self.stalled_s)
        self._cluster: ResourceId | None = None
        self._last_look = StatusSnapshot({})
        self._pending: list[Event] = []

    def poll(self, *, wait_s: float = 0.0) -> list[Event]:
        """Poll once.

        Args:
            wait_s: How long the backend may wait for new log data (long polling).

        Returns:
            The new events; empty while the backend's minimum poll interval has not passed. A final state
            comes after the last log byte.
        """
        if self.is_over or not self._is_due:
            return []
        self._due_at = self.clock() + self.backend.capabilities.pace.poll_interval_s
        look = self._poll_status()
        job = self._job_in(look)
        self._add_events(self._state(job))
        self._add_events(self._nodes(look, job))
        self._add_events(self._queue.poll(job))
        self._add_events(self._telemetry.poll(job) if self.with_telemetry else [])
        self._add_events(self._read_logs(0.0 if self._pending or job.state.is_final else wait_s))
        self._add_events(self._standstill.poll(job))
        if job.state.is_final and not self.is_behind:
            self._finish(job)
        news, self._pending = self._pending, []
        return news

    def _finish(self, job: JobResource) -> None:
        """Finish the job, unless a log changed meanwhile."""
        self._add_events(self._logs.check())
        self._add_events([] if self.is_behind else self._end(job))

    def _add_events(self, events: Iterable[Event]) -> None:
        """Keep events until they are returned, so that none is lost if a later request fails."""
        for event in events:
            self._pending.append(event)

    @property
    def is_behind(self) -> bool:
        """Whether more log data is available immediately."""
        return self._logs.is_behind and not self.is_over

    @property
    def _is_due(self) -> bool:
        return self.is_behind or self.clock() >= self._due_at

    def _poll_status(self) -> StatusSnapshot:
        """The current status of job and cluster; the previous one while the poll interval has not passed."""
        look = self._watcher.poll() or self._last_look
        job = look.of(self.id)
        if isinstance(job, JobResource) and self._cluster is None:
            self._cluster = ResourceId.parse(job.spec.cluster.id)
            self._watcher.add(self._cluster)
            look = self._watcher.poll() or look
        self._last_look = look
        return look

    def _job_in(self, look: StatusSnapshot) -> JobResource:
        job = look.of(self.id) or self.backend.show(self.id)  # raises the appropriate error if it was deleted
        assert isinstance(job, JobResource)
        return job

    def _state(self, job: JobResource) -> list[Event]:
        if job == self._job or job.state.is_final:
            return []
        self._job = job
        return [StateChanged(job)]

    def _nodes(self, look: StatusSnapshot, job: JobResource) -> list[Event]:
        """Request the job's nodes if its state or its cluster's node counts changed."""
        cluster = look.of(self._cluster) if self._cluster else None  # jobs outlive their cluster
        if not isinstance(cluster, Cluster):
            return []
        if self._nodes_of == (cluster.node_states, job.state):
            return []
        own = self.backend.nodes(self.id) if job.execution and not job.state.is_final else ()
        self._nodes_of = (cluster.node_states, job.state)
        return [
            NodesChanged(self.id, NodeStateCounts.counting(node.state for node in own), cluster.node_states)
        ]

    def _read_logs(self, wait_s: float) -> Iterator[Event]:
        for event in self._logs.read(wait_s):
            if isinstance(event, LogBytes):
                self._standstill.printed(event.chunk)
            yield event

    def _end(self, job: JobResource) -> list[Event]:
        error = error_of(self.backend, job)
        self.is_over = True
        found = [FailureFound(self.id, error)] if error else []
        return [*self._logs.finish(), *found, StateChanged(job)]
