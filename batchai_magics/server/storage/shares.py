"""File shares with their folders, blob containers, and lists of both and of what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
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
    ListEntries,
    NamePage,
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
    if request.share in request.storage.shares():
        code = f"{request.noun.capitalize()}AlreadyExists"
        raise StorageApiError(409, code, f"The specified {request.noun} already exists.")
    new_metadata = storage_metadata.parse_metadata(request.call)
    request.storage.make(request.share)
    request.context.metadata.set_metadata(request.resource.key, new_metadata)
    return ApiResponse(201, headers=_share_headers(request))


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
    shown = show_folder(request).headers
    _check_conditions(request, "if-modified-since")
    request.context.metadata.set_metadata(request.resource.key, new_metadata)
    return ApiResponse(200, body=b"", headers={name: shown[name] for name in ("ETag", "Last-Modified")})


def _check_conditions(request: StorageRequest, *supported: str) -> None:
    """Raises StorageApiError (412) unless the conditions of a request hold, which containers alone have."""
    if request.resource.service == "file":
        return
    stamp = _share_headers(request)
    version = storage_request.BlobVersion(stamp["ETag"], parsedate_to_datetime(stamp["Last-Modified"]))
    storage_request.container_conditions(request.call.headers, *supported).check_write(version)


def list_shares(request: StorageRequest) -> ApiResponse:
    """Lists the shares of the account; for our own client, its containers as if they were shares."""
    page = name_page(request.call, _share_names(request))
    return _list_response(request, _share_entries(request, page, "Share"))


def list_containers(request: StorageRequest) -> ApiResponse:
    """Lists the containers of the account."""
    page = name_page(request.call, _share_names(request))
    return _list_response(request, _share_entries(request, page, "Container"))


def list_account(request: StorageRequest) -> ApiResponse:
    """Lists shares and containers of the account in one response.

    Such a request does not tell which of them is meant; clients read the list they know.
    """
    files, blobs = (request.with_service(service) for service in ("file", "blob"))
    backend = request.context.backend
    shares = _share_names(files) if backend.storage else []
    containers = _share_names(blobs) if backend.containers else []
    page = name_page(request.call, sorted({*shares, *containers}))
    return _list_response(
        request,
        _share_entries(files, page.of(shares), "Share"),
        _share_entries(blobs, page.of(containers), "Container"),
    )


def _list_response(request: StorageRequest, *lists: ListEntries) -> ApiResponse:
    return list_response(request.call, {"ServiceEndpoint": f"{request.call.origin}/"}, *lists)


def _share_entries(request: StorageRequest, page: NamePage, element: str) -> ListEntries:
    """The shares or containers of a page as XML."""
    stamp = _share_headers(request)
    times = f"<Last-Modified>{stamp['Last-Modified']}</Last-Modified><Etag>{escape(stamp['ETag'])}</Etag>"
    quota = f"<Quota>{_SHARE_QUOTA_GB}</Quota>" if element == "Share" else ""
    inner = [
        f"<{element}><Name>{name}</Name><Properties>{times}{quota}</Properties>"
        f"{_listed_metadata(request, name)}</{element}>"
        for name in page.items
    ]
    return ListEntries(f"{element}s", inner, page.next)


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
    if not request.path:
        quota = {"x-ms-share-quota": str(_SHARE_QUOTA_GB)} if request.resource.service == "file" else {}
        headers = {**_share_headers(request), **request.metadata_headers, **quota}
        return ApiResponse(200, body=b"", headers=headers)
    folder = request.storage.show(request.share, request.path)
    if not folder.is_directory:
        raise StorageApiError(404, "ResourceNotFound", "The specified resource does not exist.")
    return ApiResponse(200, body=b"", headers={**version_headers(folder), **request.metadata_headers})


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
    files = _visible_entries(request)
    page = name_page(request.call, list(files))
    inner = [_entry_xml(name, files[name], is_kind_wanted=request.is_own_client) for name in page.items]
    attributes = {
        "ServiceEndpoint": f"{request.call.origin}/",
        "ShareName": request.resource.share,
        "DirectoryPath": request.path,
    }
    return list_response(request.call, attributes, ListEntries("Entries", inner, page.next))


def _visible_entries(request: StorageRequest) -> dict[str, ShareFile]:
    """The complete entries with the requested prefix, by name; links and pipes only for our own client."""
    prefix = request.call.query.get("prefix", "")
    entries = {
        file.path.rsplit("/", 1)[-1]: file for file in request.storage.list(request.share, request.path)
    }
    wanted = {name: file for name, file in entries.items() if name.startswith(prefix) and not is_part(name)}
    if request.is_own_client:
        return wanted
    return {name: file for name, file in wanted.items() if file.is_file or file.is_directory}


def _entry_xml(name: str, file: ShareFile, *, is_kind_wanted: bool) -> str:
    """An entry of a folder as XML; `Attributes` holds its kind for our own client."""
    stamp = version_headers(file)
    size = "" if file.is_directory else f"<Content-Length>{file.size_bytes}</Content-Length>"
    properties = (
        f"<Properties>{size}<LastWriteTime>{stamp['x-ms-file-last-write-time']}</LastWriteTime>"
        f"<Last-Modified>{stamp['Last-Modified']}</Last-Modified><Etag>{escape(stamp['ETag'])}</Etag></Properties>"
    )
    kind = f"<Attributes>{file.kind.value}</Attributes>" if is_kind_wanted else ""
    element = "Directory" if file.is_directory else "File"
    return f"<{element}>{name_element(name)}{properties}{kind}</{element}>"


def _share_headers(request: StorageRequest) -> Mapping[str, str]:
    """The version headers of a share, which has no modification time of its own here."""
    return version_headers(ShareFile(request.resource.share, FileKind.DIRECTORY, 0, _EPOCH))


def _listed_metadata(request: StorageRequest, name: str) -> str:
    """The metadata of a listed share or container, if the request includes them."""
    return storage_metadata.metadata_element(
        request.call, request.context.metadata.metadata_of(replace(request.resource, share=name).key)
    )


def list_blobs(request: StorageRequest) -> ApiResponse:
    """Lists the blobs of a container; with a delimiter, one level of them and the prefixes of the rest."""
    request.check_share()
    prefix, delimiter = request.call.query.get("prefix", ""), request.call.query.get("delimiter", "")
    blobs = {
        blob.path: blob for blob in _walk(request, prefix.rpartition("/")[0]) if blob.path.startswith(prefix)
    }
    names = sorted({_collapse(name, prefix, delimiter) for name in blobs}) if delimiter else sorted(blobs)
    page = name_page(request.call, names)
    inner = [
        _blob_xml(request, blobs[name]) if name in blobs else f"<BlobPrefix>{name_element(name)}</BlobPrefix>"
        for name in page.items
    ]
    attributes = {"ServiceEndpoint": f"{request.call.origin}/", "ContainerName": request.resource.share}
    return list_response(request.call, attributes, ListEntries("Blobs", inner, page.next))


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


def _collapse(name: str, prefix: str, delimiter: str) -> str:
    """The name, or its part up to the first delimiter after the prefix."""
    head, sign, _ = name[len(prefix) :].partition(delimiter)
    return f"{prefix}{head}{sign}"


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
