"""Blobs: put whole or in blocks, read, copied, deleted. A blob appears in its container once complete."""

from __future__ import annotations

import base64
import hashlib
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from xml.etree import ElementTree

from batchai_magics.backends.base import ShareFile
from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.batchai import job_handlers
from batchai_magics.server.handler_context import show_or_none
from batchai_magics.server.storage import sas, share_files, storage_metadata, storage_request
from batchai_magics.server.storage.storage_metadata import EMPTY_RECORD, StorageRecord
from batchai_magics.server.storage.storage_request import StorageRequest, blob_version, version_headers
from batchai_magics.server.storage.storage_resource import StorageApiError, resource_of_url
from batchai_magics.server.storage.storage_responses import content_response, pieces_of

_PIECE = 1 << 20
_MAX_BLOCKS = 50_000
_BLOCK_ID = re.compile(r"[A-Za-z0-9+/=]{1,128}")


def put(request: StorageRequest) -> ApiResponse:
    """Creates a blob from the body."""
    kind = request.call.headers.get("x-ms-blob-type", "")
    if kind.lower() != "blockblob":
        code = "InvalidHeaderValue" if kind else "MissingRequiredHeader"
        text = f"x-ms-blob-type must be BlockBlob, not {kind!r}: page and append blobs are not kept here."
        raise StorageApiError(400, code, text)
    _check_target(request)
    record = StorageRecord(
        storage_metadata.parse_metadata(request.call), storage_metadata.put_blob_properties(request.call)
    )
    return ApiResponse(201, headers=_create_blob(request, _checked_body(request), record))


def put_block(request: StorageRequest) -> ApiResponse:
    """Stores an uncommitted block."""
    request.check_share()
    id = request.call.query.get("blockid", "")
    if not _BLOCK_ID.fullmatch(id):
        raise StorageApiError(400, "InvalidQueryParameterValue", f"blockid must be base64, not {id!r}.")
    with request.uploads.part_file(request.resource) as part:
        _make_folders(request, part)
        _write(request, part, _checked_body(request))
    request.uploads.add_block(request.resource, id, part)
    return ApiResponse(201, headers={"x-ms-request-server-encrypted": "true"})


def put_block_list(request: StorageRequest) -> ApiResponse:
    """Commits a list of blocks as a blob, in order."""
    _check_target(request)
    blocks, ids = request.uploads.blocks(request.resource), _block_ids(request.call.body)
    record = StorageRecord(
        storage_metadata.parse_metadata(request.call), storage_metadata.blob_properties(request.call)
    )
    if not set(ids) <= set(blocks):
        raise StorageApiError(400, "InvalidBlockList", "The specified block list is invalid.")
    pieces = (piece for id in ids for piece in _read(request, request.share, blocks[id]))
    response_headers = _create_blob(request, pieces, record)
    request.uploads.drop_blocks(request.resource)
    return ApiResponse(201, headers=response_headers)


def read(request: StorageRequest) -> ApiResponse:
    """Reads a blob, or a range of it."""
    blob = _get_blob(request)
    storage_request.read_conditions(request.call.headers).check_read(blob_version(blob, request.record))
    headers, mask = _blob_headers(request, blob), job_handlers.byte_mask(request.context, request.path)
    read_bytes = partial(request.storage.read, request.share, request.path)
    return content_response(request.call, headers, blob.size_bytes, read_bytes, mask)


def show(request: StorageRequest) -> ApiResponse:
    """The properties of a blob."""
    blob = _get_blob(request)
    storage_request.read_conditions(request.call.headers).check_read(blob_version(blob, request.record))
    size = {"Content-Length": str(blob.size_bytes)} if request.call.method == "HEAD" else {}
    return ApiResponse(200, body=b"", headers={**_blob_headers(request, blob), **size})


def set_metadata(request: StorageRequest) -> ApiResponse:
    """Replaces the metadata of a blob."""
    new_values = storage_metadata.parse_metadata(request.call)
    return ApiResponse(
        200, headers=_change_record(request, lambda record: replace(record, metadata=new_values))
    )


def set_properties(request: StorageRequest) -> ApiResponse:
    """Replaces the content properties of a blob; omitted ones are cleared."""
    new_values = storage_metadata.blob_properties(request.call)
    return ApiResponse(
        200, headers=_change_record(request, lambda record: replace(record, properties=new_values))
    )


COPY_SOURCE = "x-ms-copy-source"
_SOURCE_CONDITION = "x-ms-source-"


def copy(request: StorageRequest) -> ApiResponse:
    """Copies a file or blob of the account; complete when the response is sent."""
    headers = request.call.headers
    _check_target(request)
    source = resource_of_url(headers[COPY_SOURCE], request.resource.service)
    share, is_same_account = source.backend_share, source.account == request.resource.account
    has_share = is_same_account and source.path and request.storage.has(share)
    file = show_or_none(request.storage.show, share, source.path) if has_share else None
    if file is None or not file.is_file:
        message = f"The source {source.share}/{source.path} is not a file of this account."
        raise StorageApiError(404, "CannotVerifyCopySource", message)
    record = request.context.metadata.record(source.key)
    conditions = {
        name.removeprefix(_SOURCE_CONDITION): value
        for name, value in headers.items()
        if name.startswith(_SOURCE_CONDITION)
    }
    storage_request.write_conditions(conditions).check_write(blob_version(file, record))
    metadata = storage_metadata.parse_metadata(request.call) or record.metadata
    pieces = _read(request, share, source.path)
    response_headers = _create_blob(request, pieces, StorageRecord(metadata, record.properties))
    copy_headers = {"x-ms-copy-id": str(uuid.uuid4()), "x-ms-copy-status": "success"}
    is_put = "x-ms-blob-type" in headers  # Put Blob From URL, which is always synchronous
    return ApiResponse(201 if is_put else 202, headers={**response_headers, **copy_headers})


