"""Follows the logs of one job: bytes and metrics since the previous read. `Follower` adds the job's state."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping

from batchai_magics.backends.base import Backend, Bookmark, Chunk, FileRef
from batchai_magics.follow.job_events import Event, LogBytes, LogFault, MetricMismatched, MetricsAdded
from batchai_magics.follow.metric_streams import METRICS_FILES, MetricStreams
from batchai_magics.launch.plan import TRAINER_LOG
from batchai_magics.models.job_execution import OUT, STDOUTERR
from batchai_magics.models.resource_ids import ResourceId

CHUNK_BYTES = 1 << 20
MAX_CHUNKS = 16  # of one file per poll


class LogFollower:
    """The position in a job's logs: of `files`, by default of all of its logs.

    `patterns` are user-defined metrics, regular expressions by name. Of the existing content of a log, only
    the last `tail_bytes` are read, by default everything.
    """

    def __init__(
        self,
        backend: Backend,
        id: ResourceId,
        patterns: Mapping[str, str],
        files: Collection[FileRef] | None = None,
        *,
        tail_bytes: int | None = None,
    ) -> None:
        self.backend, self.id, self.files = backend, id, files
        self.is_behind = False  # more is available immediately
        self.is_drained = False  # stdout is complete, and all files have been read to the end
        self._tail_bytes = tail_bytes
        self._metric_streams = MetricStreams(patterns)
        self._marks: dict[FileRef, Bookmark] = {}
        self._digests: dict[FileRef, hashlib._Hash] = {}

    def read(self, wait_s: float = 0.0) -> Iterator[Event]:
        """The events of bytes written since the last read; the backend may wait `wait_s` for some."""
        self.is_behind = False
        self.is_drained = self.files is not None
        if self.files is None:
            yield from self._tail(wait_s)
        for file in self.files or ():
            yield from self._read(file)
        if records := self._metric_streams.flush():
            yield MetricsAdded(self.id, records)

    def check(self) -> Iterator[Event]:
        """At the end: read files that were replaced by others of equal size, and report corrupt logs."""
        for file, mark in list(self._marks.items()):
            chunk = self.backend.read(file, mark.offset, 0)
            if chunk.generation and not mark.matches(chunk):
                yield from self._read(file)
            digest = self._digests[file].hexdigest()
            fault = chunk.seal.fault(self._mark(file).offset, digest) if chunk.seal else ""
            if fault and not self.is_behind:
                yield LogFault(file, fault)

    def finish(self) -> list[Event]:
        """The metrics on unterminated lines."""
        last = self._metric_streams.finish()
        return [MetricsAdded(self.id, last)] if last else []

    def _tail(self, wait_s: float) -> Iterator[Event]:
        for _ in range(MAX_CHUNKS):
            positions = {file.path: mark.offset for file, mark in self._marks.items()}
            chunks = self.backend.tail(self.id, positions, CHUNK_BYTES, wait_s=wait_s)
            self._metric_streams.has_trainer_files |= TRAINER_LOG in chunks
            # The trainers' log comes last: printed numbers take precedence.
            for path, chunk in sorted(chunks.items(), key=lambda log: log[0] == TRAINER_LOG):
                yield from self._chunk_events(FileRef(self.id, path), chunk)
            if all(chunk.end >= chunk.size for chunk in chunks.values()):
                return
            wait_s = 0.0
        self.is_behind = True

    def _read(self, file: FileRef) -> Iterator[Event]:
        if self._tail_bytes is not None and file not in self._marks:
            size = self.backend.read(file, 0, 0).size
            self._marks[file] = Bookmark(max(0, size - self._tail_bytes))
        for _ in range(MAX_CHUNKS):
            chunk = self.backend.read(file, self._mark(file).offset, CHUNK_BYTES)
            yield from self._chunk_events(file, chunk)
            if chunk.end >= chunk.size:
                self.is_drained &= chunk.is_complete or file.path != OUT
                return
        self.is_behind, self.is_drained = True, False

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
            if self.files is not None or file.path != TRAINER_LOG:  # it is no log for users, unless requested
                yield LogBytes(file, chunk.redacted, restarted)
            yield from self._metrics(file, chunk.redacted, restarted)

    def _mark(self, file: FileRef) -> Bookmark:
        return self._marks.get(file, Bookmark())

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
