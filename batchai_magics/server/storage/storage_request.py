"""What storage handlers receive: the request, its conditions, the shares or containers it addresses."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import format_datetime, parsedate_to_datetime

from batchai_magics.backends.base import Chunk, ShareFile, Storage
from batchai_magics.backends.service.extension_wire import OWN_CLIENT
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.handler_context import HandlerContext
from batchai_magics.server.storage import sas
from batchai_magics.server.storage.sas import SasRule
from batchai_magics.server.storage.storage_metadata import EMPTY_RECORD, StorageRecord
from batchai_magics.server.storage.storage_resource import StorageApiError, StorageResource, storage_of
from batchai_magics.server.storage.unfinished_uploads import UnfinishedUploads

_MATCH, _NONE_MATCH = "if-match", "if-none-match"
_MODIFIED, _UNMODIFIED = "if-modified-since", "if-unmodified-since"
_TAGS = {"x-ms-if-tags", "x-ms-source-if-tags"}
# A write may have one condition, or one of these pairs; the first of a pair takes precedence.
_PAIRS = ({_NONE_MATCH, _MODIFIED}, {_MATCH, _UNMODIFIED})


@dataclass(frozen=True)
class BlobVersion:
    """The version of a blob: its ETag and modification time."""

    tag: str
    modified: datetime


@dataclass(frozen=True)
class Conditions:
    """The conditions of a request; None for an absent header."""

    match: tuple[str, ...] | None = None
    none_match: tuple[str, ...] | None = None
    modified_since: datetime | None = None
    unmodified_since: datetime | None = None

    def check_read(self, version: BlobVersion) -> None:
        """Raises StorageApiError unless a blob may be read: 412, 304 if the client has it already, or 400."""
        if self.none_match == ("*",):
            raise StorageApiError(
                400, "UnsatisfiableCondition", "A blob that is there never meets If-None-Match: *."
            )
        if self._is_other(version) or self._is_too_new(version):
            raise _not_met_error(412)
        tells = []  # whether the client lacks this version: by its ETag, by its time
        if self.none_match is not None:
            tells.append(version.tag not in self.none_match)
        if self.modified_since is not None:
            tells.append(_is_after(version, self.modified_since))
        if tells and not any(tells):
            raise _not_met_error(304)

    def check_write(self, version: BlobVersion | None) -> None:
        """Raises StorageApiError (412) unless a blob may be written; `version` is None if it is missing."""
        if version is None:
            if self.match is not None:
                raise _not_met_error(412)
            return
        if self.none_match is not None:
            is_met = self.none_match != ("*",) and version.tag not in self.none_match
        elif self.match is not None:
            is_met = not self._is_other(version)
        elif self.modified_since is not None:
            is_met = _is_after(version, self.modified_since)
        else:
            is_met = not self._is_too_new(version)
        if not is_met:
            raise _not_met_error(412)

    def _is_other(self, version: BlobVersion) -> bool:
        return self.match is not None and self.match != ("*",) and version.tag not in self.match

    def _is_too_new(self, version: BlobVersion) -> bool:
        return self.unmodified_since is not None and _is_after(version, self.unmodified_since)


def write_conditions(headers: Mapping[str, str]) -> Conditions:
    """The conditions of a write; StorageApiError (400) for unsupported combinations."""
    names = {name for name in (_MATCH, _NONE_MATCH, _MODIFIED, _UNMODIFIED) if name in headers}
    conditions = read_conditions(headers)
    tags = max(len(conditions.match or ()), len(conditions.none_match or ()))
    if tags > 1 or (len(names) > 1 and names not in _PAIRS):
        text = "Multiple condition headers are not supported."
        raise StorageApiError(400, "MultipleConditionHeadersNotSupported", text)
    return conditions


def read_conditions(headers: Mapping[str, str]) -> Conditions:
    """The conditions of a read: any combination, with any number of ETags."""
    if _TAGS & headers.keys():
        raise StorageApiError(
            400, "UnsupportedHeader", "Blobs have no index tags here: leave x-ms-if-tags out."
        )
    return Conditions(
        match=_tags(headers.get(_MATCH)),
        none_match=_tags(headers.get(_NONE_MATCH)),
        modified_since=_date_header(headers, _MODIFIED),
        unmodified_since=_date_header(headers, _UNMODIFIED),
    )


def _tags(text: str | None) -> tuple[str, ...] | None:
    """The ETags of a header, each quoted; clients may omit the quotes."""
    if text is None:
        return None
    tags = (tag.strip() for tag in text.split(","))
    return tuple(tag if tag == "*" or tag.startswith('"') else f'"{tag}"' for tag in tags if tag)


def _date_header(headers: Mapping[str, str], name: str) -> datetime | None:
    if name not in headers:
        return None
    try:
        moment = parsedate_to_datetime(headers[name])
    except (ValueError, TypeError):
        text = f"The header {name} must be a date as RFC 1123 has it, not {headers[name]!r}."
        raise StorageApiError(400, "InvalidHeaderValue", text) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _is_after(version: BlobVersion, moment: datetime) -> bool:
    """Whether a blob changed after a moment, in whole seconds like the HTTP date."""
    return version.modified.replace(microsecond=0) > moment


def _not_met_error(status: int) -> StorageApiError:
    return StorageApiError(
        status, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met."
    )


LAST_WRITE_HEADER = "x-ms-file-last-write-time"


@dataclass(frozen=True)
class StorageRequest:
    """A request to storage."""

    context: HandlerContext
    call: ApiCall
    resource: StorageResource
    uploads: UnfinishedUploads

    @property
    def storage(self) -> Storage:
        """The backend's shares or containers; CapabilityError if it has none."""
        return storage_of(self.context.backend, self.resource.service)

    @property
    def share(self) -> str:
        """The backend's name of the share or container."""
        return self.resource.backend_share

    @property
    def path(self) -> str:
        """The path of the file or folder on the share."""
        return self.resource.path

    @property
    def record(self) -> StorageRecord:
        """The record of the resource: metadata and content properties."""
        return self.context.metadata.record(self.resource.key)

    @property
    def is_own_client(self) -> bool:
        """Whether our own client sent it: it knows more kinds of entries than files and folders."""
        return has_account_key(self.call) and OWN_CLIENT in self.call.headers

    def check_may_replace(self, rule: SasRule) -> None:
        """Raises StorageApiError (403) unless the request may overwrite a file."""
        if not sas.may_replace(self.call.query, rule):
            raise sas.permission_error()

    @property
    def noun(self) -> str:
        """What the service calls its shares."""
        return "container" if self.resource.service == "blob" else "share"

    def check_share(self) -> None:
        """Raises StorageApiError (404) unless the share or container exists."""
        if not self.storage.has(self.share):
            message = f"The specified {self.noun} does not exist."
            raise StorageApiError(404, f"{self.noun.capitalize()}NotFound", message)


