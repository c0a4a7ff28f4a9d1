"""The only loop that waits: a job's events, from wherever it stands to its end.

`Follower.poll` looks once and never waits; `events` polls and waits in between. Polling beats file
notification here: it is as quick at 50 ms, needs nothing, and works on network file systems.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.errors import NotFoundError
from batchai_magics.metrics import Parser
from batchai_magics.metrics.reading.times import Clock
from batchai_magics.metrics.record import Record
from batchai_magics.models.cluster import NodeStateCounts
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.job import OUT, STDOUTERR
from batchai_magics.models.resources import Cluster, JobResource

SHORTEST_S = 0.05  # between two looks while something happens
LONGEST_S = 0.5  # while nothing does
GROWTH = 1.3
PIECE_BYTES = 1 << 20
MOST_PIECES = 16  # of one file in one look
METRICS_FILE = OUT
UNKNOWN_SIZE = -1


@dataclass(frozen=True)
class StateChanged:
    """The job's state, or what it tells about itself, is new. The last one has a final state."""

    job: JobResource


@dataclass(frozen=True)
class NodesChanged:
    """The node states of the job's cluster are new."""

    job: ResourceId
    counts: NodeStateCounts


@dataclass(frozen=True)
class LogBytes:
    """New bytes of a log file. `restarted` says the file was cut: what was read before is void."""

    file: FileRef
    chunk: Chunk
    restarted: bool = False


@dataclass(frozen=True)
class MetricsSeen:
    """New records of the job's stdout, in file order."""

    job: ResourceId
    records: tuple[Record, ...]


Event = StateChanged | NodesChanged | LogBytes | MetricsSeen


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
    """
    stop = stop or threading.Event()
    wait = wait or stop.wait
    follower = Follower(backend, id, files, patterns or {})
    delay_s = SHORTEST_S
    while not stop.is_set():
        seen = follower.poll()
        yield from seen
        if follower.is_over:
            return
        delay_s = SHORTEST_S if seen else min(LONGEST_S, delay_s * GROWTH)
        if not follower.is_behind:
            wait(delay_s)


def endings(
    backend: Backend,
    experiment: ResourceId,
    jobs: Collection[ResourceId],
    *,
    wait: Callable[[float], object] = time.sleep,
) -> Iterator[Collection[ResourceId]]:
    """Those of an experiment's jobs that have ended, or are gone, since the last look, until none is left.

    All are looked at together. A look that finds none gives nothing but a moment to show something else.
    """
    left = {id.key: id for id in jobs}
    delay_s = SHORTEST_S
    while left:
        found = [job for job in backend.list(experiment, Kind.JOB) if isinstance(job, JobResource)]
        going_on = {job.id.key for job in found if not job.state.is_final}
        over = [id for key, id in left.items() if key not in going_on]
        left = {key: id for key, id in left.items() if key in going_on}
        yield over
        delay_s = SHORTEST_S if over else min(LONGEST_S, delay_s * GROWTH)
        if left:
            wait(delay_s)


@dataclass
class _Position:
    """How far a log file was read."""

    offset: int = 0


@dataclass
class Follower:
    """A place in a job's story. Each `poll` tells what is new since the last one."""

    backend: Backend
    id: ResourceId
    files: Collection[FileRef] | None = None
    patterns: Mapping[str, str] = field(default_factory=dict)
    is_over: bool = False
    is_behind: bool = False  # there is more to read at once

    def __post_init__(self) -> None:
        self._parser = Parser(self.patterns)
        self._positions: dict[FileRef, _Position] = {}
        self._job: JobResource | None = None
        self._counts: NodeStateCounts | None = None

    def poll(self) -> list[Event]:
        """What is new: the state, the nodes, the logs; a final state comes after the last byte."""
        if self.is_over:
            return []
        job = self._show()
        news: list[Event] = []
        if job != self._job and not job.state.is_final:
            news.append(StateChanged(job))
        news += self._nodes(job)
        self.is_behind = False
        news += self._logs()
        if job.state.is_final and not self.is_behind:
            news += self._end(job)
        self._job = job
        return news

    def _show(self) -> JobResource:
        job = self.backend.show(self.id)
        assert isinstance(job, JobResource)
        return job

    def _nodes(self, job: JobResource) -> list[Event]:
        try:
            cluster = self.backend.show(ResourceId.parse(job.spec.cluster.id))
        except NotFoundError:  # jobs outlive their cluster
            return []
        if not isinstance(cluster, Cluster) or cluster.node_states == self._counts:
            return []
        self._counts = cluster.node_states
        return [NodesChanged(self.id, cluster.node_states)]

    def _logs(self) -> list[Event]:
        news: list[Event] = []
        for file, size_bytes in self._sizes():
            position = self._positions.setdefault(file, _Position())
            if size_bytes != position.offset:
                news += self._read(file, position)
        return news

    def _sizes(self) -> Iterator[tuple[FileRef, int]]:
        if self.files is not None:
            yield from ((file, UNKNOWN_SIZE) for file in self.files)
            return
        for found in self.backend.files(self.id):
            if not found.is_directory:
                yield FileRef(self.id, found.path), found.size_bytes

    def _read(self, file: FileRef, position: _Position) -> Iterator[Event]:
        for _ in range(MOST_PIECES):
            chunk = self.backend.read(file, position.offset, PIECE_BYTES)
            restarted = chunk.size < position.offset
            if restarted:
                chunk = self.backend.read(file, 0, PIECE_BYTES)
            position.offset = chunk.end
            if chunk.data or restarted:
                yield LogBytes(file, chunk, restarted)
                yield from self._metrics(file, chunk, restarted)
            if chunk.end >= chunk.size:
                return
        self.is_behind = True

    def _metrics(self, file: FileRef, chunk: Chunk, restarted: bool) -> Iterator[Event]:
        if file.path != METRICS_FILE or file.directory_id != STDOUTERR:
            return
        if restarted:
            self._parser = Parser(self.patterns)
        records = list(records_in(chunk, self._parser))
        if records:
            yield MetricsSeen(self.id, tuple(records))

    def _end(self, job: JobResource) -> list[Event]:
        self.is_over = True
        last = tuple(self._parser.finish())
        return [*([MetricsSeen(self.id, last)] if last else []), StateChanged(job)]


def records_in(chunk: Chunk, parser: Parser) -> Iterator[Record]:
    """Gives a chunk to a parser, telling it which rank wrote what when; yields what it read."""
    clock = Clock([written.start for written in chunk.times], [written.time for written in chunk.times])
    for start, end, rank in _parts(chunk):
        data = chunk.data[start - chunk.offset : end - chunk.offset]
        yield from parser.feed(data, rank, offset=start, clock=clock if chunk.times else None)


def _parts(chunk: Chunk) -> Iterator[tuple[int, int, int | None]]:
    """Start, end and rank of each part of a chunk; the rank of what no span covers is not known."""
    at = chunk.offset
    for span in chunk.spans:
        if at < span.start:
            yield at, span.start, None
        yield span.start, span.end, span.rank
        at = span.end
    if at < chunk.end:
        yield at, chunk.end, None
