"""Errors as JSON in both directions: in Azure's format, with our additions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from batchai_magics import errors
from batchai_magics.errors import BatchAIError, Problem, ServiceError, SpecError

# Our additions: the hint, our error class, the description with problems, and the fix of each problem.
HINT: Final = "batchaiHint"
KIND: Final = "batchaiKind"
WHAT: Final = "batchaiWhat"
FIX: Final = "batchaiFix"
SHARE_FULL = "ShareSizeLimitReached"  # Azure Files' code for a full disk
_INVALID = "InvalidRequest"  # the code for errors without one


class _ErrorAdditions(TypedDict, total=False):
    batchaiHint: str
    batchaiKind: str
    batchaiWhat: str
    details: list[dict[str, str]]


class ErrorWire(_ErrorAdditions):
    """The JSON of an error: Azure's code and message, and our additions where they have a value."""

    code: str
    message: str


def to_wire(error: BatchAIError) -> ErrorWire:
    """The JSON of an error; classes that `errors` does not define are not named."""
    code = error.code if isinstance(error, ServiceError) else ""
    wire: ErrorWire = {"code": code or _INVALID, "message": error.message}
    if error.hint:
        wire[HINT] = error.hint
    if isinstance(error, SpecError):
        wire["details"], wire[WHAT] = [_detail(problem) for problem in error.problems], error.what
    if kind := kind_of(error):
        wire[KIND] = kind[KIND]
    return wire


def kind_of(error: BatchAIError) -> dict[str, str]:
    """The class that our own client is to raise, if it knows it."""
    name = type(error).__name__
    return {KIND: name} if hasattr(errors, name) else {}


def from_wire(data: Mapping[str, Any]) -> BatchAIError | None:
    """The error sent by our own server; None for any other error."""
    kind = _class_of(data)
    if kind is None:
        return None
    message, hint = str(data.get("message", "")), str(data.get(HINT, ""))
    if issubclass(kind, SpecError):
        details = data.get("details") or []
        return SpecError([_problem(detail) for detail in details], what=str(data.get(WHAT, "")))
    if issubclass(kind, ServiceError):
        code = str(data.get("code", ""))
        return kind(message, code="" if code == _INVALID else code, hint=hint)
    return errors.UsageError(message, hint=hint) if issubclass(kind, errors.UsageError) else None


def _class_of(data: Mapping[str, Any]) -> type[BatchAIError] | None:
    kind = getattr(errors, str(data.get(KIND, "")), None)
    return kind if isinstance(kind, type) and issubclass(kind, BatchAIError) else None


def _detail(problem: Problem) -> dict[str, str]:
    fix = {FIX: problem.fix} if problem.fix else {}
    return {"code": "InvalidProperty", "target": problem.path, "message": problem.message, **fix}


def _problem(detail: Mapping[str, Any]) -> Problem:
    return Problem(str(detail.get("target", "")), str(detail.get("message", "")), str(detail.get(FIX, "")))
