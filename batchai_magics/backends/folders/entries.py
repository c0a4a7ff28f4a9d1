"""Entries of folders that jobs write to: their kinds, and safe opening of regular files."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from operator import attrgetter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from batchai_magics.backends.folders.private_files import is_remote
from batchai_magics.errors import NotFoundError, StorageError, quoted
from batchai_magics.models.file_names import name_of, text_of
from batchai_magics.models.job_execution import FileKind
from batchai_magics.untrusted_files import NotRegularError, open_file

if TYPE_CHECKING:
    from batchai_magics.backends.machines.ssh_machine import SshPath
    from batchai_magics.backends.machines.stat_cache import DirectoryEntry, FileStatus

_KINDS = {
    stat.S_IFREG: FileKind.FILE,
    stat.S_IFDIR: FileKind.DIRECTORY,
    stat.S_IFIFO: FileKind.PIPE,
    stat.S_IFSOCK: FileKind.SOCKET,
    stat.S_IFCHR: FileKind.DEVICE,
    stat.S_IFBLK: FileKind.DEVICE,
    stat.S_IFLNK: FileKind.LINK,
}
_MAX_NAME, _MAX_DEPTH = 255, 250
_NO_PATH = "Give a path as it is listed."
_UNOPENED = (errno.ENXIO, errno.ELOOP, errno.ENODEV, errno.EISDIR)  # a socket, a link, a device, a folder


class Entry(NamedTuple):
    """An entry of a folder. A link that stays inside the root counts as its target."""

    name: str
    kind: FileKind
    size_bytes: int
    modified: datetime
    is_link: bool = False

    @classmethod
    def at(cls, root: Path, path: Path | os.DirEntry[str]) -> Entry:
        """The entry at `path`, somewhere below `root`; FileNotFoundError if it does not exist."""
        if is_remote(path) and is_remote(root):
            return cls.from_directory_entry(path.entry(root))
        status = path.stat(follow_symlinks=False)
        is_link = stat.S_ISLNK(status.st_mode)
        if is_link:
            status = _target_status(root, Path(path)) or status
        kind = _KINDS[stat.S_IFMT(status.st_mode)]
        size_bytes = status.st_size if kind is FileKind.FILE else 0
        modified = datetime.fromtimestamp(status.st_mtime, timezone.utc)
        return cls(text_of(path.name), kind, size_bytes, modified, is_link)

    @classmethod
    def from_directory_entry(cls, status: DirectoryEntry) -> Entry:
        """The entry for one reported by another machine."""
        kind = _KINDS[stat.S_IFMT(status.mode)]
        size_bytes = status.size_bytes if kind is FileKind.FILE else 0
        modified = datetime.fromtimestamp(status.modified, timezone.utc)
        return cls(text_of(status.name), kind, size_bytes, modified, status.is_link)


def _target_status(root: Path, path: Path) -> os.stat_result | None:
    """The status of a link's target; None if it is outside `root` or does not exist."""
    real = _resolved(path)
    try:
        return real.lstat() if real.is_relative_to(_resolved(root)) else None
    except OSError:
        return None


def _resolved(path: Path) -> Path:
    """The path without links, as far as it exists; a link to itself stays, where `resolve` would raise."""
    return path.resolve() if is_remote(path) else Path(os.path.realpath(path))


def scan(
    root: Path, folder: Path, limit: int | None = None, *, skips: Callable[[str], bool] = lambda name: False
) -> Iterator[Entry]:
    """Lists a folder below `root`, sorted by name, up to `limit` entries; empty if it does not exist.

    Entries whose names are to be skipped are not looked at.
    """
    try:
        if is_remote(folder) and is_remote(root):
            listed = map(Entry.from_directory_entry, folder.scan(root, limit))
            yield from (entry for entry in listed if not skips(entry.name))
            return
        with os.scandir(folder) as directory:
            items = sorted((item for item in directory if not skips(item.name)), key=attrgetter("name"))
    except FileNotFoundError:
        return
    for item in items[:limit]:
        with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile
            yield Entry.at(root, item)


