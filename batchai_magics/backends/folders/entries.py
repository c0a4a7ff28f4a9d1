"""What lies in folders that jobs write to: told for what it is, opened where it is a regular file."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple

from batchai_magics.backends.service.remote_path import DirectoryEntry, FileStatus, RemotePath, is_remote
from batchai_magics.errors import NotFoundError, StorageError, quoted
from batchai_magics.models.execution import FileKind
from batchai_magics.models.file_names import name_of, text_of

_KINDS = {
    stat.S_IFREG: FileKind.FILE,
    stat.S_IFDIR: FileKind.DIRECTORY,
    stat.S_IFIFO: FileKind.PIPE,
    stat.S_IFSOCK: FileKind.SOCKET,
    stat.S_IFCHR: FileKind.DEVICE,
    stat.S_IFBLK: FileKind.DEVICE,
    stat.S_IFLNK: FileKind.LINK,
}
_LONGEST_NAME, _DEEPEST = 255, 250
_NO_PATH = "Give a path as it is listed."
_UNOPENED = (errno.ENXIO, errno.ELOOP, errno.ENODEV, errno.EISDIR)  # a socket, a link, a device, a folder


@dataclass(frozen=True)
class Entry:
    """Something in a folder, its name as text. A link that stays inside counts as what it leads to."""

    name: str
    kind: FileKind
    size_bytes: int
    modified: datetime
    is_link: bool = False

    @classmethod
    def at(cls, root: Path, path: Path) -> Entry:
        """What lies at `path`, somewhere below `root`; FileNotFoundError when there is nothing."""
        if is_remote(path) and is_remote(root):
            return cls.from_directory_entry(path.entry(root))
        found = path.lstat()
        is_link = stat.S_ISLNK(found.st_mode)
        if is_link:
            found = _followed(root, path) or found
        kind = _KINDS[stat.S_IFMT(found.st_mode)]
        size_bytes = found.st_size if kind is FileKind.FILE else 0
        modified = datetime.fromtimestamp(found.st_mtime, timezone.utc)
        return cls(text_of(path.name), kind, size_bytes, modified, is_link)

    @classmethod
    def from_directory_entry(cls, found: DirectoryEntry) -> Entry:
        """What another machine says of something that lies there."""
        kind = _KINDS[stat.S_IFMT(found.mode)]
        size_bytes = found.size_bytes if kind is FileKind.FILE else 0
        modified = datetime.fromtimestamp(found.modified, timezone.utc)
        return cls(text_of(found.name), kind, size_bytes, modified, found.is_link)


def _followed(root: Path, path: Path) -> os.stat_result | None:
    """What a link leads to, unless that is outside of `root` or nowhere."""
    real = _real(path)
    try:
        return real.lstat() if real.is_relative_to(_real(root)) else None
    except OSError:
        return None


def _real(path: Path) -> Path:
    """The path without links, as far as there is one: a link to itself stays, where `resolve` would raise."""
    return path.resolve() if is_remote(path) else Path(os.path.realpath(path))


def below(root: Path, folder: Path, limit: int | None = None) -> Iterator[Entry]:
    """One level of a folder below `root`, sorted by name, or the first of it; nothing when it is gone."""
    return islice(_below(root, folder, limit), limit)


def _below(root: Path, folder: Path, limit: int | None) -> Iterator[Entry]:
    try:
        if is_remote(folder) and is_remote(root):
            yield from map(Entry.from_directory_entry, folder.entries_below(root, limit))
            return
        names = sorted(os.listdir(folder))  # noqa: PTH208 a path for each of a million names takes seconds
    except FileNotFoundError:
        return
    for name in names:
        try:
            yield Entry.at(root, folder / name)
        except FileNotFoundError:  # it went meanwhile
            continue


def inside(folder: Path, path: str) -> Path:
    """`folder/path`, links followed; a StorageError when that would lie outside of the folder."""
    full = _real(place_of(folder, path))
    if not full.is_relative_to(_real(folder)):
        raise StorageError(f"{path!r} leads out of {folder.name}", hint="Paths are relative and stay inside.")
    return full


def named(folder: Path, path: str) -> Path:
    """`folder/path` itself, be it a link; a StorageError when it would lie outside of the folder."""
    place = place_of(folder, path)
    if place.name in ("", "..") or place == folder:
        return inside(folder, path)
    return inside(folder, text_of(str(place.parent.relative_to(folder)))) / place.name


def place_of(folder: Path, path: str) -> Path:
    """`folder/path` as it is written, wherever that leads; a StorageError for what cannot be a path."""
    return folder / checked_name(path).lstrip("/")


def checked_name(path: str) -> str:
    """The path that has such a text, as the file system takes it; a StorageError where there can be none."""
    try:
        name = name_of(path)
        os.fsencode(name)
    except UnicodeEncodeError:
        raise StorageError(f"{path!r} is no path: it holds half a character", hint=_NO_PATH) from None
    if "\0" in name:
        raise StorageError(f"{path!r} is no path: it holds a null character", hint=_NO_PATH)
    if name.count("/") > _DEEPEST or any(len(os.fsencode(part)) > _LONGEST_NAME for part in name.split("/")):
        limits = f"a name has at most {_LONGEST_NAME} bytes, a path {_DEEPEST} folders"
        raise StorageError(f"{quoted(path)} is no path: {limits}", hint=_NO_PATH)
    return name


def open_regular(file: Path) -> BinaryIO:
    """A regular file, to read. FileNotFoundError when nothing is there, NotFoundError for anything else.

    Nothing is waited for: a pipe without a writer would block, and a device could do anything.
    """
    found = file.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise _no_file(file, _KINDS[stat.S_IFMT(found.st_mode)])
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:  # it became something else since
        if error.errno in _UNOPENED:
            raise _no_file(file, FileKind.LINK) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _no_file(file, _KINDS[stat.S_IFMT(mode)])
    return os.fdopen(descriptor, "rb", buffering=0)


class FileSlice(NamedTuple):
    """A piece of a regular file; size, number and first bytes are of the very file that it is of."""

    data: bytes
    size: int
    number: str
    head: bytes


def read_piece(file: Path | RemotePath, offset: int, limit: int, *, head: int = 0) -> FileSlice:
    """A piece of a file, and its first bytes. It raises what `open_regular` raises."""
    if isinstance(file, RemotePath):
        return _far_piece(file, offset, limit, head)
    with open_regular(file) as stream:
        found = os.fstat(stream.fileno())
        data = os.pread(stream.fileno(), limit, offset) if offset < found.st_size else b""
        return FileSlice(data, found.st_size, _number(found), os.pread(stream.fileno(), head, 0))


def _far_piece(file: RemotePath, offset: int, limit: int, head: int) -> FileSlice:
    try:
        found, first, data = file.read_piece(offset, limit, head=head)
    except OSError as error:
        if error.errno in _UNOPENED:
            raise _no_file(file, _KINDS[stat.S_IFMT(file.status(follow=False).st_mode)]) from None
        raise
    return FileSlice(data, found.st_size, _number(found), first)


def _number(found: os.stat_result | FileStatus) -> str:
    return f"{found.st_dev:x}-{found.st_ino:x}"


def _no_file(file: PurePath, kind: FileKind) -> NotFoundError:
    return NotFoundError(f"{file.name} is {kind.words}, not a file", code="FileNotFound")
