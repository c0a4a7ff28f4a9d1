"""The files of an attempt on nodes that do not see the home: sent there before it, and brought home.

Logs and saved files come home while the attempt runs, the rest at its end. How much of a log is home is read
from the home, so that the successor of a killed supervising actor repeats nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.node import output_records
from batchai_magics.backends.node.ranks.output_streams import SECRET, SPAN, TIME
from batchai_magics.backends.ray.node import cluster
from batchai_magics.backends.ray.node.actor_target import SHARES
from batchai_magics.backends.ray.node.home_files import (
    BLOCK_BYTES,
    CLAIM,
    FileEntry,
    HomeFiles,
)
from batchai_magics.backends.ray.node.run_files import SupervisedFiles
from batchai_magics.errors import is_disk_full
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import TRAINER_LOG, LogPaths, Plan, Requirement
from batchai_magics.log_lines import LogBlock
from batchai_magics.untrusted_files import opener, read_json

COLLECT_S = 0.3  # how often new output is brought home
FILES_EACH = 4  # the same for other files, as a multiple of it
WAIT_S = 1.0  # how often it is checked whether a full home has room
MAX_SENT_BYTES = 2 << 30
_SENT = ("python", "mounts", "shared", "checkpoints", "records", "hosts")  # of the run's folder
_SAVED = ("checkpoints", "artifacts", "records")  # of that folder, brought home while the attempt runs


class CopyError(Exception):
    """Files cannot be sent to a node; the message is for the user."""


class CopyRecord(NamedTuple):
    """The copies of an attempt: the ids of their nodes by number, and the sizes of its logs before it."""

    nodes: Mapping[str, str]
    sizes: Mapping[str, int]


class RunCopies:
    """The files of an attempt on some of its nodes, by their numbers, through an actor on each."""

    def __init__(self, layout: Layout, plan: Plan, nodes: Mapping[int, tuple[str, Any]]) -> None:
        """`nodes` are given by their ids and actors."""
        self._layout = layout
        self._files = SupervisedFiles(layout.job(plan.guid).root)
        self._nodes = {str(number): id for number, (id, _) in nodes.items()}
        self._copies = [_NodeCopy(layout, plan, number, actor) for number, (_, actor) in nodes.items()]
        self._lost, self._problem = list[str](), ""
        self._over, self._thread = threading.Event(), threading.Thread(target=self._follow, daemon=True)

    @classmethod
    def left_behind(cls, layout: Layout, programs: str, files: SupervisedFiles) -> RunCopies:
        """The copies that a killed supervising actor has left."""
        record, plan = CopyRecord(*read_json(files.copies)), Plan.read(str(files.plan))
        living, nodes = {node.id for node in cluster.nodes()}, record.nodes.items()
        actors = {
            int(number): (id, cluster.files_actor(programs, id, plan.guid))
            for number, id in nodes
            if id in living
        }
        copies = cls(layout, plan, actors)
        copies._lost = [plan.nodes[int(number)].id for number, id in nodes if id not in living]
        for copy in copies._copies:
            copy.begin(record.sizes)
        return copies

    def send(self, stop_request: Callable[[], Outcome | None]) -> Outcome | None:
        """Sends the files that the processes need; returns the outcome if the attempt was stopped meanwhile.

        Raises:
            CopyError: The files are too large, or a node has no room for them.
        """
        import ray

        self._note({})
        attempt = uuid.uuid4().hex
        for copy in self._copies:
            try:
                if outcome := copy.send(attempt, stop_request):
                    return outcome
            except ray.exceptions.RayTaskError as error:
                raise CopyError(f"{copy.name} cannot have a copy of the home: {error.cause}") from None
        return None

    def begin(self) -> None:
        """Starts to bring home the files that the processes write, before the first of them starts."""
        if self._thread.ident or not self._copies:
            return
        logs = (log.path for copy in self._copies for log in copy.streams)
        sizes = {path: _size_of(path) for path in logs}
        self._note(sizes)
        for copy in self._copies:
            copy.begin(sizes)
        self._thread.start()

    def _note(self, sizes: Mapping[str, int]) -> None:
        if self._copies:
            private_files.write(self._files.copies, json.dumps(CopyRecord(self._nodes, sizes)))

    def finish(self) -> list[str]:
        """Brings everything home and removes it from the nodes; returns what is missing, in sentences."""
        self._over.set()
        if self._thread.ident:
            self._thread.join()
        claimed = self._of_each(_NodeCopy.is_claimed)
        self._copies = [copy for copy, is_ours in zip(self._copies, claimed, strict=True) if is_ours]
        is_home = self._is_home()
        while not is_home and not self._files.kill.exists():
            time.sleep(WAIT_S)
            is_home = self._is_home()
        if is_home:
            self._of_each(_NodeCopy.forget)
        self._files.copies.unlink(missing_ok=True)
        where = f"files in its copy of {self._layout.home}"
        missing = [
            f"{copy.name} still has {where}: {copy.problem or self._problem}"
            for copy in self._copies
            if copy.problem or not is_home
        ]
        return [*missing, *(f"{name} was lost with what it had not sent" for name in self._lost)]

    def _is_home(self) -> bool:
        """Brings home all files; False if that fails, or if processes may still write."""
        running = self._of_each(_NodeCopy.is_running)
        return self._collect(is_last=True) and not any(running)

    def _follow(self) -> None:
        for number in count():
            if self._over.wait(COLLECT_S):
                return
            self._collect(is_last=False, has_files=number % FILES_EACH == 0)

    def _collect(self, *, is_last: bool, has_files: bool = True) -> bool:
        """Brings home new data; False if that is impossible for now, as on a full disk."""
        if not self._files.root.exists():
            return True  # the run was deleted
        try:
            while any(self._of_each(_NodeCopy.collect_logs)) and is_last:
                pass
            if has_files:
                self._of_each(partial(_NodeCopy.collect_files, is_last=is_last))
        except OSError as error:
            self._problem = str(error)
            return False
        return True

    def _of_each(self, do: Callable[[_NodeCopy], bool | None]) -> list[bool | None]:
        """Calls a function on each copy; drops those on nodes that are lost meanwhile."""
        import ray

        done = []
        for copy in [*self._copies]:
            try:
                done.append(do(copy))
            except ray.exceptions.RayTaskError:
                raise
            except ray.exceptions.RayError:
                self._copies.remove(copy)
                self._lost.append(copy.name)
        return done


class _NodeCopy:
    """The files of an attempt on one node."""

    def __init__(self, layout: Layout, plan: Plan, number: int, actor: Any) -> None:
        self.name = plan.nodes[number].id
        self._layout, self._plan, self._node, self._actor = layout, plan, plan.nodes[number], actor
        self._job, self._home = layout.job(plan.guid), HomeFiles(str(layout.home), plan.guid)
        self._folder = str(Path(plan.output.stdout.path).parent)
        self.streams = _logs_of(plan, number)
        self._ranks = {process.rank for process in plan.processes if process.node == number}
        self._logs: Sequence[_CollectedLog] = ()
        self._seen: Mapping[str, FileEntry] = {}
        self.problem = ""  # why a file cannot be brought home

    def begin(self, sizes: Mapping[str, int]) -> None:
        """Determines how much of the node's logs is home; `sizes` are those before the attempt."""
        self._logs = [_CollectedLog(log, sizes.get(log.path, 0), self._ranks) for log in self.streams]

    def send(self, attempt: str, stop_request: Callable[[], Outcome | None]) -> Outcome | None:
        """Sends the files that the processes need; the outcome if the attempt was stopped meanwhile."""
        needed = self._needed()
        if not self._call("claim", self._folder, attempt):
            text = f"{self.name} shares {self._layout.home} with another node of the job"
            raise CopyError(f"{text}, and does not see the one of this machine")
        for path, entry in needed.items():
            if outcome := stop_request():
                return outcome
            _copy(path, entry, self._home.read, partial(self._call, "write"))
        self._call("make_folders", self._folders(needed))
        return None

    def _needed(self) -> Mapping[str, FileEntry]:
        """The files that the processes need: folders of the run, their inputs, and the links to shares."""
        inputs = [
            Path(self._node.folder, directory.path)
            for directory in self._node.directories
            if directory.need is not Requirement.CREATE
        ]
        paths = [*(self._job.root / name for name in _SENT), Path(self._node.folder), *inputs]
        paths.append(Path(self._node.env.get("AZ_BATCHAI_MOUNT_ROOT", self._job.mounts)))
        entries = self._home.entries([*filter(None, map(self._relative, paths))])
        size_bytes = sum(entry.size_bytes for entry in entries.values() if entry.is_file)
        if size_bytes > MAX_SENT_BYTES:
            text = f"{self.name} does not see {self._layout.home}, and needs {size_bytes >> 20} MiB of it"
            raise CopyError(f"{text}: at most {MAX_SENT_BYTES >> 20} MiB are sent")
        return entries

    def _folders(self, needed: Mapping[str, FileEntry]) -> list[str]:
        """The folders that the processes write to: targets of links, their own folders, and outputs."""
        node, job = self._node, self._job
        outputs = [
            Path(node.folder, directory.path)
            for directory in node.directories
            if directory.need is Requirement.CREATE
        ]
        own_folders = (node.folder, self._plan.exits, job.preparation_exits, job.checkpoints, job.artifacts)
        targets = (Path(entry.target) for entry in needed.values() if entry.target)
        shares = [target for target in targets if target.is_dir() and self._relative(target)]
        return [*map(str, (*shares, self._folder, *own_folders, *outputs))]

    def is_claimed(self) -> bool:
        """Whether the node has files of the attempt at all: it may have a home of its own there."""
        return bool(self._call("is_claimed"))

    def is_running(self) -> bool:
        """Whether the program that runs the processes is still alive."""
        return bool(self._call("is_running"))

    def collect_logs(self) -> bool:
        """Brings home the next block of each log; returns whether there was any data."""
        blocks: Sequence[LogBlock] = self._call("log_blocks", [(log.log, log.position) for log in self._logs])
        for log, block in zip(self._logs, blocks, strict=True):
            if block.data:
                log.append(block)
        return any(block.data for block in blocks)

    def collect_files(self, *, is_last: bool) -> None:
        """Brings home files that are newer there; before the end, only those that have settled."""
        root, log_folder = self._relative(self._job.root), self._relative(Path(self._folder))
        saved = (*_SAVED, Path(self._plan.exits).name)
        paths = [*SHARES, root] if is_last else [f"{root}/{name}" for name in saved]
        entries: Mapping[str, FileEntry] = self._call("entries", paths, log_folder)
        before, self._seen = self._seen, entries
        self.problem = ""
        appended = {self._relative(Path(file)) for log in self.streams for file in log if file}
        for path in sorted(entries.keys() - appended - {f"{root}/{CLAIM}"}):
            entry = entries[path]
            is_settled = is_last or before.get(path) == entry
            if not (is_settled and entry.is_newer_than(self._home.entry(path))):
                continue
            try:
                _copy(path, entry, partial(self._call, "read"), self._home.write)
            except OSError as error:  # from here, or from there
                if is_disk_full(error):
                    raise
                self.problem = os.fsencode(f"{path}: {error}").decode("utf-8", "replace")

    def forget(self) -> None:
        """Removes the files from the node, unless one could not be brought home."""
        if not self.problem:
            self._call("forget", self._folder)

    def _call(self, method: str, *arguments: object) -> Any:
        import ray

        return ray.get(cluster.call(self._actor, method, *arguments))

    def _relative(self, path: Path) -> str:
        """A path below the home, without links; empty if it is elsewhere."""
        home, real = self._layout.home.resolve(), path.resolve()
        return str(real.relative_to(home)) if real.is_relative_to(home) else ""


