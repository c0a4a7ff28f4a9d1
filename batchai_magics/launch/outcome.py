"""How a run ended: one class and one JSON on every engine. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from batchai_magics.launch.plan import Plan, ProcessExit, from_json_types
from batchai_magics.untrusted_files import parse_json

EXPORT = "export to "  # prefix of the note that a live export is incomplete
VERSION = 1  # of the JSON
_LAST_S = 1e11  # the latest time that is read, in the year 5138

Ranks = tuple[ProcessExit, ...]  # earliest failure first


class RunAttempt(NamedTuple):
    """One try of a run on a set of nodes. `ended` is None while it runs; times are in seconds since 1970."""

    nodes: tuple[str, ...]
    started: float
    ended: float | None = None
    reason: str = ""


class Outcome(NamedTuple):
    """How a run ended, on every engine; `ended` is when, in seconds since 1970, once that is recorded.

    `errors` are the service's error details as JSON; a stopped job has no exit code. `warnings` have the same
    form; they do not turn a success into a failure. `reason` is why it is requeued.
    """

    exit_code: int | None
    errors: tuple[dict[str, Any], ...] = ()
    ranks: Ranks = ()
    is_requeued: bool = False
    warnings: tuple[dict[str, Any], ...] = ()
    reason: str = ""
    ended: float = 0.0

    @property
    def is_success(self) -> bool:
        """Whether every process ended with exit code 0."""
        return not self.errors and not self.is_requeued

    @property
    def sentence(self) -> str:
        """The outcome as a line of the execution log."""
        if self.is_requeued:
            return "the job was stopped and queued again" + f": {self.reason}" * bool(self.reason)
        code = "none" if self.exit_code is None else self.exit_code
        reasons = "; ".join(f"{error['code']}: {error['message']}" for error in self.errors)
        warnings = "".join(f"; warning: {warning['message']}" for warning in self.warnings)
        return f"the job ended with exit code {code}" + (f" ({reasons})" if reasons else "") + warnings

    def to_json(self) -> str:
        """The JSON of the end of a run, as every engine keeps it; a requeue is not an end."""
        data = {
            "version": VERSION,
            "ended": self.ended,
            "exit_code": self.exit_code,
            "errors": self.errors,
            "warnings": self.warnings,
            "ranks": [rank._asdict() for rank in self.ranks],
        }
        text = json.dumps(data, ensure_ascii=False)
        return text.encode(errors="replace").decode()  # it may have names of files that are no text

    @classmethod
    def from_json(cls, text: str | bytes) -> Outcome | None:
        """Parses that JSON; None for anything else."""
        try:
            data = parse_json(text)
            ranks = from_json_types(tuple[ProcessExit, ...], data["ranks"], "ranks")
            exit_code = from_json_types(int | None, data["exit_code"], "exit_code")
            errors, warnings = tuple(data["errors"]), tuple(data["warnings"])
            if not all(map(_is_error, errors + warnings)):
                return None
            ended = float(data["ended"])
            times = [ended, *(rank.ended for rank in ranks if rank.ended is not None)]
            is_known = data["version"] == VERSION and all(0 <= time < _LAST_S for time in times)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return cls(exit_code, errors, ranks, warnings=warnings, ended=ended) if is_known else None

    def without_mpi(self, size: int) -> Outcome:
        """The outcome with the warning that none of its ranks joined the job's MPI."""
        text = (
            f"The {size} processes ran independently (no MPI). For PyTorch add --toolkit pytorch; "
            "if intended, --toolkit custom."
        )
        return self.warned("MpiNotUsed", text)

    def warned(self, code: str, *texts: str) -> Outcome:
        """The outcome with a warning for each text."""
        return self._replace(warnings=(*self.warnings, *(error_detail(code, text) for text in texts)))

    def with_watch_notes(self, notes: Iterable[str]) -> Outcome:
        """The outcome with a warning for each note of the program that watched the run."""
        outcome = self
        for note in notes:
            is_export = note.startswith(EXPORT)
            outcome = outcome.warned("ExportIncomplete" if is_export else "StopConditionNotChecked", note)
        return outcome

    def with_ranks(self, ends: Iterable[ProcessExit], plan: Plan) -> Outcome:
        """The outcome with the exit of each process."""
        return self._replace(ranks=exits_of(ends, plan))


def _is_error(error: dict[str, Any]) -> bool:
    """Whether JSON has the form of an `error_detail`."""
    details = error.get("details") or []
    texts = [
        error["code"],
        error["message"],
        *(detail[key] for detail in details for key in ("name", "value")),
    ]
    return isinstance(details, list) and all(isinstance(text, str) for text in texts)


def exits_of(ends: Iterable[ProcessExit], plan: Plan) -> Ranks:
    """The exits of all processes, failures first, in the order in which they happened."""
    ranks = {end.rank: end for end in ends}
    for process in plan.processes:
        ranks.setdefault(process.rank, ProcessExit(process.rank, plan.node_of(process).id))
    ends_s = {number: (end.ended or 0.0) if end.exit_code else 0.0 for number, end in ranks.items()}
    return tuple(sorted(ranks.values(), key=lambda end: (not end.exit_code, ends_s[end.rank], end.rank)))


def error_detail(code: str, message: str, details: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """The service's JSON of an error."""
    error: dict[str, Any] = {"code": code, "message": message}
    if details:
        error["details"] = details
    return error
