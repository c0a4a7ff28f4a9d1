"""What is known of a run beside its job: state, times, errors and logs in the run history. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from batchai_magics.launch.outcome import error_detail
from batchai_magics.models.response_object import ResponseObject

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
        errors: Why it failed, as JSON of error details.
        warnings: What the service warns of, in the same form; no reason for a failure.
    """

    status: str
    log_files: Mapping[str, str] = field(default_factory=dict, repr=False)  # signed addresses
    started: datetime | None = None
    ended: datetime | None = None
    errors: tuple[dict[str, Any], ...] = ()
    warnings: tuple[dict[str, Any], ...] = ()

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
        )

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return self.status.lower() in FINAL_STATUSES

    @property
    def exit_code(self) -> int | None:
        """The exit code of the first process that failed, as far as the error text says it."""
        matches = (_EXIT_CODE.search(error["message"]) for error in self.errors)
        match = next(filter(None, matches), None)
        return int(match[1]) if match else None


def _run_error(error: ResponseObject) -> dict[str, Any]:
    """An error of a run: the most specific code, and the text without its JSON wrapping."""
    code, inner = "JobFailed", error
    for _ in range(_MAX_DEPTH):
        code = inner.text("code", "") or code
        inner = inner.object("innerError")
    details = []
    for detail in error.items("details"):
        part = ResponseObject.of(detail, "the detail")
        details.append({"name": part.text("code", "detail"), "value": _unwrapped(part.text("message", ""))})
    if error.has("referenceCode"):
        details.append({"name": "referenceCode", "value": error.text("referenceCode")})
    return error_detail(code, _unwrapped(error.text("message", code)), details)


def _warnings(run: ResponseObject) -> Iterator[dict[str, Any]]:
    for warning in run.items("warnings"):
        part = ResponseObject.of(warning, "the warning")
        message = _unwrapped(part.text("message", ""))
        if message:
            source = part.text("source", "")
            yield error_detail(WARNING, f"{source}: {message}" if source else message)


def _unwrapped(message: str) -> str:
    """A message without the JSON in which the service wraps some: `{"NonCompliant": "…"}`."""
    try:
        wrapped = json.loads(message)
    except ValueError:
        return message.strip()
    if not isinstance(wrapped, Mapping):
        return message.strip()
    return "\n".join(str(text).strip() for text in wrapped.values() if text)