def _copy(
    path: str,
    entry: FileEntry,
    read: Callable[[str, int], bytes],
    write: Callable[[str, FileEntry, int, bytes], object],
) -> None:
    """Copies a file block by block, a folder without what is in it, or a link."""
    offset, is_last = 0, False
    while not is_last:
        data = read(path, offset) if entry.is_file else b""
        write(path, entry, offset, data)
        offset, is_last = offset + len(data), len(data) < BLOCK_BYTES


def _logs_of(plan: Plan, number: int) -> list[LogPaths]:
    """The files that processes on a node only append to: logs, the log of trainers' files, telemetry."""
    parts = [plan, *filter(None, [plan.preparation])]
    processes = [(part, process) for part in parts for process in part.processes if process.node == number]
    logs = [log for part, process in processes for log in (*part.output_of(process), *(process.own or ()))]
    ranks = [process.rank for part, process in processes if part is plan]
    folder = Path(plan.output.stdout.path).parent
    if 0 in ranks:
        logs.append(LogPaths(str(folder / TRAINER_LOG)))
    if ranks and plan.telemetry:
        logs.append(LogPaths(f"{plan.telemetry}/{ranks[0]}.jsonl"))
    return [log for log in dict.fromkeys(logs) if log.path]


class _CollectedLog:
    """A log of a node; `position` is how many bytes that these ranks have written there are home.

    In the home, the log had `size_before` bytes before the attempt.
    """

    def __init__(self, log: LogPaths, size_before: int, ranks: Collection[int]) -> None:
        self.log, self._before = log, size_before
        end = _size_of(log.path)
        self.position = max(0, end - size_before)
        if log.spans:
            spans = output_records.writers(Path(log.spans), size_before, end)
            self.position = sum(span.end - span.start for span in spans if span.rank in ranks)

    def append(self, block: LogBlock) -> None:
        """Appends a block, and overwrites one whose writing was interrupted."""
        log, offset = self.log, block.offset
        private_files.make_folder(Path(log.path).parent)  # nodes make the telemetry folder
        descriptor = os.open(
            log.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, private_files.FILE
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            start = os.lseek(descriptor, 0, os.SEEK_END)
            if log.spans:
                start = output_records.recorded_end(Path(log.spans), min(self._before, start), start)
                os.ftruncate(descriptor, start)
            shift = start - offset
            secrets = [(first + shift, end + shift) for first, end in block.hidden]
            _append_records(log.hidden, SECRET, secrets)
            times = [(max(first, offset) + shift, time_s) for first, time_s in block.times]
            _append_records(log.times, TIME, times)
            _write_all(descriptor, block.data)
            spans = [(first + shift, end + shift, rank) for first, end, rank in block.spans]
            _append_records(log.spans, SPAN, spans)
            self.position = offset + len(block.data)
        finally:
            if not log.spans:  # after an error, a part of the block may have been written
                self.position = os.lseek(descriptor, 0, os.SEEK_END) - self._before
            os.close(descriptor)


def _append_records(file: str, shape: struct.Struct, records: Sequence[tuple[object, ...]]) -> None:
    """Appends records to a file, behind its last complete one."""
    if not (file and records):
        return
    private_files.make_folder(Path(file).parent)
    descriptor = opener(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        os.ftruncate(descriptor, size - size % shape.size)
        _write_all(descriptor, b"".join(shape.pack(*record) for record in records))
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _size_of(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0
