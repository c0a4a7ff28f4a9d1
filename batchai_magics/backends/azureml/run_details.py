"""The details of a run in the run history: state, times, errors and logs. Pure.

A command without a distribution writes `user_logs/std_log.txt`; one with MPI or PyTorch a file for each
process (`std_log_process_07.txt`, padded to the width of their count), one with TensorFlow a file for each
task (`std_log_node_00_ps.txt`). Retries write theirs to `user_logs/retry_001/`. Old runs have
`azureml-logs/70_driver_log_0.txt`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from batchai_magics.launch.outcome import error_detail
from batchai_magics.models.job_execution import OUT
from batchai_magics.models.response_object import ResponseObject

WARNING = "RunWarning"  # the code of a warning
FINAL_STATUSES = frozenset({"completed", "failed", "canceled"})
_EXIT_CODE = re.compile(r"exit(?:ed)?(?: with)?(?: status)?(?: code)?:? (-?\d+)", re.IGNORECASE)
_MAX_DEPTH = 8  # of inner errors


@dataclass(frozen=True)
class RunDetails:
    """The details of a run in the run history. Times are in UTC."""

    status: str  # as the service writes it: `Running`, `Completed`
    log_files: Mapping[str, str] = field(default_factory=dict, repr=False)  # name → signed address
    started: datetime | None = None
    ended: datetime | None = None
    errors: tuple[dict[str, Any], ...] = ()  # why it failed, as JSON of error details
    warnings: tuple[dict[str, Any], ...] = ()  # in the same form; not reasons for a failure

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> RunDetails:
        """Reads the JSON of run history; raises ServiceError if a field is missing or invalid."""
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


_FOLDER = r"user_logs/(?:retry_(?P<retry>\d+)/)?"
_NAME = re.compile(
    rf"(?:{_FOLDER}std_log(?:_process_(?P<process>\d+)|_node_(?P<node>\d+)_(?P<role>ps|worker|master))?"
    r"|azureml-logs/70_driver_log(?:_(?P<driver>\d+))?)\.txt"
)
# mpirun's own output, and the files that a job's commands wrote into the directory of its logs.
_OTHER = re.compile(rf"{_FOLDER}mpi_log\.txt|logs/batchai/stdouterr/[^/]+")


@dataclass(frozen=True)
class RankLog:
    """A log file of one process in one attempt."""

    name: str  # the service's name
    attempt: int  # the number of retries before it
    rank: int  # the rank of the process
    # what distinguishes its own log in the job's folder, `wk-0`, `3`; empty for a single process
    label: str = ""

    @property
    def path(self) -> str:
        """Its path in the directory `stdouterr`: Batch AI's name of the process's own log."""
        return f"stdout-{self.label}.txt" if self.label else self.tailed_path

    @property
    def tailed_path(self) -> str:
        """The path of the log that its lines are part of: the common one, unless no process wrote it."""
        return self.name.rpartition("/")[2] if _OTHER.fullmatch(self.name) else OUT


def parse_log_name(name: str, worker_count: int = 1) -> RankLog | None:
    """The process of a log file by its name; None for a file of the service.

    `worker_count` counts TensorFlow's workers; their ranks precede the parameter servers'.
    """
    match = _NAME.fullmatch(name)
    if not match:
        return None
    attempt = _attempt(match)
    if match["node"] is None:
        index = match["process"] or match["driver"]
        return RankLog(name, attempt, int(index or 0), str(int(index)) if index else "")
    index = int(match["node"])
    if match["role"] == "ps":
        return RankLog(name, attempt, worker_count + index, f"ps-{index}")
    return RankLog(name, attempt, index, f"wk-{index}")


def _attempt(match: re.Match[str]) -> int:
    return int(match["retry"] or 0)


def rank_logs(names: Iterable[str]) -> list[RankLog]:
    """The logs of processes among these files, by attempt and rank; old names only if there are no others.

    TensorFlow has as many workers as have logs.
    """
    known = list(names)
    workers = sum("_worker" in name and "/retry_" not in name for name in known)
    logs = [log for name in known if (log := parse_log_name(name, workers))]
    current = [log for log in logs if log.name.startswith("user_logs/")]
    return sorted(current or logs, key=lambda log: (log.attempt, log.rank))


def other_logs(names: Iterable[str]) -> list[RankLog]:
    """The logs that belong to no process, such as mpirun's, in the order of the attempts."""
    logs = [RankLog(name, _attempt(match), 0) for name in names if (match := _OTHER.fullmatch(name))]
    return sorted(logs, key=lambda log: (log.attempt, log.name))


def attempt_count(names: Iterable[str]) -> int:
    """How often the service has started the job, by its log files; at least once."""
    return 1 + max((log.attempt for log in rank_logs(names)), default=0)
