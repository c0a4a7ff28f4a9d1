"""Working directories on the nodes' own disks: at the end of a run their files move to the run's folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.node.node_programs import programs_folder, start_words
from batchai_magics.backends.node.ranks.rank import become_own_group
from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.backends.slurm.node import allocation
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.errors import is_disk_full
from batchai_magics.launch.plan import Plan
from batchai_magics.untrusted_files import open_file, read_json

_BLOCK = 1 << 22
_POLL_S = 0.1
_MOVED = (stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO)
LIMIT_REACHED = "slurm.scratch_limit_mib allows no more"
TOO_LATE = "there was no time left to copy them"
NO_ROOM = "there was no room in slurm.home"


class ScratchError(Exception):
    """The scratch folder is unusable; the message is for the user."""


class MoveResult(NamedTuple):
    """How many bytes of a node's files were moved, how many files were left behind, and why."""

    moved_bytes: int = 0
    left: int = 0
    left_bytes: int = 0
    reason: str = ""

    @classmethod
    def read(cls, file: Path) -> MoveResult | None:
        """Reads a node's result; None if it recorded none."""
        try:
            return cls(**read_json(file))
        except (OSError, ValueError, TypeError):
            return None


class ScratchEntry(NamedTuple):
    """An entry below a folder: its relative path, mode, size and mtime."""

    path: str
    mode: int
    size_bytes: int
    modified: float

    @classmethod
    def of(cls, folder: str, entry: os.DirEntry[str]) -> ScratchEntry:
        """Reads an entry without following links."""
        status = entry.stat(follow_symlinks=False)
        size_bytes = status.st_size if stat.S_ISREG(status.st_mode) else 0
        return cls(str(Path(folder, entry.name)), status.st_mode, size_bytes, status.st_mtime)


class Space(NamedTuple):
    """How many bytes may be moved, and the deadline on `clock`."""

    limit_bytes: int
    deadline_s: float
    clock: Callable[[], float] = time.monotonic

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self.clock() > self.deadline_s


def base(setting: str, guid: str, node: str) -> str:
    """The scratch folder of a run; empty without the setting.

    Raises:
        ScratchError: The setting has a variable that is not set on the node, or is not an absolute path.
    """
    if not setting:
        return ""
    path = os.path.expandvars(setting)
    if unset := re.search(r"\$\w+|\$\{\w+\}", path):
        raise ScratchError(f"slurm.scratch: {unset[0]} is not set on {node}")
    if not path.startswith("/"):
        raise ScratchError(f"slurm.scratch is not an absolute path on {node}, but {path!r}")
    return f"{path.rstrip('/')}/batchai-{guid}"


def move(source: Path, target: Path, note: Path, space: Space) -> MoveResult:
    """Moves the files of a node to the run's folder, and records the result.

    Waits for another program that moves this node's files, and continues where it stopped.
    """
    with _exclusive(source, space):
        before = MoveResult.read(note) or MoveResult()
        remaining = space._replace(limit_bytes=space.limit_bytes - before.moved_bytes)
        moved = _move_all(source, target, remaining) if source.is_dir() else MoveResult()
        moved = moved._replace(moved_bytes=moved.moved_bytes + before.moved_bytes)
        with contextlib.suppress(OSError):  # a full disk: the missing result is reported
            private_files.write(note, json.dumps(moved._asdict()))
        if not moved.left:
            private_files.remove_folder(source)
            with contextlib.suppress(OSError):  # several nodes may share a machine
                source.parent.rmdir()
    return moved


def _move_all(source: Path, target: Path, space: Space) -> MoveResult:
    private_files.make_folder(target)
    entries = sorted(_entries_below(source, target), key=lambda entry: entry.modified, reverse=True)
    moved_bytes, left_count, left_bytes, reason = 0, 0, 0, ""
    for entry in entries:
        room = space._replace(limit_bytes=space.limit_bytes - moved_bytes)
        problem = NO_ROOM if reason == NO_ROOM else _move_entry(source, target, entry, room)
        if problem:
            left_count, left_bytes, reason = left_count + 1, left_bytes + entry.size_bytes, problem
        else:
            moved_bytes += entry.size_bytes
    return MoveResult(moved_bytes, left_count, left_bytes, reason)


def _entries_below(source: Path, target: Path) -> Iterator[ScratchEntry]:
    """The entries to move, at any depth; creates their folders in the target.

    Sockets and devices have no content. A folder that cannot be read is yielded itself, as it must stay.
    """
    folders = [""]
    while folders:
        folder = folders.pop()
        with contextlib.suppress(OSError):  # copying its files will report why
            (target / folder).mkdir(mode=private_files.FOLDER, exist_ok=True)
        try:
            with os.scandir(source / folder) as entries:
                children = [ScratchEntry.of(folder, entry) for entry in entries]
        except OSError:
            yield ScratchEntry(folder, stat.S_IFDIR, 0, 0.0)
            continue
        for entry in children:
            if stat.S_ISDIR(entry.mode):
                folders.append(entry.path)
            elif stat.S_IFMT(entry.mode) in _MOVED:
                yield entry


def _move_entry(source: Path, target: Path, entry: ScratchEntry, space: Space) -> str:
    """Moves one file; returns why it was left behind, or empty."""
    if entry.size_bytes > space.limit_bytes:
        return LIMIT_REACHED
    if space.is_over:
        return TOO_LATE
    part = target.parents[1] / f"{target.name}.part"  # in the run's folder, where it is not listed
    try:
        part.unlink(missing_ok=True)
        _copy(source / entry.path, part, entry.mode, space)
        part.replace(target / entry.path)
        (source / entry.path).unlink()
    except TimeoutError:
        return TOO_LATE
    except OSError as error:
        return NO_ROOM if is_disk_full(error) else str(error.strerror)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return ""


