"""What lay in folders a moment ago, each thread's own: one look asks once for what it reads in many files."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from batchai_magics.backends.machines.channel import Channel
from batchai_magics.backends.service.elsewhere import Status

MOST = 256  # folders, and files, in one question


class Seen(NamedTuple):
    """What was seen of a file; the bytes of a small one."""

    status: Status
    data: bytes | None


class Snapshots(threading.local):
    """What this thread has been told of folders, and of single files. Outside of `taken` nothing is known."""

    folders: dict[str, Mapping[str, Seen] | None] | None = (
        None  # None: it has changed, and is asked for again
    )
    files: Mapping[str, Seen | None] = MappingProxyType({})

    @contextlib.contextmanager
    def taken(self, channel: Channel, folders: Sequence[str], files: Sequence[str]) -> Iterator[None]:
        """Within it, this thread reads what was there when it began, or when it changed something there."""
        before = self.folders, self.files
        try:
            self._channel = channel
            self.folders, self.files = dict(before[0] or {}), dict(before[1])
            for first in range(0, max(len(folders), len(files)), MOST):
                self._ask(folders[first : first + MOST], files[first : first + MOST])
            yield
        finally:
            self.folders, self.files = before

    def of(self, path: str, *, follow: bool) -> Seen | None:
        """What is known of a path; None for nothing. FileNotFoundError where nothing was."""
        if self.folders is None:
            return None
        folder, _, name = path.rpartition("/")
        if folder in self.folders:
            if self.folders[folder] is None:
                self._ask([folder], [])
            seen = (self.folders[folder] or {}).get(name)
        elif path in self.files:
            seen = self.files[path]
        else:
            return None
        if seen is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return None if follow and stat.S_ISLNK(seen.status.st_mode) else seen

    def forget(self, path: str) -> None:
        """It is about to change: its folder, and all below it, is asked for again."""
        if self.folders is None:
            return
        folder = path.rpartition("/")[0]
        for name in self.folders:
            if name == folder or f"{name}/".startswith(f"{path}/"):
                self.folders[name] = None
        self.files = {
            name: seen for name, seen in self.files.items() if not f"{name}/".startswith(f"{path}/")
        }

    def _ask(self, folders: Sequence[str], files: Sequence[str]) -> None:
        answer = self._channel.ask("snapshot", folders=list(folders), files=list(files))
        read = io.BytesIO(answer.data).read
        in_folders, alone = answer.head["value"]
        assert self.folders is not None, "somebody takes one"
        for folder, found in in_folders.items():
            self.folders[folder] = {one[0]: _seen(one, read) for one in found}
        told = [_seen(one, read) if one else None for one in alone]
        self.files = {**self.files, **dict(zip(files, told, strict=True))}


def _seen(told: Sequence[Any], read: Callable[[int], bytes]) -> Seen:
    _, status, size = told
    return Seen(Status(*status), None if size is None else read(size))
