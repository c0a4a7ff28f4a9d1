"""What lay in folders a moment ago, each thread's own: one look asks once for what it reads in many files."""

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
from batchai_magics.backends.service.remote_path import DirectoryEntry, FileStatus

MOST = 256  # folders, and files, in one question


class CachedFile(NamedTuple):
    """What was seen of a file; the bytes of a small one."""

    status: FileStatus
    data: bytes | None


class CachedFolder(NamedTuple):
    """What was seen in a folder, by name, and where the folder really is."""

    real: str
    inside: Mapping[str, CachedFile]


class StatCache(threading.local):
    """What this thread has been told of folders, and of single files. Outside of `taken` nothing is known.

    What is None has changed, and is asked for again.
    """

    def __init__(self, channel: SshChannel) -> None:
        self._channel = channel
        self._folders: dict[str, CachedFolder | None] = {}
        self._files: dict[str, tuple[CachedFile | None] | None] = {}
        self._listed: set[str] = set()  # folders of whose files the bytes are not wanted

    @contextlib.contextmanager
    def prefetched(
        self, folders: Sequence[str], files: Sequence[str], listed: Sequence[str]
    ) -> Iterator[None]:
        """Within it, this thread reads what was there when it began, or when it changed something there."""
        new_folders = [folder for folder in dict.fromkeys([*folders, *listed]) if folder not in self._folders]
        new_files = [file for file in dict.fromkeys(files) if file not in self._files]
        new_listed = {*listed} - {*folders, *self._listed}
        self._listed |= new_listed
        try:
            for first in range(0, max(len(new_folders), len(new_files)), MOST):
                self._ask(new_folders[first : first + MOST], new_files[first : first + MOST])
            yield
        finally:
            self._listed -= new_listed
            for folder in new_folders:
                self._folders.pop(folder, None)
            for file in new_files:
                self._files.pop(file, None)

    def lookup(self, path: str, *, follow: bool) -> CachedFile | None:
        """What is known of a path; None for nothing. FileNotFoundError where nothing was."""
        parent, _, name = path.rpartition("/")
        if path in self._files:
            seen = self._file(path)
        elif parent in self._folders:
            seen = self._folder(parent).inside.get(name)
        else:
            return None
        if seen is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return None if follow and stat.S_ISLNK(seen.status.st_mode) else seen

    def names(self, folder: str) -> Sequence[str] | None:
        """What lies in a folder; None where that is not known."""
        return list(self._folder(folder).inside) if folder in self._folders else None

    def real(self, path: str) -> str | None:
        """The path without links; None where that is not known."""
        parent, _, name = path.rpartition("/")
        if path in self._folders:
            return self._folder(path).real
        if parent not in self._folders or name in (".", ".."):
            return None
        folder = self._folder(parent)
        seen = folder.inside.get(name)
        return None if seen is None or stat.S_ISLNK(seen.status.st_mode) else f"{folder.real}/{name}"

    def entries(self, folder: str) -> Sequence[DirectoryEntry] | None:
        """What lies in a folder, by name; None where that is not known, and where there are links."""
        if folder not in self._folders:
            return None
        inside = sorted(self._folder(folder).inside.items())
        if any(stat.S_ISLNK(seen.status.st_mode) for _, seen in inside):
            return None
        told = ((name, seen.status) for name, seen in inside)
        return [
            DirectoryEntry(name, status.st_mode, status.st_size, status.st_mtime) for name, status in told
        ]

    def invalidate(self, path: str) -> None:
        """It is about to change: what is beside it, and all below it, is asked for again."""
        folder = path.rpartition("/")[0]
        for name in self._folders:
            if name == folder or f"{name}/".startswith(f"{path}/"):
                self._folders[name] = None
        for name in self._files:
            if name.rpartition("/")[0] == folder or name.startswith(f"{path}/"):
                self._files[name] = None

    def _folder(self, path: str) -> CachedFolder:
        if self._folders[path] is None:
            self._ask([path], [])
        folder = self._folders[path]
        assert folder is not None, "it has just been asked for"
        return folder

    def _file(self, path: str) -> CachedFile | None:
        if self._files[path] is None:
            self._ask([], [path])
        (seen,) = self._files[path] or (None,)
        return seen

    def _ask(self, folders: Sequence[str], files: Sequence[str]) -> None:
        whole = [folder for folder in folders if folder not in self._listed]
        listed = [*self._listed.intersection(folders)]
        answer = self._channel.request("snapshot", folders=whole, files=list(files), listed=listed)
        read = io.BytesIO(answer.data).read
        in_folders, alone = answer.head["value"]
        for path in folders:
            real, found = in_folders[path]
            self._folders[path] = CachedFolder(real, {one[0]: _seen(one, read) for one in found})
        for path, one in zip(files, alone, strict=True):
            self._files[path] = (_seen(one, read) if one else None,)


def _seen(told: Sequence[Any], read: Callable[[int], bytes]) -> CachedFile:
    _, status, size = told
    return CachedFile(FileStatus(*status), None if size is None else read(size))
