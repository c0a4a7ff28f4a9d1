"""The storage resource a request is about, parsed from host or path, query, headers; storage errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from batchai_magics.backends.base import CONTAINERS, STORAGE, Backend, Storage
from batchai_magics.backends.service.extension_wire import HINT, SHARE_FULL, kind_of
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import DISK_FULL, BatchAIError, ServiceError, SpecError, StorageError, quoted
from batchai_magics.models.file_names import ESCAPED
from batchai_magics.server.api_call import (
    INTERNAL_ERROR,
    ApiCall,
    ApiError,
    ApiResponse,
    decode_url_text,
    status_of,
)

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


def storage_error_response(error: BatchAIError) -> ApiResponse:
    """The response for an error, in XML."""
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
    # a hint and the class of the error are for our own client
    extensions = {**({HINT: error.hint} if error.hint else {}), **kind_of(error)}
    more = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in extensions.items())
    time = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f0Z")
    text = escape(f"{error.message}\nRequestId:-\nTime:{time}")
    body = (
        f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{text}</Message>'
        f"{more}</Error>"
    )
    return ApiResponse(status, body=_BOM + body.encode(), headers=headers)


def without_extensions(response: ApiResponse) -> ApiResponse:
    """The response without the error elements that only our own client reads."""
    if response.body is None or "x-ms-error-code" not in response.headers:
        return response
    return replace(response, body=_EXTENSION_ELEMENT.sub(b"", response.body))


# `account.file.core.windows.net` and its like; `account.file.localhost` for tests and browsers.
_HOST = re.compile(r"(?P<account>[a-z0-9]{3,24})\.(?P<service>file|blob)\.[\w.-]+", re.IGNORECASE)
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")


OWN_ACCOUNT = DEFAULT_ACCOUNT  # always exists; its keys are the server's
OUTPUTS = "batchai-outputs"  # its virtual share with job output, read-only

FILE_SIZE = "x-ms-content-length"  # the header of a file's size
_MAX_FILE_BYTES = 4 << 40  # 4 TiB, as in Azure
_MAX_DIGITS = 18  # of a size in a header
_END = 10**_MAX_DIGITS + 1  # beyond every range that a header can name
_MAX_PATH_LENGTH, _MAX_DEPTH = 2048, 250  # as in Azure Files
_INVALID = re.compile("[\0\ud800-\udfff]")  # in paths: NUL, and the lone surrogates that JSON may contain


@dataclass(frozen=True)
class StorageResource:
    """What a storage request addresses: `service` is `file` or `blob`, `path` is empty for a share."""

    account: str
    service: str
    share: str = ""
    path: str = ""

    @property
    def key(self) -> str:
        """The key of the resource; keys of what is inside start with it and a `/`."""
        return "/".join(filter(None, (self.service, self.account, self.share, self.path)))

    @property
    def kind(self) -> str:
        """The resource type in account SAS: service, container, object."""
        return "o" if self.path else "c" if self.share else "s"

    @property
    def backend_share(self) -> str:
        """The backend's name of the share or container."""
        return self.share if self.account == OWN_ACCOUNT else f"{self.account}/{self.share}"


# Query values and header prefixes that only one service uses.
_QUERIES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "blob": {
        "restype": ("container",),
        "comp": ("block", "blocklist", "appendblock", "page", "pagelist"),
        "sr": ("b", "c"),
        "ss": ("b",),
    },
    "file": {
        "restype": ("share", "directory"),
        "comp": ("range", "rangelist", "rename"),
        "sr": ("f", "s"),
        "ss": ("f",),
    },
}
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "blob": ("x-ms-blob-",),
    "file": ("x-ms-type", "x-ms-write", "x-ms-content-", "x-ms-file-"),
}


@dataclass(frozen=True)
class ByteSpan:
    """A byte range; `end` is exclusive, and beyond every file for the rest of one."""

    start: int
    end: int


