"""What a job wrote: listed and read by byte offset, never outside its folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from batchai_magics.backends.base import Chunk, OutputFile
from batchai_magics.errors import NotFoundError, StorageError


def listing(folder: Path, path: str) -> list[OutputFile]:
    """One level of `path` below `folder`, sorted by name."""
    level = inside(folder, path)
    if not level.is_dir():
        return []
    entries = sorted(os.scandir(level), key=lambda entry: entry.name)
    return [_entry(entry, path) for entry in entries if is_inside(folder, Path(entry.path))]


def sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """The files right in a folder by name, with their sizes in bytes; no links that lead out of it."""
    with contextlib.suppress(FileNotFoundError):
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if is_inside(folder, Path(entry.path)) and entry.is_file():
                yield entry.name, entry.stat().st_size


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


def is_inside(folder: Path, item: Path) -> bool:
    """Whether an entry below the folder is no link, or one to something that is there inside of it."""
    return not item.is_symlink() or (item.exists() and item.resolve().is_relative_to(folder.resolve()))


def inside(folder: Path, path: str) -> Path:
    """`folder/path`; a StorageError when that would lie outside of the folder."""
    full = (folder / path.lstrip("/")).resolve()
    if not full.is_relative_to(folder.resolve()):
        raise StorageError(f"{path!r} leads out of {folder.name}", hint="Paths are relative and stay inside.")
    return full
