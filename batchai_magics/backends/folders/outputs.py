"""What a job wrote: listed and read by byte offset, never outside its folder."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from batchai_magics.backends.base import BEFORE_BYTES, Chunk, Seal
from batchai_magics.backends.folders import entries
from batchai_magics.backends.folders.entries import Entry, FileSlice, inside, read_piece
from batchai_magics.backends.node.ranks.log_seals import seals_in
from batchai_magics.errors import StorageError
from batchai_magics.models.execution import ERR, OUT, FileKind, OutputFile
from batchai_magics.models.file_names import name_of

HEAD_BYTES = 256


def listing(folder: Path, path: str, *, limit: int | None = None) -> list[OutputFile]:
    """One level of `path` below `folder`, sorted by name, or the first of it."""
    shown = path.strip("/").removeprefix(".").lstrip("/")
    level = inside(folder, path)
    try:
        if not level.is_dir():
            return []
        return [_listed(entry, shown, level) for entry in entries.below(folder, level, limit)]
    except OSError as error:  # of another owner, by a container, or too deep
        raise _unreadable(f"the folder {shown[-200:] or folder.name}", error) from error


def sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """The regular files right in a folder by name, with their sizes in bytes."""
    for entry in entries.below(folder, folder):
        if entry.kind is FileKind.FILE:
            yield entry.name, entry.size_bytes


def _listed(entry: Entry, path: str, level: Path) -> OutputFile:
    name = f"{path}/{entry.name}".lstrip("/")
    url = (level / name_of(entry.name)).absolute().as_uri() if entry.kind is FileKind.FILE else None
    return OutputFile(name, entry.kind, entry.size_bytes, entry.modified, url, entry.is_link)


def read(file: Path, offset: int, limit: int, *, is_complete: bool) -> Chunk:
    """At most `limit` bytes from `offset`. `is_complete` must have been found out before this call."""
    try:
        start = max(0, offset - BEFORE_BYTES)
        piece = read_piece(file, start, limit + offset - start, head=HEAD_BYTES)
        before, data = piece.data[: offset - start], piece.data[offset - start :]
        return Chunk(data, offset, piece.size, is_complete, generation=_generation(piece), before=before)
    except (FileNotFoundError, NotADirectoryError):
        return Chunk(b"", offset, 0, is_complete)
    except OSError as error:
        raise _unreadable(file.name, error) from error


def _unreadable(what: str, error: OSError) -> StorageError:
    return StorageError(f"{what} cannot be read: {error.strerror}", code="FileUnreadable")


def seal(record: Path, name: str) -> Seal | None:
    """The seal of a log whose job has ended; an empty one when nobody saw its end."""
    seals = seals_in(record)
    if seals == {} and name in (OUT, ERR):
        return Seal()
    return Seal(*seals[name]) if seals and name in seals else None


def _generation(piece: FileSlice) -> str:
    """What a file is known by: its number, and its first bytes once it has so many."""
    return piece.number if len(piece.head) < HEAD_BYTES else f"{piece.number}-{zlib.crc32(piece.head):08x}"
