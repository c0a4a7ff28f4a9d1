"""Files that are copied on the server: from any share of the account, whole or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from batchai_magics.server.api_call import ApiCall, ApiResponse, decode_url_text
from batchai_magics.server.storage import blobs, conditional_headers, share_files, storage_metadata
from batchai_magics.server.storage.storage_errors import StorageApiError
from batchai_magics.server.storage.storage_metadata import StorageRecord
from batchai_magics.server.storage.storage_request import StorageRequest, blob_version, version_headers
from batchai_magics.server.storage.storage_resource import StorageResource, backend_share, resource_of_url

COPY_SOURCE = "x-ms-copy-source"
_PIECE = 1 << 20


def copy(asked: StorageRequest) -> ApiResponse:
    """Makes a file or blob a copy of another one; it is done when this is answered."""
    source, is_blob = _source_resource(asked), asked.resource.service == "blob"
    asked.check_share()
    (blobs.check_target if is_blob else share_files.check_create)(asked)
    share = backend_share(source)
    found = asked.storage.show(share, source.path)
    if not found.is_file:
        raise source_error(asked.call)
    record = asked.service.metadata.record(source.key)
    conditional_headers.copy_source_conditions(asked.call.headers).check_write(blob_version(found, record))
    record = StorageRecord(storage_metadata.parse_metadata(asked.call) or record.metadata, record.properties)
    with asked.uploads.made(asked.storage, asked.resource, asked.share) as part:
        asked.storage.resize(asked.share, part, 0)
        offset = 0
        for piece in _read_pieces(asked, share, source.path):
            asked.storage.change(asked.share, part, offset, piece)
            offset += len(piece)
        stamp = blobs.commit_blob(asked, part, record) if is_blob else _commit_file(asked, part, record)
    asked.uploads.parts.end(part)
    told = {"x-ms-copy-id": str(uuid.uuid4()), "x-ms-copy-status": "success"}
    return ApiResponse(202, headers={**stamp, **told})


def _commit_file(asked: StorageRequest, part: str, record: StorageRecord) -> Mapping[str, str]:
    with asked.service.metadata.exclusive(asked.resource.key):
        share_files.check_create(asked)
        asked.storage.rename(asked.share, part, asked.path)
        asked.service.metadata.keep_new(asked.resource, record)
        return version_headers(asked.storage.show(asked.share, asked.path))


def _read_pieces(asked: StorageRequest, share: str, path: str) -> Iterator[bytes]:
    offset = 0
    while data := asked.storage.read(share, path, offset, _PIECE):
        yield data
        offset += len(data)


def _source_resource(asked: StorageRequest) -> StorageResource:
    """The file that is copied, which is one of the same account."""
    found = resource_of_url(asked.call.headers[COPY_SOURCE], asked.resource.service)
    is_theirs = found.account == asked.resource.account and found.path
    if not is_theirs or backend_share(found) not in asked.storage.shares():
        raise source_error(asked.call)
    return found


def source_error(call: ApiCall) -> StorageApiError:
    """The error for a source that is no file, or none that the request may read."""
    path = decode_url_text(urlsplit(call.headers[COPY_SOURCE]).path, f"The header {COPY_SOURCE}")
    message = f"The source {path!r} is no file of this account that the request may read."
    return StorageApiError(404, "CannotVerifyCopySource", message)
