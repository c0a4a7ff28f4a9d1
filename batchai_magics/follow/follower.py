"""A place in a job's story, and what each look from there tells: state, nodes, bytes, numbers."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from batchai_magics.backends.base import Backend, Bookmark, Chunk, FileRef, Look, Watcher
from batchai_magics.follow.event import Event, LogBytes, LogFault, MetricsSeen, NodesChanged, StateChanged
from batchai_magics.follow.numbers import numbers_in
from batchai_magics.follow.queue import Queue
from batchai_magics.follow.telemetry import Telemetry
from batchai_magics.metrics import Parser
from batchai_magics.models.cluster import NodeStateCounts
from batchai_magics.models.execution import OUT, STDOUTERR
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.models.states import ExecutionState

PIECE_BYTES = 1 << 20
MOST_PIECES = 16  # of one file in one look
METRICS_FILE = OUT


@dataclass
class Follower:
    """A place in a job's story. Each `poll` tells what is new since the last one."""

    backend: Backend
    id: ResourceId
    files: Collection[FileRef] | None = None
    patterns: Mapping[str, str] = field(default_factory=dict)
    is_over: bool = False
    is_behind: bool = False  # there is more to read at once
    clock: Callable[[], float] = time.monotonic
    with_use: bool = False  # what its processes use is told too

    def __post_init__(self) -> None:
        self._parser = Parser(self.patterns)
        self._watcher = Watcher(self.backend, [self.id], clock=self.clock)
        self._due_at = 0.0
        self._marks: dict[FileRef, Bookmark] = {}
        self._digests: dict[FileRef, hashlib._Hash] = {}
        self._job: JobResource | None = None
        self._nodes_of: tuple[NodeStateCounts, ExecutionState] | None = None  # what they were asked for at
        self._queue = Queue(self.backend, self.id, clock=self.clock)
        self._telemetry = Telemetry(self.backend, self.id, clock=self.clock)
        self._cluster: ResourceId | None = None
        self._last_look = Look({})
        self._news: list[Event] = []

    def poll(self, *, wait_s: float = 0.0) -> list[Event]:
        """What is new: the state, the nodes, the logs; a final state comes after the last byte.

        Nothing as long as the backend's pace forbids to ask; it may wait `wait_s` for news of the log.
        """
        if self.is_over or not self._is_due:
            return []
        self._due_at = self.clock() + self.backend.capabilities.pace.look_s
        look = self._look()
        job = self._job_in(look)
        self._note(self._state(job))
        self._note(self._nodes(look, job))
        self._note(self._queue.news(job))
        self._note(self._telemetry.news(job) if self.with_use else [])
        self.is_behind = False
        self._note(self._logs(0.0 if self._news or job.state.is_final else wait_s))
        if job.state.is_final and not self.is_behind:
            self._note_end(job)
        news, self._news = self._news, []
        return news

    def _note_end(self, job: JobResource) -> None:
        """Its end, unless a log has changed meanwhile."""
        self._note(self._changed())
        self._note([] if self.is_behind else self._end(job))

    def _note(self, events: Iterable[Event]) -> None:
        """Keeps what is new until it is told: when a question fails, what others answered is not lost."""
        for event in events:
            self._news.append(event)

    @property
    def _is_due(self) -> bool:
        return self.is_behind or self.clock() >= self._due_at

    def _look(self) -> Look:
        """The job and its cluster in the next look; the last one while the pace allows no other."""
        look = self._watcher.look() or self._last_look
        job = look.of(self.id)
        if isinstance(job, JobResource) and self._cluster is None:
            self._cluster = ResourceId.parse(job.spec.cluster.id)
            self._watcher.add(self._cluster)
            look = self._watcher.look() or look
        self._last_look = look
        return look

    def _job_in(self, look: Look) -> JobResource:
        job = look.of(self.id) or self.backend.show(self.id)  # which says in the right words that it is gone
        assert isinstance(job, JobResource)
        return job

    def _state(self, job: JobResource) -> list[Event]:
        if job == self._job or job.state.is_final:
            return []
        self._job = job
        return [StateChanged(job)]

    def _nodes(self, look: Look, job: JobResource) -> list[Event]:
        """The job's nodes, asked for when those of its cluster have changed, or its state has."""
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
        for _ in range(MOST_PIECES):
            positions = {file.path: mark.offset for file, mark in self._marks.items()}
            chunks = self.backend.tail(self.id, positions, PIECE_BYTES, wait_s=wait_s)
            for path, chunk in chunks.items():
                yield from self._take(FileRef(self.id, path), chunk)
            if all(chunk.end >= chunk.size for chunk in chunks.values()):
                return
            wait_s = 0.0
        self.is_behind = True

    def _read(self, file: FileRef) -> Iterator[Event]:
        for _ in range(MOST_PIECES):
            chunk = self.backend.read(file, self._mark(file).offset, PIECE_BYTES)
            yield from self._take(file, chunk)
            if chunk.end >= chunk.size:
                return
        self.is_behind = True

    def _take(self, file: FileRef, chunk: Chunk) -> Iterator[Event]:
        """The events of the next chunk of a file; one of another file under its name starts it again."""
        mark = self._mark(file)
        if chunk.offset and not mark.is_in(chunk):
            chunk = self.backend.read(file, 0, PIECE_BYTES)
        restarted = chunk.offset < mark.offset
        self._marks[file] = mark.after(chunk)
        if restarted or file not in self._digests:
            self._digests[file] = hashlib.sha256()
        self._digests[file].update(chunk.data)
        if chunk.data or restarted:
            yield LogBytes(file, chunk.shown, restarted)
            yield from self._metrics(file, chunk.shown, restarted)

    def _mark(self, file: FileRef) -> Bookmark:
        return self._marks.get(file, Bookmark())

    def _changed(self) -> Iterator[Event]:
        """At the end: the files that became others of just the length that is known, and what is wrong."""
        for file, mark in list(self._marks.items()):
            chunk = self.backend.read(file, mark.offset, 0)
            if chunk.generation and not mark.is_in(chunk):
                yield from self._read(file)
            digest = self._digests[file].hexdigest()
            fault = chunk.seal.fault(self._mark(file).offset, digest) if chunk.seal else ""
            if fault and not self.is_behind:
                yield LogFault(file, fault)

    def _metrics(self, file: FileRef, chunk: Chunk, restarted: bool) -> Iterator[Event]:
        if file.path != METRICS_FILE or file.directory_id != STDOUTERR:
            return
        if restarted:
            self._parser = Parser(self.patterns)
        records = numbers_in(chunk, self._parser)
        if len(records):
            yield MetricsSeen(self.id, records)

    def _end(self, job: JobResource) -> list[Event]:
        self.is_over = True
        last = tuple(self._parser.finish())
        return [*([MetricsSeen(self.id, last)] if last else []), StateChanged(job)]