def delete(request: StorageRequest) -> ApiResponse:
    """Deletes a blob."""
    conditions = storage_request.write_conditions(request.call.headers)
    with request.context.metadata.exclusive(request.resource.key):
        conditions.check_write(blob_version(_get_blob(request), request.record))
        request.storage.delete(request.share, request.path)
        request.context.metadata.set(request.resource.key, EMPTY_RECORD)
    return ApiResponse(202)


def _check_target(request: StorageRequest) -> None:
    """Raises StorageApiError if a blob may not be written: by conditions, by signature, or over a folder.

    A file has no conditions.
    """
    request.check_share()
    if request.resource.service == "file":
        share_files.check_create(request)
        return
    conditions = storage_request.write_conditions(request.call.headers)
    blob = show_or_none(request.storage.show, request.share, request.path)
    if blob and (blob.is_directory or conditions.none_match == ("*",)):
        raise StorageApiError(409, "BlobAlreadyExists", "The specified blob already exists.")
    conditions.check_write(blob_version(blob, request.record) if blob else None)
    if blob:
        request.check_may_replace(sas.CREATE_FILE)


def _commit(request: StorageRequest, part: str, record: StorageRecord) -> Mapping[str, str]:
    """Renames a part file to the blob or file if it may be written; returns its version headers."""
    with request.context.metadata.exclusive(request.resource.key):
        _check_target(request)
        request.storage.rename(request.share, part, request.path)
        request.context.metadata.set_new(request.resource, record)
        return version_headers(request.storage.show(request.share, request.path), request.record)


def _create_blob(request: StorageRequest, pieces: Iterator[bytes], record: StorageRecord) -> dict[str, str]:
    """Creates a blob, or a file, atomically from these chunks; returns the response headers."""
    with request.uploads.part_file(request.resource) as part:
        if request.resource.service == "blob":
            _make_folders(request, part)
        _write(request, part, pieces)
        response_headers = _commit(request, part, record)
    request.uploads.parts.end(part)
    return {**response_headers, "x-ms-request-server-encrypted": "true"}


def _change_record(
    request: StorageRequest, change: Callable[[StorageRecord], StorageRecord]
) -> dict[str, str]:
    """Changes the record of a blob if the request's conditions hold; returns the response headers."""
    conditions, store = storage_request.write_conditions(request.call.headers), request.context.metadata
    with store.exclusive(request.resource.key):
        blob = _get_blob(request)
        conditions.check_write(blob_version(blob, request.record))
        store.set(request.resource.key, change(request.record).revised(changed=time.time()))
        return {**version_headers(blob, request.record), "x-ms-request-server-encrypted": "true"}


def _make_folders(request: StorageRequest, part: str) -> None:
    """Creates the folders of a part file: a container has none of its own."""
    for folder in reversed(PurePosixPath(part).parents):
        if str(folder) != ".":
            request.storage.make_folder(request.share, str(folder))


def _write(request: StorageRequest, part: str, pieces: Iterator[bytes]) -> None:
    """Writes a hidden part file."""
    request.storage.resize(request.share, part, 0)
    offset = 0
    for piece in pieces:
        request.storage.change(request.share, part, offset, piece)
        offset += len(piece)


def _read(request: StorageRequest, share: str, path: str) -> Iterator[bytes]:
    """All bytes of a file."""
    return pieces_of(partial(request.storage.read, share, path), 0, 1 << 62)


def _block_ids(body: bytes) -> list[str]:
    invalid = StorageApiError(400, "InvalidXmlDocument", "The block list is not XML.")
    if b"<!" in body:  # block lists contain no entities
        raise invalid
    try:
        ids = [item.text or "" for item in ElementTree.fromstring(body)]
    except ElementTree.ParseError:
        raise invalid from None
    if len(ids) > _MAX_BLOCKS:
        raise StorageApiError(400, "BlockListTooLong", "A block list has at most 50,000 blocks.")
    return ids


def _get_blob(request: StorageRequest) -> ShareFile:
    request.check_share()
    blob = show_or_none(request.storage.show, request.share, request.path)
    if blob is None or not blob.is_file:
        raise StorageApiError(404, "BlobNotFound", "The specified blob does not exist.")
    return blob


def _blob_headers(request: StorageRequest, blob: ShareFile) -> dict[str, str]:
    record = request.record
    return {
        **version_headers(blob, record),
        **storage_metadata.property_headers(request.call, record.properties),
        **storage_metadata.metadata_headers(record.metadata),
        "x-ms-blob-type": "BlockBlob",
        "x-ms-lease-state": "available",
        "x-ms-lease-status": "unlocked",
    }


def _checked_body(request: StorageRequest) -> Iterator[bytes]:
    """The body in pieces; StorageApiError (400) after the last one if their MD5 is not the header's."""
    expected_md5, digest = request.call.headers.get("content-md5"), hashlib.md5(usedforsecurity=False)
    for piece in request.call.body_chunks(_PIECE):
        if expected_md5:
            digest.update(piece)
        yield piece
    if expected_md5 and base64.b64encode(digest.digest()).decode() != expected_md5:
        raise StorageApiError(400, "Md5Mismatch", "The MD5 value of the body does not match its header.")
