"""A cache of metadata and small files for the length of one poll, which then takes one request."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from batchai_magics.backends.machines.ssh_channel import SshChannel

MAX_PATHS = 256  # folders, and as many files, in one request


class FileStatus(NamedTuple):
    """The metadata of a file, with the field names of `os.stat_result`."""

    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_uid: int
    st_ino: int
    st_dev: int

    @property
    def st_mtime(self) -> float:
        """When it was last modified, in seconds since 1970."""
        return self.st_mtime_ns / 1e9


class DirectoryEntry(NamedTuple):
    """An entry of a folder. A link that stays inside the root has the metadata of its target."""

    name: str
    mode: int
    size_bytes: int
    modified: float
    is_link: bool = False


class CachedFile(NamedTuple):
    """The metadata of a file (or of a link itself), and its content if it is small."""

    status: FileStatus
    data: bytes | None


class CachedFolder(NamedTuple):
    """The files of a folder by name, and its path with links resolved."""

    real: str
    files: Mapping[str, CachedFile]


class StatCache(threading.local):
    """The cached folders and files of this thread; empty outside of `read_ahead`.

    The value None marks an entry that must be fetched, for the first time or again; reading one of them
    fetches all of them.
    """

    def __init__(self, channel: SshChannel) -> None:
        self._channel = channel
        self._folders: dict[str, CachedFolder | None] = {}
        self._files: dict[str, tuple[CachedFile | None] | None] = {}
        self._listed: set[str] = set()  # folders whose files are cached without content

    @contextlib.contextmanager
    def read_ahead(
        self, folders: Sequence[str], files: Sequence[str], listed: Sequence[str]
    ) -> Iterator[None]:
        """A context in which these paths are cached; changes by this thread invalidate them."""
        new_folders = [folder for folder in dict.fromkeys([*folders, *listed]) if folder not in self._folders]
        new_files = [file for file in dict.fromkeys(files) if file not in self._files]
        new_listed = {*listed} - {*folders, *self._listed}
        self._listed |= new_listed
        self._folders |= dict.fromkeys(new_folders)
        self._files |= dict.fromkeys(new_files)
        try:
            yield
        finally:
            self._listed -= new_listed
            for folder in new_folders:
                self._folders.pop(folder, None)
            for file in new_files:
                self._files.pop(file, None)

    def lookup(self, path: str, *, follow: bool) -> CachedFile | None:
        """The cached file; None if unknown. Raises FileNotFoundError if it is known not to exist."""
        parent, _, name = path.rpartition("/")
        if path in self._files:
            if self._files[path] is None:
                self._fetch_all()
            (cached,) = self._files[path] or (None,)
        elif parent in self._folders:
            cached = self._folder(parent).files.get(name)
        else:
            return None
        if cached is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return None if follow and stat.S_ISLNK(cached.status.st_mode) else cached

    def names(self, folder: str) -> Sequence[str] | None:
        """The names in a folder; None if unknown."""
        return list(self._folder(folder).files) if folder in self._folders else None

    def real(self, path: str) -> str | None:
        """The path with links resolved; None if unknown."""
        parent, _, name = path.rpartition("/")
        if path in self._folders:
            return self._folder(path).real
        if parent not in self._folders or name in (".", ".."):
            return None
        folder = self._folder(parent)
        cached = folder.files.get(name)
        return None if cached is None or stat.S_ISLNK(cached.status.st_mode) else f"{folder.real}/{name}"

    def entries(self, folder: str) -> Sequence[DirectoryEntry] | None:
        """The entries of a folder sorted by name; None if unknown, or if there are links to follow."""
        if folder not in self._folders:
            return None
        files = sorted(self._folder(folder).files.items())
        if any(stat.S_ISLNK(cached.status.st_mode) for _, cached in files):
            return None
        metadata = ((name, cached.status) for name, cached in files)
        return [
            DirectoryEntry(name, status.st_mode, status.st_size, status.st_mtime) for name, status in metadata
        ]

    def invalidate(self, path: str) -> None:
        """Invalidates a path that is about to change, with its siblings and all below it."""
        folder = path.rpartition("/")[0]
        for name in self._folders:
            if name == folder or f"{name}/".startswith(f"{path}/"):
                self._folders[name] = None
        for name in self._files:
            if name.rpartition("/")[0] == folder or name.startswith(f"{path}/"):
                self._files[name] = None

    def _folder(self, path: str) -> CachedFolder:
        if self._folders[path] is None:
            self._fetch_all()
        folder = self._folders[path]
        assert folder is not None, "it has just been fetched"
        return folder

    def _fetch_all(self) -> None:
        """Fetches the marked entries, in as few requests as possible."""
        folders = [path for path, folder in self._folders.items() if folder is None]
        files = [path for path, file in self._files.items() if file is None]
        for first in range(0, max(len(folders), len(files)), MAX_PATHS):
            batch = folders[first : first + MAX_PATHS]
            single = files[first : first + MAX_PATHS]
            with_content = [folder for folder in batch if folder not in self._listed]
            listed = [*self._listed.intersection(batch)]
            response = self._channel.request("snapshot", folders=with_content, files=single, listed=listed)
            read = io.BytesIO(response.data).read
            in_folders, single_records = response.head["value"]
            for path in batch:
                real, files_inside = in_folders[path]
                inside = {record[0]: _cached_file(record, read) for record in files_inside}
                self._folders[path] = CachedFolder(real, inside)
            for path, record in zip(single, single_records, strict=True):
                self._files[path] = (_cached_file(record, read) if record else None,)


def _cached_file(result: Sequence[Any], read: Callable[[int], bytes]) -> CachedFile:
    _, status, size = result
    return CachedFile(FileStatus(*status), None if size is None else read(size))