def resolve_inside(folder: Path, path: str) -> Path:
    """`folder/path` with its links below the folder resolved; StorageError if it is outside the folder."""
    inner = checked_name(path).lstrip("/")
    full = folder / inner
    if not is_remote(full) and not _has_links(folder, inner):
        return full
    real, base = _resolved(full), _resolved(folder)
    if not real.is_relative_to(base):
        raise StorageError(f"{path!r} is outside {folder.name}", hint="Paths are relative and stay inside.")
    return folder / real.relative_to(base)


def _has_links(folder: Path, path: str) -> bool:
    """Whether a part of a path below the folder is, or may be, a link."""
    parts = [part for part in path.split("/") if part]
    current = str(folder)
    try:
        for part in parts:
            current = f"{current}/{part}"
            if part == ".." or stat.S_ISLNK(os.lstat(current).st_mode):
                return True
    except FileNotFoundError:
        return ".." in parts
    except OSError:
        return True
    return False


def unresolved(folder: Path, path: str) -> Path:
    """`folder/path` itself, even if it is a link; StorageError if it is outside the folder."""
    full = join(folder, path)
    if full.name in ("", "..") or full == folder:
        return resolve_inside(folder, path)
    return resolve_inside(folder, text_of(str(full.parent.relative_to(folder)))) / full.name


def join(folder: Path, path: str) -> Path:
    """`folder/path` without resolving anything; StorageError if the path is invalid."""
    return folder / checked_name(path).lstrip("/")


def checked_name(path: str) -> str:
    """The path of that text in the file system's encoding; StorageError if it is invalid."""
    try:
        name = name_of(path)
        encoded = os.fsencode(name)
    except UnicodeEncodeError:
        raise StorageError(f"{path!r} is not a valid path: it is not valid UTF-8", hint=_NO_PATH) from None
    if "\0" in name:
        raise StorageError(f"{path!r} is not a valid path: it contains a null character", hint=_NO_PATH)
    has_long_name = len(encoded) > _MAX_NAME and max(map(len, encoded.split(b"/"))) > _MAX_NAME
    if has_long_name or name.count("/") > _MAX_DEPTH:
        limits = f"a name has at most {_MAX_NAME} bytes, a path {_MAX_DEPTH} folders"
        raise StorageError(f"{quoted(path)} is not a valid path: {limits}", hint=_NO_PATH)
    return name


def open_regular(file: Path) -> BinaryIO:
    """Opens a regular file for reading; FileNotFoundError if it is missing, NotFoundError for other kinds."""
    try:
        return open_file(file)
    except NotRegularError as error:
        raise _no_file(file, _KINDS.get(stat.S_IFMT(error.mode), FileKind.LINK)) from None


class FileSlice(NamedTuple):
    """A block of a regular file, with the size, identity and first bytes of that same file."""

    data: bytes
    size: int
    identity: str
    head: bytes
    modified_ns: int


def read_slice(file: Path | SshPath, offset: int, limit: int, *, head: int = 0) -> FileSlice:
    """Reads a block of a file, and its first bytes; raises like `open_regular`."""
    if is_remote(file):
        try:
            status, first, data = file.read_slice(offset, limit, head=head)
        except OSError as error:
            if error.errno in _UNOPENED:
                raise _no_file(file, _KINDS[stat.S_IFMT(file.lstat().st_mode)]) from None
            raise
        return FileSlice(data, status.st_size, _identity(status), first, status.st_mtime_ns)
    assert isinstance(file, Path), "it is on this machine"
    with open_regular(file) as stream:
        opened = os.fstat(stream.fileno())
        data = os.pread(stream.fileno(), limit, offset) if offset < opened.st_size else b""
        first = os.pread(stream.fileno(), head, 0)
        return FileSlice(data, opened.st_size, _identity(opened), first, opened.st_mtime_ns)


def _identity(status: os.stat_result | FileStatus) -> str:
    return f"{status.st_dev:x}-{status.st_ino:x}"


def _no_file(file: PurePath, kind: FileKind) -> NotFoundError:
    return NotFoundError(f"{file.name} is {kind.words}, not a file", code="FileNotFound")