def _copy(source: Path, part: Path, mode: int, space: Space) -> None:
    """Copies a file, link or pipe; raises the OSError of an unreadable folder."""
    if stat.S_ISLNK(mode):
        part.symlink_to(source.readlink())
    elif stat.S_ISFIFO(mode):
        os.mkfifo(part, private_files.FILE)
    elif stat.S_ISDIR(mode):
        os.scandir(source).close()
        raise OSError(errno.EIO, "a folder could not be read")
    else:
        with (
            open_file(source) as stream,
            open(part, "xb", opener=private_files.opener) as copy,
        ):
            while data := stream.read(_BLOCK):
                if space.is_over:
                    raise TimeoutError
                copy.write(data)
        shutil.copystat(source, part)


@contextlib.contextmanager
def _exclusive(source: Path, space: Space) -> Iterator[None]:
    """Excludes other programs from moving these files, until the deadline."""
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # everything was moved, or nothing ran there
        yield
        return
    try:
        while not space.is_over:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


_MODULE = "batchai_magics.backends.slurm.node.scratch"
START_TIMEOUT_S = 10.0  # time for srun to start programs on other nodes, in addition to their own
RANK_TIMEOUT_S = 10.0  # time for a rank's program when Slurm ends the run and is about to kill it
_RANKS_TIMEOUT_S = 3.0  # how long to wait for the other ranks of a node


class ScratchCollection:
    """Collects the files on the nodes' own disks; does nothing for runs without scratch folders."""

    def __init__(self, files: RunFiles, plan: Plan) -> None:
        self._files, self._plan = files, plan
        self._request: dict[str, str | int] = {}
        with contextlib.suppress(FileNotFoundError):
            self._request = read_json(_file(files))

    @staticmethod
    def request(files: RunFiles, *, limit_bytes: int, number: int) -> None:
        """Writes the request to collect files, which all nodes read; `number` is the attempt's."""
        suffix = "" if number == 1 else f".attempt-{number}"
        private_files.write(_file(files), json.dumps({"limit_bytes": limit_bytes, "suffix": suffix}))

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to collect."""
        return bool(self._request)

    def collect(self, seconds: float) -> list[str]:
        """Makes all nodes move their files; returns a sentence for each node that left some behind."""
        if not self._request:
            return []
        program = self._start_others(seconds)
        self.collect_node(0, seconds)
        if program:
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(seconds + START_TIMEOUT_S)
            program.kill()
            program.wait()
        return self.left_behind()

    def left_behind(self) -> list[str]:
        """A sentence for each node that still has files, or did not report that it has none."""
        sentences = []
        for index, node in enumerate(self._plan.nodes if self._request else ()):
            moved, where = MoveResult.read(self._note(index)), f"on {node.id}, in {node.folder}"
            if moved is None:
                text = f"Files may be left {where}: the node did not tell that they were copied"
                sentences.append(text)
            elif moved.left:
                size = f"{moved.left_bytes / (1 << 20):.1f} MiB"
                files = f"{moved.left} files ({size}) were" if moved.left > 1 else f"1 file ({size}) was"
                sentences.append(f"{files} left {where}: {moved.reason}")
        return sentences

    def collect_node(self, index: int, seconds: float) -> None:
        """Moves the files of the node with this index, which is the current one."""
        if not self._request:
            return
        node = self._plan.nodes[index]
        target = self._files.workdir / f"{node.id}{self._request['suffix']}"
        space = Space(int(self._request["limit_bytes"]), time.monotonic() + seconds)
        with contextlib.suppress(OSError):  # a full disk: the missing note is reported
            move(Path(node.folder), target, self._note(index), space)

    def collect_after_rank(self, rank: int) -> None:
        """Moves the files of a rank's node once the other ranks there have ended."""
        index = self._plan.processes[rank].node
        ranks = {process.rank for process in self._plan.processes if process.node == index}
        deadline = time.monotonic() + _RANKS_TIMEOUT_S
        while self._request and ranks - {end.rank for end in exits_in(Path(self._plan.exits))}:
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)
        self.collect_node(index, RANK_TIMEOUT_S)

    def _start_others(self, seconds: float) -> subprocess.Popen[bytes] | None:
        """Starts the program on the other nodes, through srun."""
        names = [node.id for node in self._plan.nodes[1:]]
        if not names:
            return None
        options = ["--ntasks-per-node=1", "--kill-on-bad-exit=0", "--wait=0", "--export=ALL"]
        program = start_words(self._plan.python, _MODULE, programs_folder())
        args = [str(self._files.root), str(self._files.plan), str(seconds)]
        with self._files.batch_log.open("ab") as log:
            return subprocess.Popen(
                [*allocation.srun_beside(names), *options, *program, *args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=partial(become_own_group, signal.SIGTERM),
            )

    def _note(self, index: int) -> Path:
        return (
            self._files.root / "collected" / f"{self._plan.nodes[index].id}{self._request.get('suffix')}.json"
        )


def main() -> None:
    """Moves the files of the current node."""
    files, plan = RunFiles(Path(sys.argv[1])), Plan.read(sys.argv[2])
    index = [node.id for node in plan.nodes].index(os.environ["SLURMD_NODENAME"])
    ScratchCollection(files, plan).collect_node(index, float(sys.argv[3]))


def _file(files: RunFiles) -> Path:
    return files.root / "collection.json"
