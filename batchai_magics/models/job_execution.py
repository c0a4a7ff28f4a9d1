"""The execution of a job: times, exit code, errors, attempts, exits of ranks, output files."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from batchai_magics.errors import visible
from batchai_magics.models.response_object import ResponseObject, WireObject
from batchai_magics.models.wire_times import wire_time

if TYPE_CHECKING:
    from batchai_magics.models.error_details import ErrorDetail


STDOUTERR = "stdouterr"  # the directory of every job's logs
WORKDIR = "workdir"  # the working directories of its processes, one per node
ARTIFACTS = "artifacts"  # what it saved under a name
CHECKPOINTS = "checkpoints"  # what it keeps between its attempts
RUN_FOLDERS = (WORKDIR, ARTIFACTS, CHECKPOINTS)  # directories of every job, beside its logs
OUT, ERR = "stdout.txt", "stderr.txt"  # the logs that every job has there
_PROCESS_LOG = re.compile(r"std(?:out|err)-(?:(?:wk|ps)-)?[0-9]+\.txt")
_NODE = re.compile(r"tvm-\d+_(\d+)(-\d{8}t\d{6}z(-p)?)?")


def node_name(name: str) -> str:
    """A node name without the common parts: `tvm-1690037429_2-20261121t033128z-p` becomes `node 2`."""
    return _NODE.sub(r"node \1", name)


def is_process_log(name: str) -> bool:
    """Whether a log file belongs to one process; its contents are in the job's log too."""
    return _PROCESS_LOG.fullmatch(name) is not None


def output_path(prefix: str, segment: str, suffix: str, *, is_own: bool) -> str:
    """The path of an output directory: created for the job's run, or with `is_own` false an existing one.

    `segment` is the path of the job's run below each prefix.
    """
    parts = (segment, "outputs", suffix) if is_own else (suffix,)
    return "/".join([prefix.rstrip("/"), *filter(None, parts)])


@dataclass(frozen=True)
class ExecutionInfo:
    """The execution of a job. Times are in UTC.

    `exit_code`: the first failing process's exit code, else 0; None while it runs and if it was
    terminated.
    """

    started: datetime  # when its preparation or processes started
    ended: datetime | None = None  # when it ended; None while it runs
    exit_code: int | None = None
    errors: tuple[ErrorDetail, ...] = ()  # why it failed, and warnings

    def to_wire(self) -> WireObject:
        """The service's JSON."""
        data: dict[str, Any] = {"startTime": wire_time(self.started)}
        if self.ended:
            data["endTime"] = wire_time(self.ended)
        if self.exit_code is not None:
            data["exitCode"] = self.exit_code
        if self.errors:
            data["errors"] = [error.to_wire() for error in self.errors]
        return data

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> ExecutionInfo:
        """Reads the service's JSON; raises ServiceError if a field is missing or invalid."""
        from batchai_magics.models.error_details import ErrorDetail  # slow; lists of jobs do not need it

        info = ResponseObject.of(data, "executionInfo")
        return cls(
            started=info.time("startTime"),
            ended=info.optional_time("endTime"),
            exit_code=info.optional_number("exitCode"),
            errors=tuple(ErrorDetail.from_wire(error) for error in info.items("errors")),
        )


@dataclass(frozen=True)
class Attempt:
    """An attempt of a job that was requeued."""

    number: int  # from 1
    nodes: tuple[str, ...]  # the names of its nodes
    started: datetime  # when it started, in UTC
    ended: datetime | None = None  # when it ended, in UTC; None for the current one
    reason: str = ""  # why it ended, a sentence without its period; empty for the latest one

    @property
    def sentence(self) -> str:
        """A description: `attempt 1 on n1: Slurm lost a node of it`."""
        nodes = f" on {', '.join(self.nodes)}" if self.nodes else ""
        return f"attempt {self.number}{nodes}" + f": {self.reason}" * bool(self.reason)

    def to_wire(self) -> WireObject:
        """JSON in the style of the service, whose API has no attempts."""
        data: dict[str, Any] = {"attempt": self.number, "nodeIds": [*self.nodes]}
        data["startTime"] = wire_time(self.started)
        if self.ended:
            data["endTime"] = wire_time(self.ended)
        if self.reason:
            data["reason"] = self.reason
        return data

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Attempt:
        """Reads the JSON of `to_wire`; raises ServiceError if a field is missing or invalid."""
        response = ResponseObject.of(data, "the attempt")
        return cls(
            number=response.number("attempt"),
            nodes=tuple(map(str, data.get("nodeIds") or ())),
            started=response.time("startTime"),
            ended=response.optional_time("endTime"),
            reason=response.text("reason", ""),
        )


