"""File shares with their folders, blob containers, and lists of both and of their contents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from xml.sax.saxutils import escape

from batchai_magics.backends.base import ShareFile
from batchai_magics.errors import NotFoundError
from batchai_magics.models.job_execution import FileKind
from batchai_magics.models.resource_ids import check_share_name
from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.storage import storage_metadata, storage_request
from batchai_magics.server.storage.storage_request import StorageRequest, version_headers
from batchai_magics.server.storage.storage_resource import StorageApiError, resource_of_share
from batchai_magics.server.storage.storage_responses import (
    list_response,
    name_element,
    name_page,
)
from batchai_magics.server.storage.unfinished_uploads import is_part

_SHARE_QUOTA_GB = 5120
_EPOCH = datetime(2018, 5, 1, tzinfo=timezone.utc)


def create(request: StorageRequest) -> ApiResponse:
    """Creates a share or container."""
    check_share_name(request.share)
    if request.storage.has(request.share):
        code = f"{request.noun.capitalize()}AlreadyExists"
        raise StorageApiError(409, code, f"The specified {request.noun} already exists.")
    new_metadata = storage_metadata.parse_metadata(request.call)
    request.storage.make(request.share)
    request.context.metadata.set_metadata(request.resource.key, new_metadata)
    return ApiResponse(201, headers=version_headers(_share_file(request)))


def delete(request: StorageRequest) -> ApiResponse:
    """Deletes a share or container with everything in it."""
    request.check_share()
    _check_conditions(request, "if-modified-since", "if-unmodified-since")
    request.storage.remove(request.share)
    request.context.metadata.forget(request.resource.key)
    return ApiResponse(202)


def set_metadata(request: StorageRequest) -> ApiResponse:
    """Replaces the metadata of a share, container or folder."""
    new_metadata = storage_metadata.parse_metadata(request.call)
    headers = show_folder(request).headers
    _check_conditions(request, "if-modified-since")
    request.context.metadata.set_metadata(request.resource.key, new_metadata)
    return ApiResponse(200, body=b"", headers={name: headers[name] for name in ("ETag", "Last-Modified")})


def _check_conditions(request: StorageRequest, *supported: str) -> None:
    """Raises StorageApiError (412) unless the conditions hold, which only requests to containers have."""
    if request.resource.service == "file":
        return
    dates = {name: value for name, value in request.call.headers.items() if name in supported}
    storage_request.write_conditions(dates).check_write(storage_request.blob_version(_share_file(request)))


def list_shares(request: StorageRequest) -> ApiResponse:
    """Lists the shares of the account; for our own client, its containers as if they were shares."""
    page = name_page(request.call, _share_names(request))
    return list_response(request.call, {"Shares": _share_elements(request, page.items, "Share")}, page.next)


def list_containers(request: StorageRequest) -> ApiResponse:
    """Lists the containers of the account."""
    page = name_page(request.call, _share_names(request))
    lists = {"Containers": _share_elements(request, page.items, "Container")}
    return list_response(request.call, lists, page.next)


def list_account(request: StorageRequest) -> ApiResponse:
    """Lists shares and containers of the account in one response.

    Such a request names neither service; clients read the list that they know.
    """
    files, blobs = (
        replace(request, resource=replace(request.resource, service=service)) for service in ("file", "blob")
    )
    backend = request.context.backend
    shares = _share_names(files) if backend.storage else []
    containers = _share_names(blobs) if backend.containers else []
    page = name_page(request.call, {*shares, *containers})
    lists = {
        "Shares": _share_elements(files, [name for name in page.items if name in shares], "Share"),
        "Containers": _share_elements(
            blobs, [name for name in page.items if name in containers], "Container"
        ),
    }
    return list_response(request.call, lists, page.next)


def _share_elements(request: StorageRequest, names: Sequence[str], element: str) -> list[str]:
    """Shares or containers as XML, with their metadata if the request includes it."""
    stamp = version_headers(_share_file(request))
    times = f"<Last-Modified>{stamp['Last-Modified']}</Last-Modified><Etag>{escape(stamp['ETag'])}</Etag>"
    quota = f"<Quota>{_SHARE_QUOTA_GB}</Quota>" if element == "Share" else ""
    elements = []
    for name in names:
        metadata = request.context.metadata.record(replace(request.resource, share=name).key).metadata
        elements.append(
            f"<{element}><Name>{name}</Name><Properties>{times}{quota}</Properties>"
            f"{storage_metadata.metadata_element(request.call, metadata)}</{element}>"
        )
    return elements


def _share_names(request: StorageRequest) -> list[str]:
    """The names of the account's shares or containers with the requested prefix."""
    prefix = request.call.query.get("prefix", "")
    resources = [resource_of_share(request.resource.service, share, "") for share in request.storage.shares()]
    names = [resource.share for resource in resources if resource.account == request.resource.account]
    return [name for name in names if name.startswith(prefix)]


def create_folder(request: StorageRequest) -> ApiResponse:
    """Creates a folder in an existing one."""
    request.check_share()
    new_metadata = storage_metadata.parse_metadata(request.call)
    try:
        request.storage.show(request.share, request.path)
    except NotFoundError:
        request.storage.make_folder(request.share, request.path)
        request.context.metadata.set_metadata(request.resource.key, new_metadata)
        return ApiResponse(201, headers=version_headers(request.storage.show(request.share, request.path)))
    raise StorageApiError(409, "ResourceAlreadyExists", "The specified resource already exists.")


