"""What request handlers receive, return and raise, independent of HTTP: `ApiCall`, `ApiResponse`, errors."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any, BinaryIO
from urllib.parse import unquote_to_bytes

from batchai_magics.backends.service.extension_wire import PREFER, REPRESENTATION, error_to_wire
from batchai_magics.errors import (
    DISK_FULL,
    BatchAIError,
    CapabilityError,
    ConflictError,
    NotFoundError,
    ServiceError,
    StorageError,
)
from batchai_magics.models.documents.spec_problems import surrogates_in
from batchai_magics.models.resource_ids import Kind, ResourceId, check_group_name, check_name

_STATUS_BY_KIND = {
    NotFoundError: 404,
    ConflictError: 409,
    CapabilityError: 400,
    StorageError: 507,
}
_STATUS_BY_CODE = {
    "StoreUnavailable": 503,
    "ShareUnavailable": 503,
    "HomeNotPrivate": 503,
    "HomeNotOwned": 503,
}

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
    code = error.code if isinstance(error, ServiceError) else ""
    if isinstance(error, StorageError) and not code:  # a path that escapes its folder
        return 400
    by_kind = (status for kind, status in _STATUS_BY_KIND.items() if isinstance(error, kind))
    return _STATUS_BY_CODE.get(code) or next(by_kind, 400)


def error_body(error: BatchAIError) -> dict[str, Any]:
    """The JSON of an error."""
    return {"error": error_to_wire(error)}


@dataclass(frozen=True)
class User:
    """The authenticated caller; an administrator may change everything, others only what they own."""

    name: str
    is_admin: bool = False


@dataclass(frozen=True)
class ApiCall:
    """One request. Names of headers and query parameters are in lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    origin: str = "http://127.0.0.1"  # scheme, host and port, as the client spells them
    parts: Mapping[str, str] = field(default_factory=dict)  # path parameters
    user: User = User("admin", is_admin=True)
    spool: BinaryIO | None = field(default=None, repr=False)  # a body too large for `body`

    def body_chunks(self, size: int) -> Iterator[bytes]:
        """The body in chunks of at most `size` bytes, from memory or its spool file."""
        stream: BinaryIO = self.spool or BytesIO(self.body)
        while piece := stream.read(size):
            yield piece

    def json(self) -> Mapping[str, Any]:
        """The body as a JSON object; an empty body counts as `{}`.

        Raises ApiError (400) for anything else, and for text that cannot be encoded as UTF-8.
        """
        try:
            data = json.loads(self.body or b"{}", parse_constant=_reject_constant)
            problem = next(surrogates_in(data, ""), None)
        except (ValueError, RecursionError) as error:
            raise invalid_content(str(error)) from None
        if problem:
            raise invalid_content(str(problem))
        if not isinstance(data, Mapping):
            raise invalid_content(f"expected a JSON object, got {type(data).__name__}")
        return data

    def id(self, kind: Kind) -> ResourceId:
        """The id of the resource that the path addresses."""
        parts = self.parts
        subscription, group = parts["subscription"], check_group_name(parts["group"])
        workspace = check_name(parts["workspace"], Kind.WORKSPACE)
        id = ResourceId(subscription, group, workspace, Kind.WORKSPACE, workspace)
        if kind is Kind.WORKSPACE:
            return id
        if kind is not Kind.JOB:
            return id.child(kind, check_name(parts["name"], kind))
        experiment = id.child(Kind.EXPERIMENT, check_name(parts["experiment"], Kind.EXPERIMENT))
        return experiment.child(kind, check_name(parts["name"], kind))

    def integer_parameter(self, name: str, default: int, *, minimum: int, maximum: int) -> int:
        """An integer query parameter within bounds."""
        text = self.query.get(name, str(default))
        if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and minimum <= int(text) <= maximum:
            return int(text)
        message = (
            f"The query parameter {name} must be a whole number from {minimum} to {maximum}, not {text!r}."
        )
        raise ApiError(400, "InvalidQueryParameterValue", message)

    @property
    def prefers_resource(self) -> bool:
        """Whether the client prefers the created resource to an operation that has already ended."""
        return REPRESENTATION in self.headers.get(PREFER.lower(), "")

    def link(self, path: str, query: str) -> str:
        """An absolute URL of this server."""
        return f"{self.origin}{path}?{query}"


@dataclass(frozen=True)
class ApiResponse:
    """The response of a handler: a status, headers, and JSON data, bytes, or a stream of chunks."""

    status: int = 200
    data: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None  # instead of `data`, with a Content-Type header
    chunks: Iterator[bytes] | None = None  # instead of both: streamed
    state: str = ""  # for long polling; for a GET, a digest of its data by default
    is_news: bool | None = None  # for long polling; None: if the state differs from the known one

    def with_headers(self, **headers: str) -> ApiResponse:
        """The response with more headers; `_` in names stands for `-`."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, headers={**self.headers, **more})


_MAX_DIGITS = 18  # of a number in a request


JSON = "application/json; charset=utf-8"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def encode_json(data: Any) -> bytes:
    """JSON as UTF-8; lone surrogates, which older versions stored, are replaced."""
    text = json.dumps(data, ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", text).encode()


def content_digest(data: Any) -> str:
    """A digest of JSON data, for detecting changes."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:24]


def decode_url_text(text: str | bytes, field: str) -> str:
    """A percent-encoded part of a URL as text; `field` names it in the error."""
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError:
        raise ApiError(400, "InvalidUri", f"{field} must be percent-encoded UTF-8.") from None


def parse_query(text: bytes) -> dict[str, str]:
    """The query parameters, names in lower case. A `+` is kept, because signatures contain it."""
    pairs = (pair.partition(b"=") for pair in text.split(b"&") if pair)
    decoded = (
        (decode_url_text(name, "The name of a query parameter").lower(), value) for name, _, value in pairs
    )
    return {name: decode_url_text(value, f"The query parameter {name}") for name, value in decoded}


def _reject_constant(word: str) -> float:
    raise ValueError(f"{word} is not a number in JSON")


def invalid_content(reason: str) -> Exception:
    """The error for a body that is not a JSON object."""
    message = f"The request content was invalid and could not be deserialized: '{reason}'."
    return ApiError(400, "InvalidRequestContent", message)


MAX_READ_BYTES = 1 << 20  # of one file per response


def string_field(body: Mapping[str, Any], name: str, default: str = "") -> str:
    """A field that must be a non-empty string."""
    value = body.get(name, default)
    if not isinstance(value, str) or not value:
        raise ApiError(400, "InvalidRequestContent", f"{name} must be a text.")
    return value


def integer_field(body: Mapping[str, Any], name: str, default: int) -> int:
    """A field that must be a non-negative integer; `limit` is capped."""
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise ApiError(400, "InvalidRequestContent", f"{name} must be a whole number of at least 0.")
    return min(value, MAX_READ_BYTES) if name == "limit" else value


def positions_field(body: Mapping[str, Any]) -> Mapping[str, int]:
    """The offset up to which the client has each log, by path: the field `positions`."""
    value = body.get("positions") or {}
    if not isinstance(value, Mapping):
        raise ApiError(400, "InvalidRequestContent", "positions must be an object.")
    return {str(path): integer_field(value, path, 0) for path in value}
