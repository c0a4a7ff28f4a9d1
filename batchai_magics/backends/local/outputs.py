"""What a job wrote: listed and read by byte offset, never outside its folder."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

from batchai_magics.backends.base import Chunk, OutputFile, Span
from batchai_magics.backends.local.rank import SPAN
from batchai_magics.errors import NotFoundError, StorageError


def listing(folder: Path, path: str) -> list[OutputFile]:
    """One level of `path` below `folder`, sorted by name."""
    place = inside(folder, path)
    if not place.is_dir():
        return []
    found = sorted(os.scandir(place), key=lambda entry: entry.name)
    entries = [entry for entry in found if is_inside(folder, Path(entry.path))]
    return [_entry(entry, path) for entry in entries]


def _entry(entry: os.DirEntry[str], path: str) -> OutputFile:
    stat = entry.stat()
    name = "/".join(part for part in (path.strip("/").removeprefix("."), entry.name) if part)
    modified = datetime.fromtimestamp(stat.st_mtime, timezone.utc)
    if entry.is_dir():
        return OutputFile(name.lstrip("/"), True, 0, modified)
    return OutputFile(name.lstrip("/"), False, stat.st_size, modified, Path(entry.path).absolute().as_uri())


def read(file: Path, offset: int, limit: int, *, is_complete: bool) -> Chunk:
    """At most `limit` bytes from `offset`. `is_complete` must have been found out before this call."""
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(min(offset, size))
            return Chunk(stream.read(limit) if offset < size else b"", offset, size, is_complete)
    except FileNotFoundError:
        return Chunk(b"", offset, 0, is_complete)
    except IsADirectoryError:
        raise NotFoundError(f"{file.name} is a folder, not a file", code="FileNotFound") from None


def spans(file: Path, start: int, end: int) -> tuple[Span, ...]:
    """Which rank wrote the bytes from `start` to `end`, neighbours of one rank joined."""
    if start >= end:
        return ()
    if not file.exists():  # a lone process needs no record of who wrote what
        return (Span(start, end, 0),)
    with file.open("rb") as stream:
        count = os.fstat(stream.fileno()).st_size // SPAN.size
        first = _first_ending_after(stream.fileno(), count, start)
        stream.seek(first * SPAN.size)
        data = stream.read((count - first) * SPAN.size)
    found: list[Span] = []
    for span_start, span_end, rank in SPAN.iter_unpack(data[: len(data) // SPAN.size * SPAN.size]):
        if span_start >= end:
            break
        if found and found[-1].rank == rank and found[-1].end == span_start:
            span_start = found.pop().start
        found.append(Span(max(span_start, start), min(span_end, end), rank))
    return tuple(found)


def _first_ending_after(descriptor: int, count: int, offset: int) -> int:
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        _, end, _ = SPAN.unpack(os.pread(descriptor, SPAN.size, middle * SPAN.size))
        low, high = (low, middle) if end > offset else (middle + 1, high)
    return low


def is_inside(folder: Path, item: Path) -> bool:
    """Whether an entry below the folder is no link, or one to something that is there inside of it."""
    return not item.is_symlink() or (item.exists() and item.resolve().is_relative_to(folder.resolve()))


def inside(folder: Path, path: str) -> Path:
    """`folder/path`; a StorageError when that would lie outside of the folder."""
    place = (folder / path.lstrip("/")).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise StorageError(f"{path!r} leads out of {folder.name}", hint="Paths are relative and stay inside.")
    return place
