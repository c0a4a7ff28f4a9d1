"""Headers, server info and errors of our own server's additions, as our own client reads them."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from batchai_magics import errors
from batchai_magics.backends.base import FACETS, Backend, Capabilities, Pace
from batchai_magics.errors import BatchAIError, Problem, ServiceError, SpecError

# Long polling: in a request, the state that its sender knows; in the response, the next one to send.
SINCE, STATE = "x-batchai-since", "x-batchai-state"

# RFC 7240: how long to wait for changes; and the created resource in place of a long-running operation.
PREFER = "Prefer"
REPRESENTATION = "return=representation"

# Sent with all requests of our own client. Responses may exceed the published API; lists of storage are
# complete, and deletion is recursive.
OWN_CLIENT = "x-batchai-client"
SERVICE = "x-batchai-service"  # `blob`: operate on containers as if they were shares
WANT_DIGEST = "x-batchai-want-digest"
DIGEST = "x-batchai-sha256"  # of a file, if requested

AT_ONCE = "x-batchai-at-once"  # of a termination: kill the job, if it was asked to end before

# Chunked uploads: files are published when they are complete; interrupted uploads are resumed.
UPLOAD = "x-batchai-upload"
RECEIVED = "x-batchai-received"  # how many bytes the server has


class UploadStep(enum.Enum):
    """The operation of a request with the header UPLOAD."""

    BEGIN = "begin"  # with the size of the file
    WRITE = "write"  # with the bytes from an offset on
    FINISH = "finish"  # with the digest of the file


def prefer_wait(seconds: float) -> str:
    """The Prefer header of a long-polling request."""
    return f"wait={max(1, round(seconds))}"


@dataclass(frozen=True)
class ServerInfo:
    """What a server supports: the capabilities and facets of its backend."""

    capabilities: Capabilities
    facets: Collection[str]


def info_to_wire(backend: Backend, pace: Pace) -> dict[str, Any]:
    """The JSON of what a backend supports; `pace` is the server's own rate limit."""
    known = {**asdict(backend.capabilities), "pace": asdict(pace)}
    facets = [facet.attribute for facet in FACETS if getattr(backend, facet.attribute)]
    return {"capabilities": known, "facets": facets}


def info_from_wire(data: Mapping[str, Any], name: str) -> ServerInfo | None:
    """Parses the result of `info_to_wire`, for a backend called `name`; None for anything else.

    Unknown entries of a newer server are ignored; entries missing from an older one have defaults.
    """
    entries, facets = data.get("capabilities"), data.get("facets")
    if not (isinstance(entries, Mapping) and isinstance(facets, list)):
        return None
    flags = {field.name for field in fields(Capabilities)} - {"name", "pace", "backend_options"}
    known = {flag: bool(entries[flag]) for flag in flags if flag in entries}
    options = entries.get("backend_options")
    names = tuple(map(str, options)) if isinstance(options, list) else ()
    paces, times = entries.get("pace"), {field.name for field in fields(Pace)}
    values = paces.items() if isinstance(paces, Mapping) else ()
    pace = Pace(**{field: float(value) for field, value in values if field in times})
    capabilities = Capabilities(name=name, pace=pace, backend_options=names, **known)
    return ServerInfo(capabilities, tuple(map(str, facets)))


# Our additions: the hint, our error class, the description with problems, and the fix of each problem.
HINT: Final = "batchaiHint"
KIND: Final = "batchaiKind"
WHAT: Final = "batchaiWhat"
FIX: Final = "batchaiFix"
SHARE_FULL = "ShareSizeLimitReached"  # Azure Files' code for a full disk
_INVALID = "InvalidRequest"  # the code for errors without one


def error_to_wire(error: BatchAIError) -> dict[str, Any]:
    """The JSON of an error: Azure's code and message, and our additions where they have a value."""
    code = error.code if isinstance(error, ServiceError) else ""
    wire: dict[str, Any] = {"code": code or _INVALID, "message": error.message}
    if error.hint:
        wire[HINT] = error.hint
    if isinstance(error, SpecError):
        wire["details"], wire[WHAT] = [], error.what
        for problem in error.problems:
            detail = {"code": "InvalidProperty", "target": problem.path, "message": problem.message}
            wire["details"].append({**detail, FIX: problem.fix} if problem.fix else detail)
    if kind := kind_of(error):
        wire[KIND] = kind[KIND]
    return wire


def kind_of(error: BatchAIError) -> dict[str, str]:
    """The class that our own client is to raise, if it knows it."""
    name = type(error).__name__
    return {KIND: name} if hasattr(errors, name) else {}


def error_from_wire(data: Mapping[str, Any]) -> BatchAIError | None:
    """The error sent by our own server; None for any other error."""
    kind = getattr(errors, str(data.get(KIND, "")), None)
    if not (isinstance(kind, type) and issubclass(kind, BatchAIError)):
        return None
    message, hint = str(data.get("message", "")), str(data.get(HINT, ""))
    if issubclass(kind, SpecError):
        fields = ("target", "message", FIX)
        details = ([str(detail.get(name, "")) for name in fields] for detail in data.get("details") or ())
        return SpecError([Problem(*texts) for texts in details], what=str(data.get(WHAT, "")))
    if issubclass(kind, ServiceError):
        code = str(data.get("code", ""))
        return kind(message, code="" if code == _INVALID else code, hint=hint)
    return errors.UsageError(message, hint=hint) if issubclass(kind, errors.UsageError) else None
