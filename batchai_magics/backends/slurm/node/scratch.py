"""Working directories on the nodes' own disks: at the end of a run their files move to the run's folder.

Where all of them have no room there, or no time is left, the newest files go first; what is left behind stays
where it was, and is counted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.service import private_files
from batchai_magics.errors import is_disk_full

_PIECE = 1 << 22
_AGAIN_S = 0.1
_MOVED = (stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO)
USED_UP = "slurm.scratch_limit_mib allows no more"
TOO_LATE = "there was no time left to copy them"
NO_ROOM = "there was no room in slurm.home"


class ScratchError(Exception):
    """The scratch folder cannot be what the setting says; the text is for the user."""


class MoveResult(NamedTuple):
    """What has become of a node's files: how many bytes were moved, how much was left behind, and why."""

    moved_bytes: int = 0
    left: int = 0
    left_bytes: int = 0
    reason: str = ""

    @classmethod
    def read(cls, file: Path) -> MoveResult | None:
        """What a node noted; None where it noted nothing."""
        try:
            return cls(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None


class ScratchEntry(NamedTuple):
    """Something below a folder: its path there, its mode, its size and its time."""

    path: str
    mode: int
    size_bytes: int
    modified: float

    @classmethod
    def of(cls, folder: str, entry: os.DirEntry[str]) -> ScratchEntry:
        """What lies in a folder, be it a link."""
        found = entry.stat(follow_symlinks=False)
        size_bytes = found.st_size if stat.S_ISREG(found.st_mode) else 0
        return cls(str(Path(folder, entry.name)), found.st_mode, size_bytes, found.st_mtime)


class Space(NamedTuple):
    """How many bytes may be moved, and until when by the monotonic clock."""

    limit_bytes: int
    deadline_s: float


def base(setting: str, guid: str, node: str) -> str:
    """The folder of a run on its nodes' disks; ScratchError for a variable that the node has not set."""
    if not setting:
        return ""
    path = os.path.expandvars(setting)
    if unset := re.search(r"\$\w+|\$\{\w+\}", path):
        raise ScratchError(f"slurm.scratch: {unset[0]} is not set on {node}")
    if not path.startswith("/"):
        raise ScratchError(f"slurm.scratch is no absolute path on {node}, but {path!r}")
    return f"{path.rstrip('/')}/batchai-{guid}"


def move(source: Path, target: Path, note: Path, space: Space) -> MoveResult:
    """Moves the files of a node to the run's folder, and notes what has become of them.

    Another program that does the same for this node is waited for; this one goes on where that stopped.
    """
    with _alone(source, space.deadline_s):
        before = MoveResult.read(note) or MoveResult()
        rest = space._replace(limit_bytes=space.limit_bytes - before.moved_bytes)
        moved = _move_all(source, target, rest) if source.is_dir() else MoveResult()
        moved = moved._replace(moved_bytes=moved.moved_bytes + before.moved_bytes)
        with contextlib.suppress(OSError):  # without room it is as if the node had not answered
            private_files.write(note, json.dumps(moved._asdict()))
        if not moved.left:
            private_files.remove_folder(source)
            with contextlib.suppress(OSError):  # other nodes may be on this machine
                source.parent.rmdir()
    return moved


def _move_all(source: Path, target: Path, space: Space) -> MoveResult:
    private_files.make_folder(target)
    found = sorted(_below(source, target), key=lambda each: each.modified, reverse=True)
    moved_bytes, left, left_bytes, reason = 0, 0, 0, ""
    for each in found:
        room = space._replace(limit_bytes=space.limit_bytes - moved_bytes)
        problem = NO_ROOM if reason == NO_ROOM else _problem(source, target, each, room)
        if problem:
            left, left_bytes, reason = left + 1, left_bytes + each.size_bytes, problem
        else:
            moved_bytes += each.size_bytes
    return MoveResult(moved_bytes, left, left_bytes, reason)


def _below(source: Path, target: Path) -> Iterator[ScratchEntry]:
    """What is to be moved, at any depth; the folders are made in the target meanwhile.

    Sockets and devices hold nothing. A folder that cannot be read is told as it is: it has to stay.
    """
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with contextlib.suppress(OSError):  # the files that it is for tell why
            (target / folder).mkdir(mode=private_files.FOLDER, exist_ok=True)
        try:
            with os.scandir(source / folder) as entries:
                inside = [ScratchEntry.of(folder, entry) for entry in entries]
        except OSError:
            yield ScratchEntry(folder, stat.S_IFDIR, 0, 0.0)
            continue
        for found in inside:
            if stat.S_ISDIR(found.mode):
                waiting.append(found.path)
            elif stat.S_IFMT(found.mode) in _MOVED:
                yield found


def _problem(source: Path, target: Path, found: ScratchEntry, space: Space) -> str:
    """Moves one file; why it was left where it is, if it was."""
    if found.size_bytes > space.limit_bytes:
        return USED_UP
    if time.monotonic() > space.deadline_s:
        return TOO_LATE
    part = target.parents[1] / f"{target.name}.part"  # of the run's folder: nobody lists it
    try:
        part.unlink(missing_ok=True)
        _copy(source / found.path, part, found.mode, space.deadline_s)
        part.replace(target / found.path)
        (source / found.path).unlink()
    except TimeoutError:
        return TOO_LATE
    except OSError as error:
        return NO_ROOM if is_disk_full(error) else str(error.strerror)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return ""


def _copy(source: Path, part: Path, mode: int, deadline_s: float) -> None:
    """Copies a file or a link, and makes a pipe; of a folder it only finds out why it cannot be read."""
    if stat.S_ISLNK(mode):
        part.symlink_to(source.readlink())
    elif stat.S_ISFIFO(mode):
        os.mkfifo(part, private_files.FILE)
    elif stat.S_ISDIR(mode):
        os.scandir(source).close()
        raise OSError(errno.EIO, "a folder could not be read")
    else:
        _copy_file(source, part, deadline_s)


def _copy_file(source: Path, part: Path, deadline_s: float) -> None:
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with (
        os.fdopen(descriptor, "rb", buffering=0) as stream,
        open(part, "xb", opener=private_files.opener) as copy,
    ):
        while data := stream.read(_PIECE):
            if time.monotonic() > deadline_s:
                raise TimeoutError
            copy.write(data)
    shutil.copystat(source, part)


@contextlib.contextmanager
def _alone(source: Path, deadline_s: float) -> Iterator[None]:
    """Nobody else moves these files meanwhile, unless he is at it when the time is over."""
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # all of it was moved, or nothing ran there
        yield
        return
    try:
        while time.monotonic() < deadline_s:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(_AGAIN_S)
        yield
    finally:
        os.close(descriptor)
