"""What a job wrote: listed and read by byte offset, never outside its folder."""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from batchai_magics.backends.base import Chunk, OutputFile, Span, Written
from batchai_magics.backends.node.rank import SPAN, STAMP
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
    found: list[Span] = []
    with _Records.of(file, SPAN) as records:
        first = bisect_right(records, start, key=lambda span: span[1])
        last = bisect_left(records, end, key=lambda span: span[0])
        for span_start, span_end, rank in records.between(first, last):
            if found and found[-1].rank == rank and found[-1].end == span_start:
                span_start = found.pop().start
            found.append(Span(max(span_start, start), min(span_end, end), rank))
    return tuple(found)


def times(file: Path, start: int, end: int) -> tuple[Written, ...]:
    """When the bytes from `start` to `end` were written; empty where that was not noted."""
    if start >= end or not file.exists():
        return ()
    with _Records.of(file, STAMP) as records:
        first = bisect_right(records, start, key=lambda stamp: stamp[0])
        last = bisect_left(records, end, key=lambda stamp: stamp[0])
        return tuple(Written(*stamp) for stamp in records.between(max(0, first - 1), last))


@dataclass(frozen=True)
class _Records(Sequence[tuple[Any, ...]]):
    """A file of records of one size, of which only those asked for are read."""

    descriptor: int
    shape: struct.Struct
    length: int

    @classmethod
    @contextmanager
    def of(cls, file: Path, shape: struct.Struct) -> Iterator[_Records]:
        """The whole records in the file as it is now."""
        with file.open("rb") as stream:
            yield cls(stream.fileno(), shape, os.fstat(stream.fileno()).st_size // shape.size)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: Any) -> Any:
        return next(self.between(place, place + 1))

    def between(self, first: int, last: int) -> Iterator[tuple[Any, ...]]:
        """The records from `first` up to `last`, which is none of them."""
        size = self.shape.size
        return self.shape.iter_unpack(os.pread(self.descriptor, max(0, last - first) * size, first * size))


def is_inside(folder: Path, item: Path) -> bool:
    """Whether an entry below the folder is no link, or one to something that is there inside of it."""
    return not item.is_symlink() or (item.exists() and item.resolve().is_relative_to(folder.resolve()))


def inside(folder: Path, path: str) -> Path:
    """`folder/path`; a StorageError when that would lie outside of the folder."""
    place = (folder / path.lstrip("/")).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise StorageError(f"{path!r} leads out of {folder.name}", hint="Paths are relative and stay inside.")
    return place