def has_account_key(call: ApiCall) -> bool:
    """Whether the request is signed with the account's key, as our own client's are.

    A SAS does not cover headers: its holder could send the headers of our own client, which do more.
    """
    return "sig" not in call.query


StorageHandler = Callable[[StorageRequest], ApiResponse]


def blob_version(file: ShareFile, record: StorageRecord = EMPTY_RECORD) -> BlobVersion:
    """The version of a file or blob; `record` is for blobs."""
    modified = file.modified or datetime.now(timezone.utc)
    text = f"{modified.timestamp()}-{file.size_bytes}-{file.is_directory}{record.revision}"
    changed = datetime.fromtimestamp(record.changed, timezone.utc)
    return BlobVersion(_etag(text), max(modified, changed))


def output_version(chunk: Chunk) -> BlobVersion:
    """The version of a job's file: its size, its time, and which file it is."""
    text = f"{chunk.size}-{chunk.modified_ns}-{chunk.generation}"
    return BlobVersion(_etag(text), datetime.fromtimestamp(chunk.modified_ns / 1e9, timezone.utc))


def _etag(text: str) -> str:
    return f'"0x{hashlib.sha256(text.encode()).hexdigest()[:15].upper()}"'


def version_headers(file: ShareFile, record: StorageRecord = EMPTY_RECORD) -> Mapping[str, str]:
    """The ETag and the times of a file or blob; `record` is for blobs."""
    version = blob_version(file, record)
    return {
        "ETag": version.tag,
        "Last-Modified": http_date(version.modified),
        LAST_WRITE_HEADER: iso_time(file.modified or version.modified),
    }


def iso_time(moment: datetime) -> str:
    """A time in ISO 8601 with microseconds."""
    return moment.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


def http_date(moment: datetime) -> str:
    """A time as in HTTP headers."""
    return format_datetime(moment.astimezone(timezone.utc), usegmt=True)
