"""Files of Azure Files: create, write, read, rename, delete; and downloads of job output from any backend."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from batchai_magics.backends.base import ShareFile
from batchai_magics.backends.service.extension_wire import DIGEST, WANT_DIGEST
from batchai_magics.errors import NotFoundError
from batchai_magics.models.job_execution import FileKind
from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.batchai import job_handlers
from batchai_magics.server.batchai.output_addresses import output_file_at
from batchai_magics.server.storage import sas, storage_metadata
from batchai_magics.server.storage.storage_metadata import StorageRecord
from batchai_magics.server.storage.storage_request import (
    StorageRequest,
    http_date,
    output_version,
    read_conditions,
    version_headers,
)
from batchai_magics.server.storage.storage_resource import (
    FILE_SIZE,
    ByteSpan,
    StorageApiError,
    file_size_header,
    parse_span,
    resource_of_url,
    written_span,
)
from batchai_magics.server.storage.storage_responses import content_response

RENAME_SOURCE = "x-ms-file-rename-source"
_FIRST_BYTES = 1 << 20  # read from a job's file together with its size


def create(request: StorageRequest) -> ApiResponse:
    """Creates a file of a size; it appears on its share once all bytes have arrived."""
    size = file_size_header(request.call)
    request.check_share()
    record = StorageRecord(
        storage_metadata.parse_metadata(request.call), storage_metadata.file_properties(request.call)
    )
    with request.context.metadata.exclusive(request.resource.key):
        check_create(request)
        is_whole = request.uploads.begin(request.resource, size, record)
        if is_whole:
            request.context.metadata.set_new(request.resource, record)
    return ApiResponse(201, headers=version_headers(_get_file(request)))


def put_range(request: StorageRequest) -> ApiResponse:
    """Writes or clears a range of a file."""
    span, size = written_span(request.call), _get_file(request).size_bytes
    if span.end > size:
        raise StorageApiError(416, "InvalidRange", "The range specified is invalid for the current size.")
    upload = request.uploads.find(request.resource)
    path, size_bytes = upload.part if upload else request.path, span.end - span.start
    if request.call.headers.get("x-ms-write", "update").lower() == "clear":
        request.storage.clear(request.share, path, span.start, size_bytes)
    else:
        check_body(request, size_bytes)
        request.storage.change(request.share, path, span.start, request.call.body)
    headers = {"x-ms-request-server-encrypted": "true"}
    if "content-md5" in request.call.headers:
        headers["Content-MD5"] = _md5(request.call.body)
    whole = request.uploads.record_range(request.resource, (span.start, span.end))
    if whole:
        request.context.metadata.set_new(request.resource, whole.record)
    return ApiResponse(201, headers={**version_headers(_get_file(request)), **headers})


def set_properties(request: StorageRequest) -> ApiResponse:
    """Replaces the content properties of a file, resizes it, or both.

    Omitted properties are cleared, unless the request only resizes.
    """
    parsed, file = storage_metadata.file_properties(request.call), _get_file(request)
    is_resized = bool(request.call.headers.get(FILE_SIZE))
    if is_resized:
        size = file_size_header(request.call)
        if request.uploads.find(request.resource):
            raise StorageApiError(409, "SharingViolation", "The file is being uploaded.")
        request.storage.resize(request.share, request.path, size)
        file = _get_file(request)
    if parsed or not is_resized:
        _store_record(request, replace(_get_record(request), properties=parsed))
    return ApiResponse(200, headers=version_headers(file))


def set_metadata(request: StorageRequest) -> ApiResponse:
    """Replaces the metadata of a file."""
    parsed, file = storage_metadata.parse_metadata(request.call), _get_file(request)
    _store_record(request, replace(_get_record(request), metadata=parsed))
    return ApiResponse(200, headers=version_headers(file))


def show(request: StorageRequest) -> ApiResponse:
    """The properties of a file."""
    file = _get_file(request)
    size = {"Content-Length": str(file.size_bytes)} if request.call.method == "HEAD" else {}
    if not request.is_own_client:
        return ApiResponse(200, headers={**_file_headers(request, file), **size}, body=b"")
    digest = {}
    is_masked = job_handlers.byte_mask(request.context, request.path) is not None
    if WANT_DIGEST in request.call.headers and file.is_file and not is_masked:
        digest[DIGEST] = request.storage.digest(request.share, request.path)
    headers = {
        **version_headers(file),
        **size,
        **digest,
        "x-ms-type": "File",
        "x-ms-file-attributes": file.kind.value,
    }
    return ApiResponse(200, headers=headers, body=b"")


def read(request: StorageRequest) -> ApiResponse:
    """Reads a file, or a range of it."""
    upload = request.uploads.find(request.resource)
    path = upload.part if upload else request.path
    source, mask = _get_file(request), job_handlers.byte_mask(request.context, request.path)
    digest = {}
    needs_digest = request.is_own_client and WANT_DIGEST in request.call.headers
    if needs_digest and source.is_file and not upload and not mask:
        digest[DIGEST] = request.storage.digest(request.share, path)
    if not source.is_file:
        request.storage.read(request.share, path, 0, 0)  # raises the appropriate error
    headers = {**_file_headers(request, source), **digest}
    read_bytes = partial(request.storage.read, request.share, path)
    return content_response(request.call, headers, source.size_bytes, read_bytes, mask)


def ranges(request: StorageRequest) -> ApiResponse:
    """Lists the ranges of a file with data: all of it."""
    size = _get_file(request).size_bytes
    inner = f"<Range><Start>0</Start><End>{size - 1}</End></Range>" if size else ""
    body = f'<?xml version="1.0" encoding="utf-8"?><Ranges>{inner}</Ranges>'.encode()
    headers = {"Content-Type": "application/xml", FILE_SIZE: str(size)}
    return ApiResponse(200, body=body, headers={**version_headers(_get_file(request)), **headers})


def delete(request: StorageRequest) -> ApiResponse:
    """Deletes a file or an unfinished upload; for our own client, any kind of entry."""
    request.check_share()
    if request.uploads.drop(request.resource):
        return ApiResponse(202)
    if not request.is_own_client and _get_file(request).is_directory:
        raise _type_mismatch()
    with request.context.metadata.exclusive(request.resource.key):
        request.storage.delete(request.share, request.path)
        request.context.metadata.forget(request.resource.key)
    return ApiResponse(202)


def rename(request: StorageRequest) -> ApiResponse:
    """Renames the file in `x-ms-file-rename-source` to this name."""
    url, target = request.call.headers.get(RENAME_SOURCE, ""), request.resource
    source = resource_of_url(url, target.service)
    path = source.path
    if not path or (source.account, source.share) != (target.account, target.share):
        message = f"The source {url.partition('?')[0]!r} is not on this share."
        raise StorageApiError(400, "InvalidHeaderValue", message)
    request.check_share()
    file = request.storage.show(request.share, path)
    if not request.is_own_client and file.is_directory is not (
        request.call.query.get("restype") == "directory"
    ):
        raise _type_mismatch()
    parsed, changed = (
        storage_metadata.parse_metadata(request.call),
        storage_metadata.file_properties(request.call),
    )
    metadata, key = request.context.metadata, target.key
    with metadata.exclusive(key):
        _check_target(request, file)
        request.storage.rename(request.share, path, request.path)
        metadata.move(replace(target, path=path).key, key)
        record = request.record
        metadata.set(
            key, StorageRecord(parsed or record.metadata, {**record.properties, **changed}, record.revision)
        )
    return ApiResponse(200, headers=version_headers(_get_file(request)))


def _check_target(request: StorageRequest, source: ShareFile) -> None:
    try:
        target = request.storage.show(request.share, request.path)
    except NotFoundError:
        return
    replaces = request.call.headers.get("x-ms-file-rename-replace-if-exists", "").lower() == "true"
    if target.is_directory or source.is_directory or not replaces:
        raise StorageApiError(409, "ResourceAlreadyExists", "The specified resource already exists.")
    request.check_may_replace(sas.RENAME_FILE)


def check_create(request: StorageRequest) -> None:
    """Raises StorageApiError if a file cannot be created: over a folder, or a file it may not replace."""
    try:
        file = _get_file(request)
    except NotFoundError:
        return
    if file.is_directory:
        raise _type_mismatch()
    request.check_may_replace(sas.CREATE_FILE)


def check_body(request: StorageRequest, length: int) -> None:
    """Raises StorageApiError for a body that does not match its declared length or MD5."""
    body, digest = request.call.body, request.call.headers.get("content-md5")
    if len(body) != length:
        message = f"The range has {length} bytes, and the body {len(body)}."
        raise StorageApiError(400, "InvalidInput", message)
    if digest and digest != _md5(body):
        raise StorageApiError(400, "Md5Mismatch", "The MD5 value of the body does not match its header.")


def _get_file(request: StorageRequest) -> ShareFile:
    """The file as its uploader sees it."""
    upload = request.uploads.find(request.resource)
    if upload:
        return ShareFile(request.path, FileKind.FILE, upload.size_bytes, datetime.now(timezone.utc))
    return replace(request.storage.show(request.share, request.path), path=request.path)


def _get_record(request: StorageRequest) -> StorageRecord:
    """The record of a file as its uploader sees it."""
    upload = request.uploads.find(request.resource)
    return upload.record if upload else request.record


def _store_record(request: StorageRequest, record: StorageRecord) -> None:
    upload = request.uploads.find(request.resource)
    if upload:
        upload.record = record
    else:
        request.context.metadata.set(request.resource.key, record)


def _file_headers(request: StorageRequest, file: ShareFile) -> dict[str, str]:
    """The response headers of a file; our own client wants raw bytes, so no content properties."""
    if file.is_directory:
        raise _type_mismatch()
    record = _get_record(request)
    properties = {} if request.is_own_client else record.properties
    headers = {
        **storage_metadata.property_headers(request.call, properties),
        **storage_metadata.metadata_headers(record.metadata),
    }
    return {**version_headers(file), **headers, "x-ms-type": "File"}


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _type_mismatch() -> StorageApiError:
    message = "The specified resource type does not match the type of the existing resource."
    return StorageApiError(409, "ResourceTypeMismatch", message)


_OUTPUT_HEADERS = {"Content-Type": "application/octet-stream", "Cache-Control": "no-cache"}
_OUTPUT_HEADERS_OF = {
    "file": {**_OUTPUT_HEADERS, "x-ms-type": "File"},
    "blob": {**_OUTPUT_HEADERS, "x-ms-blob-type": "BlockBlob"},
}


def read_output(request: StorageRequest) -> ApiResponse:
    """Reads a file that a job wrote, or a range of it; up to 1 MiB with a single read."""
    backend, file = request.context.backend, output_file_at(request.context, request.resource)
    if file is None:
        raise StorageApiError(404, "ResourceNotFound", "The specified resource does not exist.")
    is_head, span = request.call.method == "HEAD", parse_span(request.call) or ByteSpan(0, _FIRST_BYTES)
    first = backend.read(file, span.start, 0 if is_head else min(_FIRST_BYTES, span.end - span.start))
    version = output_version(first)
    read_conditions(request.call.headers).check_read(version)
    time = {"Last-Modified": http_date(version.modified)} if first.modified_ns else {}
    headers = {**_OUTPUT_HEADERS_OF[request.resource.service], "ETag": version.tag, **time}
    if is_head:
        return ApiResponse(200, headers={**headers, "Content-Length": str(first.size)}, body=b"")

    def read_bytes(start: int, limit: int) -> bytes:
        if start == span.start:
            return first.data[:limit]
        chunk = backend.read(file, start, limit)
        # the file may only have grown since its first bytes were read
        has_other_head = bool(chunk.generation) and not chunk.generation.startswith(first.generation)
        is_changed = chunk.size == first.size and chunk.modified_ns != first.modified_ns
        return b"" if has_other_head or chunk.size < first.size or is_changed else chunk.data

    mask = job_handlers.byte_mask(request.context, request.path)
    return content_response(request.call, headers, first.size, read_bytes, mask)
