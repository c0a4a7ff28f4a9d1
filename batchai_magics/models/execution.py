"""How a job ran: its times, its exit code, why it failed, and what became of each of its processes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

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


@dataclass(frozen=True)
class RankExit:
    """How one process ended: its rank, its node's name, its exit code (128 + signal if killed).

    `exit_code` is None for a process that was ended together with the job, not by itself.
    """

    rank: int
    node: str
    exit_code: int | None
    ended: datetime | None = None
