"""What storage handlers receive: the request, and the backend's shares or containers it addresses."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from email.utils import format_datetime, parsedate_to_datetime

from batchai_magics.backends.base import CONTAINERS, STORAGE, ShareFile, Storage
from batchai_magics.backends.service.extension_wire import OWN_CLIENT
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.handler_context import HandlerContext
from batchai_magics.server.storage import sas, storage_metadata
from batchai_magics.server.storage.conditional_headers import BlobVersion
from batchai_magics.server.storage.sas import SasRule
from batchai_magics.server.storage.storage_errors import StorageApiError
from batchai_magics.server.storage.storage_metadata import EMPTY_RECORD, StorageRecord
from batchai_magics.server.storage.storage_resource import StorageResource, backend_share
from batchai_magics.server.storage.unfinished_uploads import UnfinishedUploads

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
        facet = CONTAINERS if self.resource.service == "blob" else STORAGE
        return facet.of(self.context.backend)

    @property
    def share(self) -> str:
        """The backend's name of the share or container."""
        return backend_share(self.resource)

    @property
    def path(self) -> str:
        """The path of the file or folder on the share."""
        return self.resource.path

    @property
    def record(self) -> StorageRecord:
        """The record of the resource: metadata and content properties."""
        return self.context.metadata.record(self.resource.key)

    @property
    def metadata_headers(self) -> dict[str, str]:
        """The metadata of the resource as response headers."""
        return storage_metadata.metadata_headers(self.record.metadata)

    def with_service(self, service: str) -> StorageRequest:
        """The same request for the service `file` or `blob`."""
        return replace(self, resource=replace(self.resource, service=service))

    @property
    def is_own_client(self) -> bool:
        """Whether our own client sent it: it knows more kinds of entries than files and folders."""
        return has_account_key(self.call) and OWN_CLIENT in self.call.headers

    def check_may_replace(self, rule: SasRule) -> None:
        """Raises StorageApiError (403) unless the request may overwrite a file."""
        if not sas.may_replace(self.call.query, rule):
            raise sas.permission_error()

    def check_share(self) -> None:
        """Raises StorageApiError (404) unless the share or container exists."""
        if self.share not in self.storage.shares():
            word = "Container" if self.resource.service == "blob" else "Share"
            message = f"The specified {word.lower()} does not exist."
            raise StorageApiError(404, f"{word}NotFound", message)


def has_account_key(call: ApiCall) -> bool:
    """Whether the request is signed with the account's key, as our own client's are.

    A SAS does not cover headers: its holder could send the headers of our own client, which do more.
    """
    return "sig" not in call.query


StorageHandler = Callable[[StorageRequest], ApiResponse]


def version_headers(file: ShareFile, record: StorageRecord = EMPTY_RECORD) -> Mapping[str, str]:
    """The ETag and modification time of a file or blob; `record` is for blobs."""
    modified = file.modified or datetime.now(timezone.utc)
    text = f"{modified.timestamp()}-{file.size_bytes}-{file.is_directory}"
    tag = hashlib.sha256(f"{text}{record.revision}".encode()).hexdigest()[:15].upper()
    changed = max(modified, datetime.fromtimestamp(record.changed, timezone.utc))
    return {
        "ETag": f'"0x{tag}"',
        "Last-Modified": http_date(changed),
        LAST_WRITE_HEADER: iso_time(modified),
    }


def blob_version(file: ShareFile, record: StorageRecord) -> BlobVersion:
    """The version of a blob, for conditional headers."""
    stamp = version_headers(file, record)
    return BlobVersion(stamp["ETag"], parsedate_to_datetime(stamp["Last-Modified"]))


def iso_time(moment: datetime) -> str:
    """A time in ISO 8601 with microseconds."""
    return moment.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


def http_date(moment: datetime) -> str:
    """A time as in HTTP headers."""
    return format_datetime(moment.astimezone(timezone.utc), usegmt=True)
