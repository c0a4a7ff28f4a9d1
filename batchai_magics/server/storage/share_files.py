"""Files of Azure Files: create, write, read, rename, delete; and downloads of job output from any backend."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone

from batchai_magics.backends.base import ShareFile
from batchai_magics.backends.service.extensions.extension_headers import DIGEST, WANT_DIGEST
from batchai_magics.errors import NotFoundError
from batchai_magics.models.execution import FileKind
from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.batchai import job_logs
from batchai_magics.server.batchai.output_addresses import output_file_at
from batchai_magics.server.storage import sas, storage_metadata
from batchai_magics.server.storage.storage_errors import StorageApiError
from batchai_magics.server.storage.storage_metadata import StorageRecord
from batchai_magics.server.storage.storage_request import StorageRequest, version_headers
from batchai_magics.server.storage.storage_resource import (
    ByteSpan,
    parse_size_header,
    parse_span,
    same_share_path,
)
from batchai_magics.server.storage.storage_responses import content_response, requested_span

MAX_FILE_BYTES = 4 << 40  # 4 TiB, as Azure has it
RENAME_SOURCE = "x-ms-file-rename-source"
_PIECE = 1 << 20


def create(asked: StorageRequest) -> ApiResponse:
    """Begins a file of a size. It is on its share when all of its bytes have come."""
    size = parse_size_header(asked.call, "x-ms-content-length", most=MAX_FILE_BYTES)
    asked.check_share()
    record = StorageRecord(
        storage_metadata.parse_metadata(asked.call), storage_metadata.file_properties(asked.call)
    )
    with asked.service.metadata.exclusive(asked.resource.key):
        check_create(asked)
        is_whole = asked.uploads.begin(asked.storage, asked.resource, asked.share, size, record)
        if is_whole:
            asked.service.metadata.keep_new(asked.resource, record)
    return ApiResponse(201, headers=version_headers(_get_file(asked)))


def put_range(asked: StorageRequest) -> ApiResponse:
    """Writes bytes into a file."""
    span, size = parse_span(asked.call), _get_file(asked).size_bytes
    if span is None or span.end is None:
        raise StorageApiError(400, "MissingRequiredHeader", "The header x-ms-range must be bytes=FIRST-LAST.")
    if span.end > size:
        raise _invalid_range_error()
    if asked.call.headers.get("x-ms-write", "update").lower() == "clear":
        _clear(asked, span.start, span.end - span.start)
    else:
        check_body(asked, span.end - span.start)
        _write(asked, span.start, asked.call.body)
    headers = {"x-ms-request-server-encrypted": "true"}
    if "content-md5" in asked.call.headers:
        headers["Content-MD5"] = _md5(asked.call.body)
    whole = asked.uploads.wrote(asked.storage, asked.resource, asked.share, (span.start, span.end))
    if whole:
        asked.service.metadata.keep_new(asked.resource, whole.record)
    return ApiResponse(201, headers={**version_headers(_get_file(asked)), **headers})


def set_properties(asked: StorageRequest) -> ApiResponse:
    """Gives a file other properties of its content, or another size, or both.

    Properties that are not said are cleared, unless the request is about the size alone.
    """
    said, shown = storage_metadata.file_properties(asked.call), _get_file(asked)
    is_resized = bool(asked.call.headers.get("x-ms-content-length"))
    if is_resized:
        size = parse_size_header(asked.call, "x-ms-content-length", most=MAX_FILE_BYTES)
        if asked.uploads.of(asked.resource):
            raise StorageApiError(409, "SharingViolation", "The file is being uploaded.")
        asked.storage.resize(asked.share, asked.path, size)
        shown = _get_file(asked)
    if said or not is_resized:
        _keep_record(asked, replace(_get_record(asked), properties=said))
    return ApiResponse(200, headers=version_headers(shown))


def set_metadata(asked: StorageRequest) -> ApiResponse:
    """Gives a file other metadata."""
    said, shown = storage_metadata.parse_metadata(asked.call), _get_file(asked)
    _keep_record(asked, replace(_get_record(asked), metadata=said))
    return ApiResponse(200, headers=version_headers(shown))


def show(asked: StorageRequest) -> ApiResponse:
    """What there is to say of a file."""
    file = _get_file(asked)
    size = {"Content-Length": str(file.size_bytes)} if asked.call.method == "HEAD" else {}
    if not asked.is_our_own:
        return ApiResponse(200, headers={**_file_headers(asked, file), **size}, body=b"")
    digest = {}
    is_masked = job_logs.byte_mask(asked.service, asked.path) is not None
    if WANT_DIGEST in asked.call.headers and file.is_file and not is_masked:
        digest[DIGEST] = asked.storage.digest(asked.share, asked.path)
    told = {
        **version_headers(file),
        **size,
        **digest,
        "x-ms-type": "File",
        "x-ms-file-attributes": file.kind.value,
    }
    return ApiResponse(200, headers=told, body=b"")


def read(asked: StorageRequest) -> ApiResponse:
    """A file, or a range of it."""
    upload = asked.uploads.of(asked.resource)
    path = upload.part if upload else asked.path
    source, mask = _get_file(asked), job_logs.byte_mask(asked.service, asked.path)
    digest = {}
    is_digest_wanted = asked.is_our_own and WANT_DIGEST in asked.call.headers
    if is_digest_wanted and source.is_file and not upload and not mask:
        digest[DIGEST] = asked.storage.digest(asked.share, path)
    if not source.is_file:
        asked.storage.read(asked.share, path, 0, 0)  # which says in the right words that it is none

    def pieces(span: ByteSpan) -> Iterator[bytes]:
        start, end = span.start, span.end or 0
        while start < end:
            data = asked.storage.read(asked.share, path, start, min(_PIECE, end - start))
            if not data:  # it was cut meanwhile; the client sees that bytes are missing
                return
            yield mask(start, data) if mask else data
            start += len(data)

    headers, span = {**_file_headers(asked, source), **digest}, requested_span(asked.call, source.size_bytes)
    return content_response(headers, source.size_bytes, span, pieces)


def ranges(asked: StorageRequest) -> ApiResponse:
    """The ranges of a file that have bytes: the whole of it."""
    size = _get_file(asked).size_bytes
    inner = f"<Range><Start>0</Start><End>{size - 1}</End></Range>" if size else ""
    body = f'<?xml version="1.0" encoding="utf-8"?><Ranges>{inner}</Ranges>'.encode()
    headers = {"Content-Type": "application/xml", "x-ms-content-length": str(size)}
    return ApiResponse(200, body=body, headers={**version_headers(_get_file(asked)), **headers})


def delete(asked: StorageRequest) -> ApiResponse:
    """Deletes a file, also one that is on its way; for our own client, whatever lies there."""
    asked.check_share()
    if asked.uploads.drop(asked.storage, asked.resource, asked.share):
        return ApiResponse(202)
    if not asked.is_our_own and _get_file(asked).is_directory:
        raise _type_mismatch()
    with asked.service.metadata.exclusive(asked.resource.key):
        asked.storage.delete(asked.share, asked.path)
        asked.service.metadata.forget(asked.resource.key)
    return ApiResponse(202)


def rename(asked: StorageRequest) -> ApiResponse:
    """Gives another file this name; `x-ms-file-rename-source` says which."""
    path = source_path(asked, asked.call.headers.get(RENAME_SOURCE, ""))
    asked.check_share()
    shown = asked.storage.show(asked.share, path)
    if not asked.is_our_own and shown.is_directory is not (asked.call.query.get("restype") == "directory"):
        raise _type_mismatch()
    said, changed = storage_metadata.parse_metadata(asked.call), storage_metadata.file_properties(asked.call)
    kept, key = asked.service.metadata, asked.resource.key
    with kept.exclusive(key):
        _check_target(asked, shown)
        asked.storage.rename(asked.share, path, asked.path)
        kept.move(replace(asked.resource, path=path).key, key)
        record = asked.record
        kept.keep(
            key, StorageRecord(said or record.metadata, {**record.properties, **changed}, record.revision)
        )
    return ApiResponse(200, headers=version_headers(_get_file(asked)))


def source_path(asked: StorageRequest, url: str) -> str:
    """The path on the same share that an address names."""
    path = same_share_path(url, asked.resource)
    if not path:
        message = f"The source {url.partition('?')[0]!r} is not on this share."
        raise StorageApiError(400, "InvalidHeaderValue", message)
    return path


def _check_target(asked: StorageRequest, source: ShareFile) -> None:
    try:
        target = asked.storage.show(asked.share, asked.path)
    except NotFoundError:
        return
    replaces = asked.call.headers.get("x-ms-file-rename-replace-if-exists", "").lower() == "true"
    if target.is_directory or source.is_directory or not replaces:
        raise StorageApiError(409, "ResourceAlreadyExists", "The specified resource already exists.")
    asked.check_may_replace(sas.RENAME_FILE)


def check_create(asked: StorageRequest) -> None:
    """Raises where no file can be made: a folder is there, or a file that the request may not replace."""
    try:
        found = _get_file(asked)
    except NotFoundError:
        return
    if found.is_directory:
        raise _type_mismatch()
    asked.check_may_replace(sas.CREATE_FILE)


def check_body(asked: StorageRequest, length: int) -> None:
    """Raises for a body that is not as long as it says, or not what its MD5 says."""
    body, digest = asked.call.body, asked.call.headers.get("content-md5")
    if len(body) != length:
        message = f"The range has {length} bytes, and the body {len(body)}."
        raise StorageApiError(400, "InvalidInput", message)
    if digest and digest != _md5(body):
        raise StorageApiError(400, "Md5Mismatch", "The MD5 value of the body is not that of its header.")


def _write(asked: StorageRequest, offset: int, data: bytes) -> None:
    upload = asked.uploads.of(asked.resource)
    asked.storage.change(asked.share, upload.part if upload else asked.path, offset, data)


def _clear(asked: StorageRequest, offset: int, size_bytes: int) -> None:
    upload = asked.uploads.of(asked.resource)
    asked.storage.clear(asked.share, upload.part if upload else asked.path, offset, size_bytes)


def _get_file(asked: StorageRequest) -> ShareFile:
    """The file as whoever sends it sees it."""
    upload = asked.uploads.of(asked.resource)
    if upload:
        return ShareFile(asked.path, FileKind.FILE, upload.size_bytes, datetime.now(timezone.utc))
    asked.check_share()
    return replace(asked.storage.show(asked.share, asked.path), path=asked.path)


def _get_record(asked: StorageRequest) -> StorageRecord:
    """What is kept of a file, as whoever sends it sees it."""
    upload = asked.uploads.of(asked.resource)
    return upload.record if upload else asked.record


def _keep_record(asked: StorageRequest, record: StorageRecord) -> None:
    upload = asked.uploads.of(asked.resource)
    if upload:
        upload.record = record
    else:
        asked.service.metadata.keep(asked.resource.key, record)


def _file_headers(asked: StorageRequest, file: ShareFile) -> dict[str, str]:
    """What an answer says of a file; our own client wants its bytes as they are, whatever their encoding."""
    if file.is_directory:
        raise _type_mismatch()
    record = _get_record(asked)
    kept = {} if asked.is_our_own else record.properties
    told = {
        **storage_metadata.property_headers(asked.call, kept),
        **storage_metadata.metadata_headers(record.metadata),
    }
    return {**version_headers(file), **told, "x-ms-type": "File"}


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _type_mismatch() -> StorageApiError:
    message = "The specified resource type does not match the type of the existing resource."
    return StorageApiError(409, "ResourceTypeMismatch", message)


def _invalid_range_error() -> StorageApiError:
    return StorageApiError(416, "InvalidRange", "The range specified is invalid for the current size.")


_OUTPUT_HEADERS = {"Content-Type": "application/octet-stream", "Cache-Control": "no-cache"}
_OUTPUT_HEADERS_OF = {
    "file": {**_OUTPUT_HEADERS, "x-ms-type": "File"},
    "blob": {**_OUTPUT_HEADERS, "x-ms-blob-type": "BlockBlob"},
}


def read_output(asked: StorageRequest) -> ApiResponse:
    """A file that a job wrote, or a range of it. What is short is read at one go."""
    backend, file = asked.service.backend, output_file_at(asked.service, asked.path)
    if file is None:
        raise StorageApiError(404, "ResourceNotFound", "The specified resource does not exist.")
    is_head, span = asked.call.method == "HEAD", parse_span(asked.call)
    first = backend.read(file, span.start if span else 0, 0 if is_head else _first_read_bytes(span))
    headers = {**_OUTPUT_HEADERS_OF[asked.resource.service], "ETag": f'"0x{first.size:X}"'}
    if is_head:
        return ApiResponse(200, headers={**headers, "Content-Length": str(first.size)}, body=b"")

    mask = job_logs.byte_mask(asked.service, asked.path)

    def pieces(span: ByteSpan) -> Iterator[bytes]:
        start, end, data = span.start, span.end or 0, first.data[: (span.end or 0) - span.start]
        while data:
            yield mask(start, data) if mask else data
            start += len(data)
            data = backend.read(file, start, min(_PIECE, end - start)).data if start < end else b""

    return content_response(headers, first.size, requested_span(asked.call, first.size), pieces)


def _first_read_bytes(span: ByteSpan | None) -> int:
    """How much of a range is read at first."""
    return min(_PIECE, span.end - span.start) if span and span.end else _PIECE
