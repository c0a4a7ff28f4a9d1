"""Storage extensions for our own client: resumable uploads with digests, and packs of many small files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from batchai_magics.backends.base import ShareFile, Storage, api_errors
from batchai_magics.backends.service import extension_bodies
from batchai_magics.backends.service.extension_wire import DIGEST, RECEIVED
from batchai_magics.errors import NotFoundError
from batchai_magics.models.job_execution import FileKind
from batchai_magics.server.api_call import ApiCall, ApiResponse, invalid_content
from batchai_magics.server.batchai import job_handlers
from batchai_magics.server.handler_context import HandlerContext
from batchai_magics.server.storage.share_files import check_body
from batchai_magics.server.storage.storage_metadata import EMPTY_RECORD
from batchai_magics.server.storage.storage_request import StorageRequest, iso_time, version_headers
from batchai_magics.server.storage.storage_resource import (
    check_path,
    file_size_header,
    resource_of_share,
    storage_of,
    written_span,
)


def begin_upload(request: StorageRequest) -> ApiResponse:
    """Starts or resumes a chunked upload; responds with the number of bytes received so far."""
    size = file_size_header(request.call)
    request.check_share()
    received = request.storage.begin(request.share, request.path, size)
    return ApiResponse(201, headers={**_unfinished_headers(request), RECEIVED: str(received)})


def write_upload(request: StorageRequest) -> ApiResponse:
    """Writes the next chunk of an upload."""
    span = written_span(request.call)
    check_body(request, span.end - span.start)
    request.check_share()
    request.storage.write(request.share, request.path, span.start, request.call.body)
    return ApiResponse(201, headers={**_unfinished_headers(request), "x-ms-request-server-encrypted": "true"})


def finish_upload(request: StorageRequest) -> ApiResponse:
    """Moves a complete upload into place if its digest matches."""
    request.check_share()
    with request.context.metadata.exclusive(request.resource.key):
        request.storage.finish(request.share, request.path, request.call.headers.get(DIGEST, ""))
        request.context.metadata.set_new(request.resource, EMPTY_RECORD)
    return ApiResponse(200, headers=version_headers(request.storage.show(request.share, request.path)))


def _unfinished_headers(request: StorageRequest) -> Mapping[str, str]:
    return version_headers(ShareFile(request.path, FileKind.FILE, 0))


def store_files(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Stores the files of a pack on a share; none if one is damaged."""
    share = call.query.get("share", "")
    try:
        files = list(extension_bodies.unpack_files(call.body))
    except (ValueError, RecursionError) as error:
        raise invalid_content(str(error)) from None
    for file in files:
        if not file.is_intact:
            raise api_errors.damaged_upload(share, file.path)
    storage = _storage_of(context, call, share)
    contents = {check_path(file.path): file.data for file in files}
    resources = [resource_of_share(_service_of(call), share, path) for path in contents]
    with context.metadata.exclusive(*(resource.key for resource in resources)):
        storage.upload(share, contents)
        for resource in resources:
            context.metadata.set_new(resource, EMPTY_RECORD)
    stored = [storage.show(share, path) for path in contents]
    now = datetime.now(timezone.utc)
    return ApiResponse(data={"value": [iso_time(file.modified or now) for file in stored]})


def fetch_files(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Returns a pack of the files at `paths` that exist and fit together."""
    paths = call.json().get("paths")
    if not isinstance(paths, list) or len(paths) > extension_bodies.MAX_FILES:
        raise invalid_content(f"paths must be a list of at most {extension_bodies.MAX_FILES} paths")
    share = call.query.get("share", "")
    storage = _storage_of(context, call, share)
    files: dict[str, bytes] = {}
    free_bytes = extension_bodies.MAX_BYTES
    for path in (check_path(str(path)) for path in paths):
        try:
            data = storage.read(share, path, 0, free_bytes + 1)
            mask = job_handlers.byte_mask(context, path)
            data = mask(0, data) if mask else data
        except NotFoundError:  # requested individually later, which reports the error
            continue
        if len(data) <= free_bytes:
            files[path] = data
            free_bytes -= len(data)
    return ApiResponse(
        body=extension_bodies.pack_files(files), headers={"Content-Type": "application/octet-stream"}
    )


def _storage_of(context: HandlerContext, call: ApiCall, share: str) -> Storage:
    """The backend's shares or containers; raises if the share does not exist."""
    service = _service_of(call)
    storage = storage_of(context.backend, service)
    if not storage.has(share):
        raise api_errors.share_not_found(share, "container" if service == "blob" else "share")
    return storage


def _service_of(call: ApiCall) -> str:
    return "blob" if call.query.get("service") == "blob" else "file"
