"""A job's logs, read by offset, with the records of its ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from batchai_magics.backends.base import Chunk, RedactedSpan, Span, WriteTime
from batchai_magics.backends.folders import entries, outputs
from batchai_magics.backends.folders.layout import JobLayout
from batchai_magics.backends.node import output_records
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.launch.process_logs import is_process_log
from batchai_magics.models.file_names import text_of
from batchai_magics.models.job_execution import ERR, OUT

_STREAMS = {OUT: "stdout", ERR: "stderr"}


@dataclass(frozen=True)
class Logs:
    """The logs of a run. Whether it is open must be determined before they are read."""

    folder: Path
    job: JobLayout
    is_open: bool

    def read(self, path: str, offset: int, limit: int) -> Chunk:
        """A block of a log by its path, with the ranks that wrote it, and when."""
        file = entries.resolve_inside(self.folder, path)
        name = text_of(str(file.relative_to(entries.resolve_inside(self.folder, ""))))
        return self._log(name, offset, limit)

    def tail(self, positions: Mapping[str, int], limit: int) -> Mapping[str, Chunk]:
        """The new bytes of all logs."""
        chunks: dict[str, Chunk] = {}
        for name, size in outputs.sizes(self.folder):
            position = positions.get(name, 0)
            if size != position and not is_process_log(name):
                start = position if size > position else 0
                with contextlib.suppress(NotFoundError, StorageError):  # it was replaced meanwhile
                    chunks[name] = self._log(name, start, limit)
        return chunks

    def _log(self, name: str, offset: int, limit: int) -> Chunk:
        path = entries.resolve_inside(self.folder, name)
        chunk = self._read(path, offset, limit)
        stream = _STREAMS.get(name)
        if stream and self.is_open:
            chunk = self._recorded(chunk, stream)
        if chunk.data and self.job.secret_spans.is_dir():
            hidden = output_records.secrets(
                self.job.secret_spans / path.name, offset, chunk.end
            )  # links to it are redacted too
            chunk = replace(chunk, hidden=tuple(RedactedSpan(*record) for record in hidden))
        return self._annotated(chunk, stream) if chunk.data and stream else chunk

    def _read(self, path: Path, offset: int, limit: int) -> Chunk:
        chunk = outputs.read(path, offset, limit, is_complete=not self.is_open)
        return replace(chunk, seal=outputs.seal(self.job.seals, path.name)) if chunk.is_complete else chunk

    def _annotated(self, chunk: Chunk, stream: str) -> Chunk:
        """A block of a shared log with its writers and write times."""
        spans = output_records.writers(self.job.spans(stream), chunk.offset, chunk.end)
        times = output_records.times(self.job.times(stream), chunk.offset, chunk.end)
        return replace(
            chunk,
            spans=tuple(Span(*record) for record in spans),
            times=tuple(WriteTime(*record) for record in times),
        )

    def _recorded(self, chunk: Chunk, stream: str) -> Chunk:
        """The log up to where its writers are recorded; the rest follows with the next read."""
        size = output_records.recorded_end(self.job.spans(stream), min(chunk.offset, chunk.size), chunk.size)
        return replace(chunk, data=chunk.data[: max(0, size - chunk.offset)], size=size)
