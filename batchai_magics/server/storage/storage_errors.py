"""Errors of storage: a status, a code in a header, and an XML body."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timezone
from xml.sax.saxutils import escape

from batchai_magics.backends.service.extension_wire import HINT, SHARE_FULL, kind_of
from batchai_magics.errors import DISK_FULL, BatchAIError, ServiceError, SpecError, StorageError
from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.api_errors import INTERNAL_ERROR, ApiError, status_of

# Backend errors as Azure Storage reports them; its clients keep retrying 5xx.
_AZURE_ERRORS = {
    "StorageAccountNotFound": (404, "ResourceNotFound"),
    DISK_FULL: (413, SHARE_FULL),
    INTERNAL_ERROR: (500, "InternalError"),
}
_EXTENSION_ELEMENT = re.compile(rb"<(batchai\w+)>[^<]*</\1>")
_BOM = b"\xef\xbb\xbf"  # as in Azure's responses


class StorageApiError(ApiError):
    """A storage error detected by the server, with its HTTP status and code."""


def authentication_failed(detail: str) -> StorageApiError:
    """The error for a request without a valid signature."""
    text = (
        "Server failed to authenticate the request. Make sure the value of Authorization header is formed"
        f" correctly including the signature. {detail}"
    )
    return StorageApiError(403, "AuthenticationFailed", text)


def storage_error_response(error: BatchAIError, request_id: str) -> ApiResponse:
    """The response for an error."""
    status, code = status_of(error), error.code if isinstance(error, ServiceError) else ""
    if isinstance(error, SpecError) or (isinstance(error, StorageError) and not code):
        code = "InvalidResourceName"
    status, code = _AZURE_ERRORS.get(code, (status, code))
    code = code or "InvalidInput"
    headers = {"x-ms-error-code": code, "Content-Type": "application/xml"}
    if status == 503:
        headers["Retry-After"] = "1"
    if status == 304:  # must not have a body
        return ApiResponse(status, body=b"", headers={"x-ms-error-code": code})
    return ApiResponse(status, body=error_xml(code, error, request_id), headers=headers)


def without_extensions(answer: ApiResponse) -> ApiResponse:
    """The response without the error elements that only our own client reads."""
    if answer.body is None or "x-ms-error-code" not in answer.headers:
        return answer
    return replace(answer, body=_EXTENSION_ELEMENT.sub(b"", answer.body))


def error_xml(code: str, error: BatchAIError, request_id: str) -> bytes:
    """The XML of an error, with a hint and error class for our own client."""
    extensions = {**({HINT: error.hint} if error.hint else {}), **kind_of(error)}
    more = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in extensions.items())
    time = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f0Z")
    text = escape(f"{error.message}\nRequestId:{request_id}\nTime:{time}")
    body = (
        f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{text}</Message>'
        f"{more}</Error>"
    )
    return _BOM + body.encode()
