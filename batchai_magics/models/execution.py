"""How a job ran: its times, its exit code, why it failed, what became of each process, what it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from typing_extensions import Self

from batchai_magics.models.answer import Answer
from batchai_magics.models.times import wire_time
from batchai_magics.models.wire import WireModel


class NameValue(WireModel):
    """A detail of an error."""

    name: str
    value: str


class ErrorDetail(WireModel):
    """Why a job or a node failed: a fixed code, a sentence, details."""

    code: str
    message: str
    details: tuple[NameValue, ...] | None = None

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Self:
        """Reads the service's JSON; what else it says is left out."""
        return Answer.of(data, "the error").model(cls)


@dataclass(frozen=True)
class ExecutionInfo:
    """When a job ran, and how it ended. A terminated job has no exit code."""

    started: datetime
    ended: datetime | None = None
    exit_code: int | None = None
    errors: tuple[ErrorDetail, ...] = ()

    def to_wire(self) -> dict[str, Any]:
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
        """Reads the service's JSON."""
        info = Answer.of(data, "executionInfo")
        return cls(
            started=info.time("startTime"),
            ended=info.optional_time("endTime"),
            exit_code=info.optional_number("exitCode"),
            errors=tuple(ErrorDetail.from_wire(error) for error in info.items("errors")),
        )


@dataclass(frozen=True)
class RankExit:
    """How one process ended: its rank, its node's name, its exit code (128 + signal if killed).

    `exit_code` is None for a process that was ended together with the job, not by itself.
    """

    rank: int
    node: str
    exit_code: int | None
    ended: datetime | None = None

    def to_wire(self) -> dict[str, Any]:
        """JSON in the words of the service, which itself said nothing of single processes."""
        data: dict[str, Any] = {"rank": self.rank, "nodeId": self.node}
        if self.exit_code is not None:
            data["exitCode"] = self.exit_code
        if self.ended:
            data["endTime"] = wire_time(self.ended)
        return data

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> RankExit:
        """Reads what `to_wire` gives."""
        answer = Answer.of(data, "the rank")
        return cls(
            rank=answer.number("rank"),
            node=answer.text("nodeId"),
            exit_code=answer.optional_number("exitCode"),
            ended=answer.optional_time("endTime"),
        )


@dataclass(frozen=True)
class OutputFile:
    """A file or folder that a job wrote; `path` is relative to its output directory, with `/`."""

    path: str
    is_directory: bool
    size_bytes: int
    modified: datetime | None = None
    download_url: str | None = None  # where a browser or curl gets it; None for a folder

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON, which has of a folder nothing but its name."""
        if self.is_directory:
            return {"name": self.name, "fileType": "directory"}
        modified = {"lastModified": wire_time(self.modified)} if self.modified else {}
        address = {"downloadUrl": self.download_url} if self.download_url else {}
        properties = {**modified, "contentLength": self.size_bytes}
        return {"name": self.name, "fileType": "file", **address, "properties": properties}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any], *, folder: str = "") -> OutputFile:
        """Reads the service's JSON; `folder` is what was listed, relative to the output directory."""
        answer = Answer.of(data, "the file")
        properties = answer.object("properties")
        return cls(
            path="/".join(part for part in (folder.strip("/"), answer.text("name")) if part),
            is_directory=answer.text("fileType", "file").lower() == "directory",
            size_bytes=properties.number("contentLength", 0),
            modified=properties.optional_time("lastModified"),
            download_url=answer.text("downloadUrl") if answer.has("downloadUrl") else None,
        )
