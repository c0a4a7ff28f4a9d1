"""The output of jobs in a home: listings of folders, logs with their writers, and record files."""

from __future__ import annotations

import contextlib
import stat
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from batchai_magics.backends.base import BEFORE_BYTES, Chunk, Seal
from batchai_magics.backends.folders import entries
from batchai_magics.backends.folders.entries import read_slice, resolve_inside
from batchai_magics.backends.node import output_records
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.ranks.signed_records import seals_in
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.models.file_names import name_of, text_of
from batchai_magics.models.job_execution import ERR, OUT, FileKind, OutputFile, is_process_log
from batchai_magics.records.record_files import MAX_BYTES, PART
from batchai_magics.untrusted_files import NotRegularError, open_file, read_start

HEAD_BYTES = 256
MAX_FILES, MAX_ALL_BYTES = 10_000, 64 << 20  # of the records that are read together
_STREAMS = {OUT: "stdout", ERR: "stderr"}
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


def output_listing(folder: Path, path: str, *, limit: int | None = None) -> list[OutputFile]:
    """Lists the folder `path` below `folder`, sorted by name, up to `limit` entries."""
    relative = path.strip("/").removeprefix(".").lstrip("/")
    target = resolve_inside(folder, path)
    try:
        if not target.is_dir():
            return []
        listed = []
        for entry in entries.scan(folder, target, limit):
            name, is_file = f"{relative}/{entry.name}".lstrip("/"), entry.kind is FileKind.FILE
            url = (target / name_of(entry.name)).absolute().as_uri() if is_file else None
            listed.append(OutputFile(name, entry.kind, entry.size_bytes, entry.modified, url, entry.is_link))
        return listed
    except OSError as error:  # another owner's, created by a container, or too deep
        raise _unreadable(f"the folder {relative[-200:] or folder.name}", error) from error


def read_output(file: Path, offset: int, limit: int, *, is_complete: bool) -> Chunk:
    """Reads at most `limit` bytes from `offset`. `is_complete` must be determined before this call."""
    try:
        start = max(0, offset - BEFORE_BYTES)
        block = read_slice(file, start, limit + offset - start, head=HEAD_BYTES)
        before, data = block.data[: offset - start], block.data[offset - start :]
        # of the file: its identity, and its first bytes once there are enough
        generation = block.identity
        if len(block.head) >= HEAD_BYTES:
            generation = f"{generation}-{zlib.crc32(block.head):08x}"
        return Chunk(
            data,
            offset,
            block.size,
            is_complete,
            generation=generation,
            before=before,
            modified_ns=block.modified_ns,
        )
    except (FileNotFoundError, NotADirectoryError):
        return Chunk(b"", offset, 0, is_complete)
    except OSError as error:
        raise _unreadable(file.name, error) from error


def _unreadable(subject: str, error: OSError) -> StorageError:
    return StorageError(f"{subject} cannot be read: {error.strerror}", code="FileUnreadable")


def output_seal(record: Path, name: str) -> Seal | None:
    """The seal of a log whose job has ended; an empty one if its end was not observed."""
    seals = seals_in(record)
    if seals == {} and name in (OUT, ERR):
        return Seal()
    return Seal(*seals[name]) if seals and name in seals else None


@dataclass(frozen=True)
class Logs:
    """The logs of a run. Whether it is open must be determined before they are read."""

    folder: Path
    job: JobLayout
    is_open: bool

    def read(self, path: str, offset: int, limit: int) -> Chunk:
        """A block of a log by its path, with the ranks that wrote it, and when."""
        file = resolve_inside(self.folder, path)
        return self._log(file, text_of(str(file.relative_to(self.folder))), offset, limit)

    def tail(self, positions: Mapping[str, int], limit: int) -> Mapping[str, Chunk]:
        """The bytes of these logs from these positions on."""
        chunks: dict[str, Chunk] = {}
        for name, position in positions.items():
            with contextlib.suppress(NotFoundError, StorageError):  # it was replaced meanwhile
                chunks[name] = self._log(resolve_inside(self.folder, name), name, position, limit)
        return chunks

    def _log(self, path: Path, name: str, offset: int, limit: int) -> Chunk:
        chunk = read_output(path, offset, limit, is_complete=not self.is_open)
        chunk = replace(chunk, seal=output_seal(self.job.seals, path.name)) if chunk.is_complete else chunk
        stream = _STREAMS.get(name)
        if stream and self.is_open:
            # Up to where its writers are recorded; the rest follows with the next read.
            size = output_records.recorded_end(
                self.job.spans(stream), min(chunk.offset, chunk.size), chunk.size
            )
            chunk = replace(chunk, data=chunk.data[: max(0, size - chunk.offset)], size=size)
        if chunk.data and self.job.secret_spans.is_dir():
            try:  # of what a link leads to
                hidden = output_records.secrets(self.job.secret_spans / path.name, offset, chunk.end)
            except OSError as error:  # they are not known
                raise _unreadable(path.name, error) from error
            chunk = replace(chunk, hidden=tuple(hidden))
        if not (chunk.data and stream):
            return chunk
        spans = output_records.writers(self.job.spans(stream), chunk.offset, chunk.end)
        times = output_records.times(self.job.times(stream), chunk.offset, chunk.end)
        return replace(chunk, spans=tuple(spans), times=tuple(times))


def changed_logs(folder: Path, positions: Mapping[str, int]) -> Mapping[str, int]:
    """The logs in a folder whose size is not the given position, with where to read each from."""
    logs = (log for log in entries.scan(folder, folder, skips=is_process_log) if log.kind is FileKind.FILE)
    known = ((log.name, log.size_bytes, positions.get(log.name, 0)) for log in logs)
    return {name: at if size > at else 0 for name, size, at in known if size != at}


def read_records(folder: Path, names: Collection[str]) -> Mapping[str, bytes]:
    """The files with these names, and those in these folders (`machines/`); missing ones are left out.

    At most `MAX_BYTES` of each file are read, and `MAX_ALL_BYTES` of all; of what is not a regular file,
    nothing. Of files that are still being written, only the names are, after the others: the record of a file
    is read before it is looked for. What is completed in between is left out, as if the read had come before:
    a record of it that was read afterwards could name a file that was begun after the names were.
    """
    files, left_bytes = dict[str, bytes](), MAX_ALL_BYTES
    for name in (path for requested in names for path in _expanded(folder, requested)):
        with contextlib.suppress(*_MISSING):
            files[name] = _record(folder / name, min(left_bytes, MAX_BYTES))
            left_bytes -= len(files[name])
    for name in (path for requested in names for path in _expanded(folder, requested, parts=True)):
        files[name] = b""
    return files


def _record(file: Path, max_bytes: int) -> bytes:
    """The start of a record; empty, which no record is, if it is not a regular file."""
    try:
        with open_file(file) as stream:
            return read_start(stream, max_bytes)
    except NotRegularError as error:
        if stat.S_ISDIR(error.mode):
            raise IsADirectoryError(str(file)) from None
        return b""


def _expanded(folder: Path, name: str, *, parts: bool = False) -> Iterator[str]:
    """A name, or the names of the files in a folder: the complete ones, or the others."""
    path = resolve_inside(folder, name)
    if not name.endswith("/"):
        yield from () if parts else (name,)
        return
    with contextlib.suppress(*_MISSING):
        file_names = (entry.name for entry in path.iterdir() if entry.name.endswith(PART) == parts)
        yield from sorted(f"{name}{file_name}" for file_name in islice(file_names, MAX_FILES))