def parse_resource(call: ApiCall, host: str) -> StorageResource:
    """The resource of a request: `account.file.…/share/path` by host, or `/account/share/path` by path.

    In the second form, the service follows from the query and the headers alone.
    """
    match = _HOST.fullmatch(host.partition(":")[0])
    service = match["service"].lower() if match else _service_of(call)
    return _resource_at(host, decode_url_text(call.path, "The path of the request"), service)


def resource_of_url(url: str, service: str) -> StorageResource:
    """The resource of a file's URL, in either form."""
    parts = urlsplit(url)
    return _resource_at(parts.netloc, decode_url_text(parts.path, "The address of the source"), service)


def _resource_at(host: str, path: str, service: str) -> StorageResource:
    match, path = _HOST.fullmatch(host.partition(":")[0]), path.lstrip("/")
    account, share_path = (match["account"].lower(), path) if match else path.partition("/")[::2]
    share, _, inner = share_path.partition("/")
    return StorageResource(account, service, share, check_path(inner))


def is_storage_host(host: str) -> bool:
    """Whether a host name belongs to a storage account."""
    return _HOST.fullmatch(host.partition(":")[0]) is not None


def parse_span(call: ApiCall) -> ByteSpan | None:
    """The requested range, if any."""
    text = call.headers.get("x-ms-range") or call.headers.get("range", "")
    match = _RANGE.fullmatch(text)
    if not match:
        return None
    start, last = int(match[1]), match[2]
    if last and int(last) < start:
        return None
    return ByteSpan(start, int(last) + 1 if last else _END)


def written_span(call: ApiCall) -> ByteSpan:
    """The range that a request writes, with its first and its last byte; StorageApiError (400) without."""
    span = parse_span(call)
    if span is None or span.end == _END:
        raise StorageApiError(400, "MissingRequiredHeader", "The header x-ms-range must be bytes=FIRST-LAST.")
    return span


def check_path(path: str) -> str:
    """A normalized path on a share.

    Raises StorageError for a path that escapes the share, or that no file can have.
    """
    if _INVALID.search(path):
        raise StorageError(f"{path!r} is not a valid path: it is not valid UTF-8, or contains NUL")
    if len(path) > _MAX_PATH_LENGTH or path.count("/") > _MAX_DEPTH:
        raise StorageError(
            f"{quoted(path)} is not a valid path: it is too long, or more than {_MAX_DEPTH} folders deep"
        )
    if ".." in path.split("/") or "\\" in ESCAPED.sub("", path):
        raise StorageError(f"{path!r} is outside the share")
    return path.strip("/")


def file_size_header(call: ApiCall) -> int:
    """The size of a file that is to be created or resized."""
    text = call.headers.get(FILE_SIZE, "")
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) <= _MAX_FILE_BYTES:
        return int(text)
    code = "InvalidHeaderValue" if text else "MissingRequiredHeader"
    message = f"The header {FILE_SIZE} must be a number from 0 to {_MAX_FILE_BYTES}, not {text!r}."
    raise StorageApiError(400, code, message)


def _service_of(call: ApiCall) -> str:
    """The service that the query, or else the headers, imply; empty if neither does.

    The user agent does not help: the one of @azure/storage-file-share for JavaScript contains `blob`.
    """
    for service, parameters in _QUERIES.items():
        if any(call.query.get(name, "").lower() in values for name, values in parameters.items()):
            return service
    for service, prefixes in _HEADERS.items():
        if any(header.startswith(prefixes) for header in call.headers):
            return service
    return ""


def storage_of(backend: Backend, service: str) -> Storage:
    """The backend's shares, or containers for the service `blob`; CapabilityError if it has none."""
    return (CONTAINERS if service == "blob" else STORAGE).of(backend)


def resource_of_share(service: str, share: str, path: str) -> StorageResource:
    """The resource at a path on a share or container, by the backend's name of it."""
    account, _, name = share.rpartition("/")
    return StorageResource(account or OWN_ACCOUNT, service, name, path)
