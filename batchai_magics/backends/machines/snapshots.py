"""What lay in folders a moment ago, each thread's own: one look asks once for what it reads in many files."""

from __future__ import annotations

import contextlib
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from batchai_magics.backends.machines.channel import Channel
from batchai_magics.backends.service.elsewhere import Status

MOST_FOLDERS = 256  # in one question


class Seen(NamedTuple):
    """What was seen of a file; the bytes of a small one."""

    status: Status
    data: bytes | None


class Snapshots(threading.local):
    """What this thread has been told; nothing outside of `taken`, or after it has changed something there."""

    folders: dict[str, Mapping[str, Seen]] | None = None

    @contextlib.contextmanager
    def taken(self, channel: Channel, folders: Sequence[str]) -> Iterator[None]:
        """Within it, this thread reads what lay in these folders when it began."""
        before = self.folders
        self.folders = dict(before or {})
        try:
            for first in range(0, len(folders), MOST_FOLDERS):
                self.folders |= _taken(channel, folders[first : first + MOST_FOLDERS])
            yield
        finally:
            self.folders = before

    def of(self, path: str, *, follow: bool) -> Seen | None:
        """What is known of a path; None for nothing. FileNotFoundError where nothing was."""
        folder, _, name = path.rpartition("/")
        files = self.folders.get(folder) if self.folders else None
        if files is None:
            return None
        if name not in files:
            raise FileNotFoundError(2, "No such file or directory", path)
        seen = files[name]
        return None if follow and stat.S_ISLNK(seen.status.st_mode) else seen

    def forget(self, path: str) -> None:
        """It is about to change: its folder, and all below it, is asked for again."""
        if self.folders:
            folder = path.rpartition("/")[0]
            gone = [name for name in self.folders if name == folder or f"{name}/".startswith(f"{path}/")]
            for name in gone:
                del self.folders[name]


def _taken(channel: Channel, folders: Sequence[str]) -> dict[str, Mapping[str, Seen]]:
    answer = channel.ask("snapshot", folders=list(folders))
    found: dict[str, Mapping[str, Seen]] = {}
    at = 0
    for folder, files in answer.head["value"].items():
        seen: dict[str, Seen] = {}
        for name, status, size in files or ():
            data = None if size is None else answer.data[at : at + size]
            at += size or 0
            seen[name] = Seen(Status(*status), data)
        found[folder] = seen
    return found