@dataclass(frozen=True)
class RankExit:
    """The exit of a process.

    `exit_code`: its exit code, 128 + signal if it was killed; None if it was killed because the job
    ended.
    """

    rank: int
    node: str  # the name of its node
    exit_code: int | None
    ended: datetime | None = None  # when it ended, in UTC
    peak_bytes: int | None = None  # the peak memory of its largest process

    @property
    def meaning(self) -> str:
        """The meaning of the exit code; empty for one defined by the program."""
        meaning = _MEANINGS.get(self.exit_code or 0, "")
        if not self.peak_bytes or self.exit_code not in (_KILLED, _SEGMENTATION_FAULT, _ABORTED):
            return meaning
        peak_gb = self.peak_bytes / 1e9
        peak = f"{peak_gb:.2g} GB" if peak_gb >= 1 else f"{peak_gb * 1000:.0f} MB"
        return f"{meaning}; its largest process had {peak} of memory at its peak"

    def to_wire(self) -> WireObject:
        """JSON in the style of the service, whose API has no single processes."""
        data: dict[str, Any] = {"rank": self.rank, "nodeId": self.node}
        if self.exit_code is not None:
            data["exitCode"] = self.exit_code
        if self.ended:
            data["endTime"] = wire_time(self.ended)
        if self.peak_bytes is not None:
            data["peakMemoryInBytes"] = self.peak_bytes
        return data

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> RankExit:
        """Reads the JSON of `to_wire`; raises ServiceError if a field is missing or invalid."""
        response = ResponseObject.of(data, "the rank")
        return cls(
            rank=response.number("rank"),
            node=response.text("nodeId"),
            exit_code=response.optional_number("exitCode"),
            ended=response.optional_time("endTime"),
            peak_bytes=response.optional_number("peakMemoryInBytes"),
        )


_ABORTED, _KILLED, _SEGMENTATION_FAULT = 134, 137, 139
_MEANINGS = {
    126: "the command cannot be executed",
    127: "the command was not found",
    130: "interrupted (SIGINT)",
    132: "illegal instruction (SIGILL): built for another processor",
    _ABORTED: "aborted (SIGABRT)",
    135: "bus error (SIGBUS): shared memory or a disk was full",
    136: "arithmetic error (SIGFPE)",
    _KILLED: "killed (SIGKILL): by a user, or by the system because memory ran out",
    _SEGMENTATION_FAULT: "segmentation fault (SIGSEGV): invalid memory access",
    143: "terminated (SIGTERM)",
}


class FileKind(enum.Enum):
    """The type of a directory entry. Only regular files can be read."""

    FILE = "file"
    DIRECTORY = "directory"
    PIPE = "pipe"  # a named pipe: reading it would block, or steal data from its readers
    SOCKET = "socket"
    DEVICE = "device"
    LINK = "link"  # not followed: it leads out of the directory, to itself or to nothing

    @property
    def words(self) -> str:
        """The type in a sentence, with its article."""
        return _WORDS.get(self, f"a {self.value}")


_WORDS = {
    FileKind.DIRECTORY: "a folder",
    FileKind.PIPE: "a named pipe",
    FileKind.LINK: "a link that is outside its folder or nowhere",
}


@dataclass(frozen=True)
class OutputFile:
    """A file, folder or special file that a job wrote.

    `is_link`: whether it is a link inside the directory; the other fields describe its target.
    """

    path: str  # relative to its output directory, with `/`
    kind: FileKind
    size_bytes: int  # its size; 0 for anything but a file
    modified: datetime | None = None  # when it was modified, in UTC
    download_url: str | None = None  # an address for browsers and curl, of files only
    is_link: bool = False
    directory_id: str = ""  # the id of its output directory, set by `Job.files`

    @classmethod
    def regular(cls, path: str, *, directory_id: str = "") -> OutputFile:
        """A regular file with nothing known but its path."""
        return cls(path, FileKind.FILE, 0, directory_id=directory_id)

    @property
    def is_directory(self) -> bool:
        """Whether it is a folder."""
        return self.kind is FileKind.DIRECTORY

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.kind is FileKind.FILE

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def display_path(self) -> str:
        """Its directory and path for people, with short names of nodes: `workdir/node-2/model.pt`."""
        return _NODE.sub(r"node-\1", f"{self.directory_id or STDOUTERR}/{self.path}")

    def __repr__(self) -> str:
        size = f"{self.size_bytes:,} bytes" if self.is_file else self.kind.words
        modified = [f"{self.modified:%Y-%m-%d %H:%M:%S} UTC"] if self.modified else []
        return f"<{', '.join([visible(self.display_path), size, *modified])}>"

    def to_wire(self) -> WireObject:
        """The service's JSON; its folders have only a name, hence `batchai…` extensions for them."""
        if not self.is_file:
            time = {_MODIFIED: wire_time(self.modified)} if self.modified else {}
            link = {_IS_LINK: True} if self.is_link else {}
            return {"name": self.name, "fileType": self.kind.value, **time, **link}
        modified = {"lastModified": wire_time(self.modified)} if self.modified else {}
        address = {"downloadUrl": self.download_url} if self.download_url else {}
        properties = {**modified, "contentLength": self.size_bytes}
        return {"name": self.name, "fileType": "file", **address, "properties": properties}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any], *, folder: str = "") -> OutputFile:
        """Reads the JSON of `to_wire`; `folder` is the listed folder's path in the output directory.

        Raises:
            ServiceError: A field is missing or invalid.
        """
        response = ResponseObject.of(data, "the file")
        properties = response.object("properties")
        type_name = response.text("fileType", "file")
        kinds = {kind.value: kind for kind in FileKind}
        return cls(
            path="/".join(part for part in (folder.strip("/"), response.text("name")) if part),
            kind=kinds.get(type_name.lower(), FileKind.FILE),
            size_bytes=properties.number("contentLength", 0),
            modified=properties.optional_time("lastModified") or response.optional_time(_MODIFIED),
            download_url=response.text("downloadUrl") if response.has("downloadUrl") else None,
            is_link=data.get(_IS_LINK) is True,
        )


_MODIFIED = "batchaiModified"
_IS_LINK = "batchaiIsLink"
