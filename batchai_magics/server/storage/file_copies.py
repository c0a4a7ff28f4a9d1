"""Server-side copies of files and blobs within an account, atomic."""

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


def copy(request: StorageRequest) -> ApiResponse:
    """Copies a file or blob; complete when the response is sent."""
    source, is_blob = _source_resource(request), request.resource.service == "blob"
    request.check_share()
    (blobs.check_target if is_blob else share_files.check_create)(request)
    share = backend_share(source)
    found = request.storage.show(share, source.path)
    if not found.is_file:
        raise source_error(request.call)
    record = request.context.metadata.record(source.key)
    conditional_headers.copy_source_conditions(request.call.headers).check_write(blob_version(found, record))
    record = StorageRecord(
        storage_metadata.parse_metadata(request.call) or record.metadata, record.properties
    )
    with request.uploads.part_file(request.storage, request.resource, request.share) as part:
        request.storage.resize(request.share, part, 0)
        offset = 0
        for piece in _read_pieces(request, share, source.path):
            request.storage.change(request.share, part, offset, piece)
            offset += len(piece)
        stamp = blobs.commit_blob(request, part, record) if is_blob else _commit_file(request, part, record)
    request.uploads.parts.end(part)
    copy_headers = {"x-ms-copy-id": str(uuid.uuid4()), "x-ms-copy-status": "success"}
    return ApiResponse(202, headers={**stamp, **copy_headers})


def _commit_file(request: StorageRequest, part: str, record: StorageRecord) -> Mapping[str, str]:
    with request.context.metadata.exclusive(request.resource.key):
        share_files.check_create(request)
        request.storage.rename(request.share, part, request.path)
        request.context.metadata.set_new(request.resource, record)
        return version_headers(request.storage.show(request.share, request.path))


def _read_pieces(request: StorageRequest, share: str, path: str) -> Iterator[bytes]:
    offset = 0
    while data := request.storage.read(share, path, offset, _PIECE):
        yield data
        offset += len(data)


def _source_resource(request: StorageRequest) -> StorageResource:
    """The source of the copy, in the same account."""
    found = resource_of_url(request.call.headers[COPY_SOURCE], request.resource.service)
    is_theirs = found.account == request.resource.account and found.path
    if not is_theirs or backend_share(found) not in request.storage.shares():
        raise source_error(request.call)
    return found


def source_error(call: ApiCall) -> StorageApiError:
    """The error for a source that does not exist or may not be read."""
    path = decode_url_text(urlsplit(call.headers[COPY_SOURCE]).path, f"The header {COPY_SOURCE}")
    message = f"The source {path!r} is not a file of this account that the request may read."
    return StorageApiError(404, "CannotVerifyCopySource", message)
