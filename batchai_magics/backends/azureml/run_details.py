"""What is known of a run beside its job: state, times, errors, logs in the run history; its exits. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.error_details import ErrorDetail, NameValue
from batchai_magics.models.job_execution import Attempt, RankExit
from batchai_magics.models.response_object import ResponseObject
from batchai_magics.models.states import CONDITION_MET

WARNING = "RunWarning"  # the code of a warning
FINAL_STATUSES = frozenset({"completed", "failed", "canceled"})
_EXIT_CODE = re.compile(r"exit(?:ed)?(?: with)?(?: status)?(?: code)?:? (-?\d+)", re.IGNORECASE)
_MAX_DEPTH = 8  # of inner errors


@dataclass(frozen=True)
class RunDetails:
    """What run history knows of a run.

    Attributes:
        status: Its status, as the service writes it: `Running`, `Completed`.
        log_files: The name of each log file → its signed address.
        started: When it started, in UTC.
        ended: When it ended, in UTC.
        errors: Why it failed.
        warnings: What the service warns of; no reason for a failure.
        node_count: The number of its nodes; 0 if unknown.
        properties: Its properties.
    """

    status: str
    log_files: Mapping[str, str] = field(default_factory=dict, repr=False)  # signed addresses
    started: datetime | None = None
    ended: datetime | None = None
    errors: tuple[ErrorDetail, ...] = ()
    warnings: tuple[ErrorDetail, ...] = ()
    node_count: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> RunDetails:
        """Reads the JSON of run history.

        Raises:
            ServiceError: A field is missing or invalid.
        """
        run = ResponseObject.of(data, "the run")
        error = run.object("error").object("error")
        return cls(
            status=run.text("status", "NotStarted"),
            log_files={name: str(url) for name, url in run.object("logFiles").fields.items()},
            started=run.optional_time("startTimeUtc"),
            ended=run.optional_time("endTimeUtc"),
            errors=(_run_error(error),) if error.fields else (),
            warnings=tuple(_warnings(run)),
            node_count=run.object("computeRequest").number("nodeCount", 0),
            properties={name: str(text) for name, text in run.object("properties").fields.items()},
        )

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return self.status.lower() in FINAL_STATUSES

    @property
    def exit_code(self) -> int | None:
        """The exit code of the first process that failed, as far as the error text says it."""
        matches = (_EXIT_CODE.search(error.message) for error in self.errors)
        match = next(filter(None, matches), None)
        return int(match[1]) if match else None


def _run_error(error: ResponseObject) -> ErrorDetail:
    """An error of a run: the most specific code, and the text without its JSON wrapping."""
    codes = [part.text("code", "") for part in _chain(error)]
    code = next((code for code in reversed(codes) if code), "JobFailed")
    details = tuple(_details(error))
    return ErrorDetail(code=code, message=_unwrapped(error.text("message", code)), details=details or None)


def _chain(error: ResponseObject) -> Iterator[ResponseObject]:
    """An error and the errors inside it."""
    for _ in range(_MAX_DEPTH):
        if not error.fields:
            return
        yield error
        error = error.object("innerError")


def _details(error: ResponseObject) -> Iterator[NameValue]:
    for detail in error.items("details"):
        part = ResponseObject.of(detail, "the detail")
        yield NameValue(name=part.text("code", "detail"), value=_unwrapped(part.text("message", "")))
    if error.has("referenceCode"):
        yield NameValue(name="referenceCode", value=error.text("referenceCode"))


def _warnings(run: ResponseObject) -> Iterator[ErrorDetail]:
    for warning in run.items("warnings"):
        part = ResponseObject.of(warning, "the warning")
        message = _unwrapped(part.text("message", ""))
        if message:
            source = part.text("source", "")
            yield ErrorDetail(code=WARNING, message=f"{source}: {message}" if source else message)


def _unwrapped(message: str) -> str:
    """A message without the JSON in which the service wraps some: `{"NonCompliant": "…"}`."""
    try:
        wrapped = json.loads(message)
    except ValueError:
        return message.strip()
    if not isinstance(wrapped, Mapping):
        return message.strip()
    return "\n".join(str(text).strip() for text in wrapped.values() if text)


NO_DETAILS = RunDetails("NotStarted")


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run beside its job.

    Attributes:
        details: Its times, errors and logs in the run history.
        ranks: The exit of each process, first failure first; empty where unknown.
        attempts: Its attempts, if the service started it again; else empty.
        end: Why our program on a node ended it: a stop condition, its time limit, a failed preparation.
        unchecked: What its stop conditions have missed.
    """

    details: RunDetails = NO_DETAILS
    ranks: tuple[RankExit, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    end: Outcome | None = None
    unchecked: tuple[ErrorDetail, ...] = ()

    @property
    def exit_code(self) -> int | None:
        """The exit code of the first process that failed, else 0; None where unknown, or ended by us."""
        if self.end:
            return self.end.exit_code
        codes = [rank.exit_code for rank in self.ranks if rank.exit_code is not None]
        if codes:
            return next((code for code in codes if code), 0)
        return self.details.exit_code

    @property
    def warnings(self) -> tuple[ErrorDetail, ...]:
        """What is no reason for a failure; of stop conditions, unless one was met."""
        is_met = self.end is not None and any(each["code"] == CONDITION_MET for each in self.end.errors)
        return (*(() if is_met else self.unchecked), *self.details.warnings)

    @property
    def errors(self) -> tuple[ErrorDetail, ...]:
        """Why it failed: what our programs recorded, and what the service says."""
        if self.end:  # the service only says that a process of ours has failed
            return tuple(ErrorDetail(code=each["code"], message=each["message"]) for each in self.end.errors)
        own = [_error_of(rank) for rank in self.ranks[:1] if rank.exit_code]
        return (*own, *self.details.errors)


def _error_of(rank: RankExit) -> ErrorDetail:
    """The error of a job whose first failure is this one."""
    details = {"failedRank": rank.rank, "failedNode": rank.node, "exitCode": rank.exit_code}
    return ErrorDetail(
        code="JobFailed",
        message="Job failed with non-zero exit code",
        details=tuple(NameValue(name=name, value=str(value)) for name, value in details.items()),
    )
