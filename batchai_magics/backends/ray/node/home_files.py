"""A home's files, below one path on every node: the home itself, or a copy on a node that does not see it.

A copy has the files that the runs on its node need, and those that they have written until the home has them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import uuid
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.node import output_records
from batchai_magics.backends.ray.node.actor_target import (
    COPIED,
    COPY_MARK,
    HOME_ID,
    PROGRAMS,
    copied_from,
    is_home,
    is_spent,
    locked,
)
from batchai_magics.launch.plan import LogPaths
from batchai_magics.log_lines import LogBlock
from batchai_magics.untrusted_files import open_file, read_start

CLAIM = "copied-for"  # the file in a run's folder that names the attempt
BLOCK_BYTES = 4 << 20
REPLY_BYTES = 16 << 20  # of all logs
_KINDS = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)


class FileEntry(NamedTuple):
    """A file, a folder, or a link to `target`."""

    mode: int
    size_bytes: int
    modified_ns: int
    target: str = ""

    @classmethod
    def of(cls, path: Path) -> FileEntry:
        """Reads the entry of a path, without following links."""
        status = path.lstat()
        target = str(path.readlink()) if stat.S_ISLNK(status.st_mode) else ""
        return cls(status.st_mode, status.st_size, status.st_mtime_ns, target)

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.mode)

    def is_newer_than(self, other: FileEntry | None) -> bool:
        """Whether it is to replace the other entry: only files replace existing entries."""
        return other is None or (self.is_file and self.modified_ns > other.modified_ns)


class HomeFiles:
    """The files below a home by their relative paths, for the run `guid`.

    For a copy, `owner` is the id of the home.
    """

    def __init__(self, home: str, guid: str, owner: str = "") -> None:
        self._root, self._job, self._owner = Path(home), Layout(Path(home)).job(guid).root, owner
        self._part = self._root / "unfinished" / "copies" / guid

    def entries(self, paths: Sequence[str], only: str = "") -> dict[str, FileEntry]:
        """The entries at these paths and below; of folders with the name of `only`, just that one."""
        entries, pending = dict[str, FileEntry](), [*paths]
        while pending:
            path = pending.pop()
            if only and path != only and PurePath(path).name == PurePath(only).name:
                continue
            with contextlib.suppress(OSError):  # it is gone, or closed to us
                entry = FileEntry.of(self._root / path)
                if stat.S_IFMT(entry.mode) in _KINDS:
                    entries[path] = entry
                if stat.S_ISDIR(entry.mode):
                    pending += [f"{path}/{child.name}" for child in (self._root / path).iterdir()]
        return entries

    def entry(self, path: str) -> FileEntry | None:
        """The entry of a path; None if there is none."""
        with contextlib.suppress(OSError):
            return FileEntry.of(self._root / path)
        return None

    def read(self, path: str, offset: int) -> bytes:
        """A block of a regular file; a shorter one is the last."""
        with open_file(self._root / path) as file:
            file.seek(offset)
            return read_start(file, BLOCK_BYTES)

    def write(self, path: str, entry: FileEntry, offset: int, data: bytes) -> None:
        """Writes a block of a file, which appears with its last block, or creates a folder or link."""
        target = self._root / path
        is_below = not PurePath(path).is_absolute() and ".." not in PurePath(path).parts
        if not is_below or not target.parent.resolve().is_relative_to(self._root.resolve()):
            raise PermissionError(f"{path} is outside {self._root}")  # maybe through a link
        private_files.make_folder(target.parent)
        if stat.S_ISDIR(entry.mode):
            target.mkdir(mode=private_files.FOLDER, exist_ok=True)
        elif not entry.is_file:
            with contextlib.suppress(FileExistsError):
                target.symlink_to(entry.target)
        else:
            private_files.make_folder(self._part.parent)
            with open(self._part, "r+b" if offset else "wb", opener=private_files.opener) as part:
                part.seek(offset)
                part.write(data)
            if len(data) < BLOCK_BYTES:
                self._part.chmod(stat.S_IMODE(entry.mode) & private_files.FOLDER)
                os.utime(self._part, ns=(entry.modified_ns, entry.modified_ns))
                self._part.replace(target)

    def log_blocks(self, logs: Sequence[tuple[LogPaths, int]]) -> list[LogBlock]:
        """The next block of each log from an offset on; in whole lines if several ranks share the log."""
        limit = min(BLOCK_BYTES, REPLY_BYTES // max(1, len(logs)))
        return [_log_block(LogPaths(*log), offset, limit) for log, offset in logs]

    # -- of a copy alone

    def claim(self, logs: str, attempt: str) -> bool:
        """Creates the folder of the run; removes the files and logs that a lost attempt may have left.

        The copy exists as long as it has the folder of a run. Returns False if another node of the attempt
        has this copy.

        Raises:
            PermissionError: The folder is not a copy of this home.
        """
        mark = self._job / CLAIM
        with locked(self._root, fcntl.LOCK_EX):
            if not self._is_copy():
                raise PermissionError(f"{self._root} is another folder")
            if mark.exists() and mark.read_text(encoding="utf-8") == attempt:
                return False
            private_files.remove_folder(self._job)
            private_files.write(mark, attempt)
        private_files.remove_folder(Path(logs))
        return True

    def is_claimed(self) -> bool:
        """Whether this is a copy with the folder of the run."""
        return self._is_copy() and (self._job / CLAIM).exists()

    def make_folders(self, folders: Sequence[str]) -> None:
        """Creates folders."""
        for folder in folders:
            private_files.make_folder(Path(folder))

    def is_running(self) -> bool:
        """Whether the program that runs the processes of the run is still alive."""
        try:
            with locked(self._job, fcntl.LOCK_EX | fcntl.LOCK_NB):
                return False
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False

    def forget(self, logs: str) -> None:
        """Removes the files of the run; with the last run, everything but the programs."""
        with contextlib.suppress(FileNotFoundError), locked(self._root, fcntl.LOCK_EX):
            if not self._is_copy():
                return
            private_files.remove_folder(self._job)
            private_files.remove_folder(Path(logs))
            if not any(self._job.parent.iterdir()):
                _remove_copied(self._root)

    def _is_copy(self) -> bool:
        return bool(self._owner) and copied_from(self._root) == self._owner


def home_id(home: Path) -> str:
    """The id of a home."""
    file = home / HOME_ID
    if not file.exists():
        private_files.write_new(file, uuid.uuid4().hex)
    return file.read_text(encoding="utf-8")


def take_over(home: Path) -> bool:
    """Turns a copy without files of runs into a home; False if it has some."""
    mark = home / COPY_MARK
    if not mark.exists() or private_files.is_read_only(home):
        return True
    with locked(home, fcntl.LOCK_EX):
        if not is_home(home):
            if not is_spent(home):
                return False
            _remove_copied(home)
            private_files.remove_folder(home / PROGRAMS)
        mark.unlink(missing_ok=True)
    return True


def _remove_copied(folder: Path) -> None:
    for name in COPIED:
        private_files.remove_folder(folder / name)


def _log_block(log: LogPaths, offset: int, limit: int) -> LogBlock:
    try:
        with open_file(log.path) as file:
            end = file.seek(0, os.SEEK_END)
            if log.spans:
                end = output_records.recorded_end(Path(log.spans), offset, end)
            file.seek(offset)
            data = read_start(file, min(limit, max(0, end - offset)))
    except OSError:  # it is not there yet, or was replaced
        return LogBlock(b"", offset)
    if log.spans and len(data) == limit:
        data = data[: data.rfind(b"\n") + 1] or data
    end = offset + len(data)
    spans = output_records.writers(Path(log.spans), offset, end) if log.spans else []
    times = output_records.times(Path(log.times), offset, end) if log.times else []
    secrets = output_records.secrets(Path(log.hidden), offset, end) if log.hidden else []
    return LogBlock(data, offset, spans, times, secrets)
