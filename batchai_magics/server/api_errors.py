"""Errors in Azure's format: a status, and `{"error": {"code", "message"}}`."""

from __future__ import annotations

from typing import Any

from batchai_magics.backends.service.extension_wire import error_to_wire
from batchai_magics.errors import (
    DISK_FULL,
    BatchAIError,
    CapabilityError,
    ConflictError,
    NotFoundError,
    ServiceError,
    StorageError,
)

_STATUS = {
    NotFoundError: 404,
    ConflictError: 409,
    CapabilityError: 400,
    StorageError: 507,
}
_BY_CODE = {"StoreUnavailable": 503, "ShareUnavailable": 503, "HomeNotPrivate": 503, "HomeNotOwned": 503}

INTERNAL_ERROR = "InternalServerError"  # the code of unexpected exceptions


class ApiError(ServiceError):
    """An error detected by the server itself, with its HTTP status."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message, code=code)
        self.status = status


def disk_full_error() -> StorageError:
    """The error for a full disk under the server's own files."""
    hint = "Free some space there and try again."
    return StorageError("the disk that the server keeps its files on is full", code=DISK_FULL, hint=hint)


def status_of(error: BatchAIError) -> int:
    """The HTTP status of an error; never 500, which is for unexpected exceptions."""
    if isinstance(error, ApiError):
        return error.status
    code = _code(error)
    if isinstance(error, StorageError) and not code:  # a path that escapes its folder
        return 400
    by_kind = (status for kind, status in _STATUS.items() if isinstance(error, kind))
    return _BY_CODE.get(code) or next(by_kind, 400)


def error_body(error: BatchAIError) -> dict[str, Any]:
    """The JSON of an error."""
    return {"error": error_to_wire(error)}


def _code(error: BatchAIError) -> str:
    return error.code if isinstance(error, ServiceError) else ""
