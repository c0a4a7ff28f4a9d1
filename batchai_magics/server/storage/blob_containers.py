"""Blob containers, and lists of containers and blobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from email.utils import parsedate_to_datetime
from xml.sax.saxutils import escape

from batchai_magics.backends.base import ShareFile
from batchai_magics.errors import NotFoundError
from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.storage import storage_metadata, storage_request
from batchai_magics.server.storage.file_shares import (
    create_share,
    listed_metadata,
    share_entries,
    share_headers,
    share_names,
)
from batchai_magics.server.storage.storage_request import StorageRequest, version_headers
from batchai_magics.server.storage.storage_responses import (
    ListEntries,
    NamePage,
    list_response,
    name_element,
    name_page,
)
from batchai_magics.server.storage.unfinished_uploads import is_part


def create(request: StorageRequest) -> ApiResponse:
    """Creates a container."""
    return create_share(request, noun="container")


def show(request: StorageRequest) -> ApiResponse:
    """The properties of a container."""
    request.check_share()
    return ApiResponse(200, body=b"", headers={**share_headers(request), **request.metadata_headers})


def set_metadata(request: StorageRequest) -> ApiResponse:
    """Replaces the metadata of a container."""
    new_metadata = storage_metadata.parse_metadata(request.call)
    request.check_share()
    _check_conditions(request, "if-modified-since")
    request.context.metadata.set_metadata(request.resource.key, new_metadata)
    return ApiResponse(200, body=b"", headers=share_headers(request))


def delete(request: StorageRequest) -> ApiResponse:
    """Deletes a container and its blobs."""
    request.check_share()
    _check_conditions(request, "if-modified-since", "if-unmodified-since")
    request.storage.remove(request.share)
    request.context.metadata.forget(request.resource.key)
    return ApiResponse(202)


def _check_conditions(request: StorageRequest, *supported: str) -> None:
    stamp = share_headers(request)
    version = storage_request.BlobVersion(stamp["ETag"], parsedate_to_datetime(stamp["Last-Modified"]))
    storage_request.container_conditions(request.call.headers, *supported).check_write(version)


def list_all(request: StorageRequest) -> ApiResponse:
    """Lists the containers of the account."""
    entries = _container_entries(request, name_page(request.call, share_names(request)))
    return list_response(request.call, {"ServiceEndpoint": f"{request.call.origin}/"}, entries)


def list_account(request: StorageRequest) -> ApiResponse:
    """Lists shares and containers of the account in one response.

    Such a request does not tell which of them is meant; clients read the list they know.
    """
    files, blobs = (request.with_service(service) for service in ("file", "blob"))
    backend = request.context.backend
    shares = share_names(files) if backend.storage else []
    names = share_names(blobs) if backend.containers else []
    page = name_page(request.call, sorted({*shares, *names}))
    lists = share_entries(files, page.of(shares)), _container_entries(blobs, page.of(names))
    return list_response(request.call, {"ServiceEndpoint": f"{request.call.origin}/"}, *lists)


def _container_entries(request: StorageRequest, page: NamePage) -> ListEntries:
    stamp = share_headers(request)
    times = f"<Last-Modified>{stamp['Last-Modified']}</Last-Modified><Etag>{escape(stamp['ETag'])}</Etag>"
    properties = f"<Properties>{times}</Properties>"
    inner = [
        f"<Container><Name>{name}</Name>{properties}{listed_metadata(request, name)}</Container>"
        for name in page.items
    ]
    return ListEntries("Containers", inner, page.next)


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
