"""Polls one job: state, nodes, log bytes, metrics and progress since the previous poll."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from batchai_magics.backends.base import Backend, Bookmark, Chunk, FileRef, StatusPoller, StatusSnapshot
from batchai_magics.follow.job_errors import error_of
from batchai_magics.follow.job_events import (
    Event,
    FailureFound,
    LogBytes,
    LogFault,
    MetricMismatched,
    MetricsAdded,
    NodesChanged,
    QueuePoller,
    StateChanged,
    TelemetryPoller,
)
from batchai_magics.follow.metric_streams import METRICS_FILES, MetricStreams
from batchai_magics.follow.stack_collector import StandstillPoller
from batchai_magics.launch.plan import TRAINER_LOG
from batchai_magics.metrics.progress.progress_reader import BAR_BYTES, MAX_LINES, ProgressReader
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.models.states import ExecutionState


def read_progress(reader: ProgressReader, file: str, chunk: Chunk, *, now: float) -> bool:
    """Parse the newest bytes of a log; return whether they contained progress. `now` is the default time."""
    at = chunk.times[-1].time if chunk.times else now
    if len(chunk.spans) <= 1:
        return reader.feed(chunk.data, at=at, stream=file, rank=chunk.spans[0].rank if chunk.spans else None)
    return _read_ranks(reader, file, chunk, at)


def _read_ranks(reader: ProgressReader, file: str, chunk: Chunk, at: float) -> bool:
    """Parse the last output of each relevant rank, in the order of writing."""
    newest: list[tuple[int, bytes]] = []
    size = 0
    for span in reversed(chunk.spans):
        if not reader.wants(span.rank):
            continue
        data = chunk.data[max(0, span.start - chunk.offset) : span.end - chunk.offset]
        newest.append((span.rank, data))
        size += len(data)
        if size >= BAR_BYTES or len(newest) >= MAX_LINES:
            break
    told = [reader.feed(data, at=at, stream=f"{file}#{rank}", rank=rank) for rank, data in reversed(newest)]
    return any(told)


CHUNK_BYTES = 1 << 20
MAX_CHUNKS = 16  # of one file per poll


@dataclass
class Follower:
    """The position in a job's history. Each `poll` returns the events since the previous one."""

    backend: Backend
    id: ResourceId
    files: Collection[FileRef] | None = None
    patterns: Mapping[str, str] = field(default_factory=dict)
    is_over: bool = False
    is_behind: bool = False  # more log data is available immediately
    clock: Callable[[], float] = time.monotonic
    with_telemetry: bool = False  # include resource usage
    stalled_s: float = 0.0  # without output, after which a standstill is reported; 0: never

    def __post_init__(self) -> None:
        self._metric_streams = MetricStreams(self.patterns)
        self._watcher = StatusPoller(self.backend, [self.id], clock=self.clock)
        self._due_at = 0.0
        self._marks: dict[FileRef, Bookmark] = {}
        self._digests: dict[FileRef, hashlib._Hash] = {}
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
        self.is_behind = False
        self._add_events(self._logs(0.0 if self._pending or job.state.is_final else wait_s))
        self._add_events(self._settled_metrics())
        self._add_events(self._standstill.poll(job))
        if job.state.is_final and not self.is_behind:
            self._finish(job)
        news, self._pending = self._pending, []
        return news

    def _finish(self, job: JobResource) -> None:
        """Finish the job, unless a log changed meanwhile."""
        self._add_events(self._check_logs())
        self._add_events([] if self.is_behind else self._end(job))

    def _add_events(self, events: Iterable[Event]) -> None:
        """Keep events until they are returned, so that none is lost if a later request fails."""
        for event in events:
            self._pending.append(event)

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

    def _logs(self, wait_s: float) -> Iterator[Event]:
        if self.files is not None:
            for file in self.files:
                yield from self._read(file)
            return
        for _ in range(MAX_CHUNKS):
            positions = {file.path: mark.offset for file, mark in self._marks.items()}
            chunks = self.backend.tail(self.id, positions, CHUNK_BYTES, wait_s=wait_s)
            self._metric_streams.has_trainer_files |= TRAINER_LOG in chunks
            # The trainers' log comes last: what is printed counts.
            for path, chunk in sorted(chunks.items(), key=lambda log: log[0] == TRAINER_LOG):
                yield from self._chunk_events(FileRef(self.id, path), chunk)
            if all(chunk.end >= chunk.size for chunk in chunks.values()):
                return
            wait_s = 0.0
        self.is_behind = True

    def _read(self, file: FileRef) -> Iterator[Event]:
        for _ in range(MAX_CHUNKS):
            chunk = self.backend.read(file, self._mark(file).offset, CHUNK_BYTES)
            yield from self._chunk_events(file, chunk)
            if chunk.end >= chunk.size:
                return
        self.is_behind = True

    def _chunk_events(self, file: FileRef, chunk: Chunk) -> Iterator[Event]:
        """The events of a log chunk; a replaced file is read from the start."""
        mark = self._mark(file)
        if chunk.offset and not mark.matches(chunk):
            chunk = self.backend.read(file, 0, CHUNK_BYTES)
        restarted = chunk.offset < mark.offset
        self._marks[file] = mark.after(chunk)
        if restarted or file not in self._digests:
            self._digests[file] = hashlib.sha256()
        self._digests[file].update(chunk.data)
        if chunk.data or restarted:
            self._standstill.printed(chunk)
            if self.files is not None or file.path != TRAINER_LOG:  # nobody wants to read it as a log
                yield LogBytes(file, chunk.redacted, restarted)
            yield from self._metrics(file, chunk.redacted, restarted)

    def _mark(self, file: FileRef) -> Bookmark:
        return self._marks.get(file, Bookmark())

    def _check_logs(self) -> Iterator[Event]:
        """At the end: read files that were replaced by others of equal size, and report corrupt logs."""
        for file, mark in list(self._marks.items()):
            chunk = self.backend.read(file, mark.offset, 0)
            if chunk.generation and not mark.matches(chunk):
                yield from self._read(file)
            digest = self._digests[file].hexdigest()
            fault = chunk.seal.fault(self._mark(file).offset, digest) if chunk.seal else ""
            if fault and not self.is_behind:
                yield LogFault(file, fault)

    def _metrics(self, file: FileRef, chunk: Chunk, restarted: bool) -> Iterator[Event]:
        if file.path not in METRICS_FILES or file.directory_id != STDOUTERR:
            return
        if restarted:
            self._metric_streams.restart(file.path)
        known = self._metric_streams.mismatches
        records = self._metric_streams.feed(file.path, chunk)
        if len(records):
            yield MetricsAdded(self.id, records, file)
        for mismatch in self._metric_streams.mismatches:
            if mismatch not in known:
                yield MetricMismatched(self.id, str(mismatch))

    def _settled_metrics(self) -> list[Event]:
        """The numbers that waited for what the other log tells."""
        records = self._metric_streams.flush()
        return [MetricsAdded(self.id, records)] if records else []

    def _end(self, job: JobResource) -> list[Event]:
        error = error_of(self.backend, job)
        self.is_over, last = True, self._metric_streams.finish()
        found = [FailureFound(self.id, error)] if error else []
        return [*([MetricsAdded(self.id, last)] if last else []), *found, StateChanged(job)]