def show_folder(request: StorageRequest) -> ApiResponse:
    """The properties of a folder, of a share or of a container."""
    request.check_share()
    metadata = storage_metadata.metadata_headers(request.record.metadata)
    if not request.path:
        quota = {"x-ms-share-quota": str(_SHARE_QUOTA_GB)} if request.resource.service == "file" else {}
        headers = {**version_headers(_share_file(request)), **metadata, **quota}
        return ApiResponse(200, body=b"", headers=headers)
    folder = request.storage.show(request.share, request.path)
    if not folder.is_directory:
        raise StorageApiError(404, "ResourceNotFound", "The specified resource does not exist.")
    return ApiResponse(200, body=b"", headers={**version_headers(folder), **metadata})


def delete_folder(request: StorageRequest) -> ApiResponse:
    """Deletes an empty folder."""
    show_folder(request)
    if not request.path:
        raise StorageApiError(400, "InvalidInput", "The root of a share goes with the share.")
    if request.storage.list(request.share, request.path):
        raise StorageApiError(409, "DirectoryNotEmpty", "The specified directory is not empty.")
    request.storage.delete(request.share, request.path)
    request.context.metadata.forget(request.resource.key)
    return ApiResponse(202)


def list_folder(request: StorageRequest) -> ApiResponse:
    """Lists one level of a folder."""
    request.check_share()
    prefix, is_own_client = request.call.query.get("prefix", ""), request.is_own_client
    files: dict[str, ShareFile] = {}
    for file in request.storage.list(request.share, request.path):
        name = file.path.rsplit("/", 1)[-1]
        has_known_kind = is_own_client or file.is_file or file.is_directory  # no links, no pipes
        if name.startswith(prefix) and has_known_kind and not is_part(name):
            files[name] = file
    page = name_page(request.call, files)
    entries = [_entry_xml(name, files[name], has_kind=is_own_client) for name in page.items]
    return list_response(
        request.call,
        {"Entries": entries},
        page.next,
        ShareName=request.resource.share,
        DirectoryPath=request.path,
    )


def _entry_xml(name: str, file: ShareFile, *, has_kind: bool) -> str:
    """An entry of a folder as XML; `Attributes` holds its kind for our own client."""
    stamp = version_headers(file)
    size = "" if file.is_directory else f"<Content-Length>{file.size_bytes}</Content-Length>"
    properties = (
        f"<Properties>{size}<LastWriteTime>{stamp['x-ms-file-last-write-time']}</LastWriteTime>"
        f"<Last-Modified>{stamp['Last-Modified']}</Last-Modified><Etag>{escape(stamp['ETag'])}</Etag></Properties>"
    )
    kind = f"<Attributes>{file.kind.value}</Attributes>" if has_kind else ""
    element = "Directory" if file.is_directory else "File"
    return f"<{element}>{name_element(name)}{properties}{kind}</{element}>"


def _share_file(request: StorageRequest) -> ShareFile:
    """The share, which has no modification time of its own here."""
    return ShareFile(request.resource.share, FileKind.DIRECTORY, 0, _EPOCH)


def list_blobs(request: StorageRequest) -> ApiResponse:
    """Lists the blobs of a container; with a delimiter, one level of them and the prefixes of the rest."""
    request.check_share()
    prefix, delimiter = request.call.query.get("prefix", ""), request.call.query.get("delimiter", "")
    blobs = {
        blob.path: blob for blob in _walk(request, prefix.rpartition("/")[0]) if blob.path.startswith(prefix)
    }
    names = set(blobs)
    if delimiter:  # each name ends with the first one after the prefix
        ends = (name.find(delimiter, len(prefix)) for name in blobs)
        names = {
            name[: end + len(delimiter)] if end >= 0 else name for name, end in zip(blobs, ends, strict=True)
        }
    page = name_page(request.call, names)
    entries = [
        _blob_xml(request, blobs[name]) if name in blobs else f"<BlobPrefix>{name_element(name)}</BlobPrefix>"
        for name in page.items
    ]
    return list_response(request.call, {"Blobs": entries}, page.next, ContainerName=request.resource.share)


def _walk(request: StorageRequest, folder: str) -> Iterator[ShareFile]:
    """All files below a folder; none if it does not exist."""
    try:
        level = request.storage.list(request.share, folder)
    except NotFoundError:
        return
    for entry in level:
        if entry.is_directory:
            yield from _walk(request, entry.path)
        elif entry.is_file and not is_part(entry.path):
            yield entry


def _blob_xml(request: StorageRequest, blob: ShareFile) -> str:
    record = request.context.metadata.record(replace(request.resource, path=blob.path).key)
    stamp = version_headers(blob, record)
    return (
        f"<Blob>{name_element(blob.path)}<Properties><Last-Modified>{stamp['Last-Modified']}</Last-Modified>"
        f"<Etag>{escape(stamp['ETag'])}</Etag><Content-Length>{blob.size_bytes}</Content-Length>"
        f"{storage_metadata.property_elements(record.properties)}<BlobType>BlockBlob</BlobType>"
        "<LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState></Properties>"
        f"{storage_metadata.metadata_element(request.call, record.metadata)}</Blob>"
    )
