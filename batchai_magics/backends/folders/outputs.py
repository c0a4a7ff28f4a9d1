"""Output files of a job: listed, and read by byte offset, never outside their folder."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from batchai_magics.backends.base import BEFORE_BYTES, Chunk, Seal
from batchai_magics.backends.folders import entries
from batchai_magics.backends.folders.entries import Entry, FileSlice, read_slice, resolve_inside
from batchai_magics.backends.node.ranks.log_seals import seals_in
from batchai_magics.errors import StorageError
from batchai_magics.models.file_names import name_of
from batchai_magics.models.job_execution import ERR, OUT, FileKind, OutputFile

HEAD_BYTES = 256


def listing(folder: Path, path: str, *, limit: int | None = None) -> list[OutputFile]:
    """Lists the folder `path` below `folder`, sorted by name, up to `limit` entries."""
    relative = path.strip("/").removeprefix(".").lstrip("/")
    target = resolve_inside(folder, path)
    try:
        if not target.is_dir():
            return []
        return [_output_file(entry, relative, target) for entry in entries.scan(folder, target, limit)]
    except OSError as error:  # another owner's, created by a container, or too deep
        raise _unreadable(f"the folder {relative[-200:] or folder.name}", error) from error


def sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """The regular files of a folder with their sizes in bytes."""
    for entry in entries.scan(folder, folder):
        if entry.kind is FileKind.FILE:
            yield entry.name, entry.size_bytes


def _output_file(entry: Entry, path: str, target: Path) -> OutputFile:
    name = f"{path}/{entry.name}".lstrip("/")
    url = (target / name_of(entry.name)).absolute().as_uri() if entry.kind is FileKind.FILE else None
    return OutputFile(name, entry.kind, entry.size_bytes, entry.modified, url, entry.is_link)


def read(file: Path, offset: int, limit: int, *, is_complete: bool) -> Chunk:
    """Reads at most `limit` bytes from `offset`. `is_complete` must be determined before this call."""
    try:
        start = max(0, offset - BEFORE_BYTES)
        block = read_slice(file, start, limit + offset - start, head=HEAD_BYTES)
        before, data = block.data[: offset - start], block.data[offset - start :]
        return Chunk(data, offset, block.size, is_complete, generation=_generation(block), before=before)
    except (FileNotFoundError, NotADirectoryError):
        return Chunk(b"", offset, 0, is_complete)
    except OSError as error:
        raise _unreadable(file.name, error) from error


def _unreadable(what: str, error: OSError) -> StorageError:
    return StorageError(f"{what} cannot be read: {error.strerror}", code="FileUnreadable")


def seal(record: Path, name: str) -> Seal | None:
    """The seal of a log whose job has ended; an empty one if its end was not observed."""
    seals = seals_in(record)
    if seals == {} and name in (OUT, ERR):
        return Seal()
    return Seal(*seals[name]) if seals and name in seals else None


def _generation(block: FileSlice) -> str:
    """Identifies a file's generation: its identity, and its first bytes once there are enough."""
    return (
        block.identity if len(block.head) < HEAD_BYTES else f"{block.identity}-{zlib.crc32(block.head):08x}"
    )
