"""File shares and their folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from xml.sax.saxutils import escape

from batchai_magics.backends.base import ShareFile
from batchai_magics.errors import NotFoundError
from batchai_magics.models.job_execution import FileKind
from batchai_magics.models.resource_ids import check_share_name
from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.storage import storage_metadata
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


def create_share(request: StorageRequest, *, noun: str = "share") -> ApiResponse:
    """Creates a share, or a container."""
    check_share_name(request.share)
    if request.share in request.storage.shares():
        code = f"{noun.capitalize()}AlreadyExists"
        raise StorageApiError(409, code, f"The specified {noun} already exists.")
    new_metadata = storage_metadata.parse_metadata(request.call)
    request.storage.make(request.share)
    request.context.metadata.set_metadata(request.resource.key, new_metadata)
    return ApiResponse(201, headers=share_headers(request))


def show_share(request: StorageRequest) -> ApiResponse:
    """The properties of a share."""
    request.check_share()
    quota = {"x-ms-share-quota": str(_SHARE_QUOTA_GB)}
    return ApiResponse(200, body=b"", headers={**share_headers(request), **request.metadata_headers, **quota})


def delete_share(request: StorageRequest) -> ApiResponse:
    """Deletes a share and all files on it."""
    request.check_share()
    request.storage.remove(request.share)
    request.context.metadata.forget(request.resource.key)
    return ApiResponse(202)


def set_metadata(request: StorageRequest) -> ApiResponse:
    """Replaces the metadata of a share or folder."""
    new_metadata = storage_metadata.parse_metadata(request.call)
    folder = show_folder(request)
    request.context.metadata.set_metadata(request.resource.key, new_metadata)
    return ApiResponse(
        200, body=b"", headers={name: folder.headers[name] for name in ("ETag", "Last-Modified")}
    )


def list_shares(request: StorageRequest) -> ApiResponse:
    """Lists the shares of the account."""
    page = name_page(request.call, share_names(request))
    entries = share_entries(request, page)
    return list_response(request.call, {"ServiceEndpoint": f"{request.call.origin}/"}, entries)


def share_entries(request: StorageRequest, page: NamePage) -> ListEntries:
    """The shares of a page as XML."""
    now = share_headers(request)
    inner = [
        f"<Share><Name>{name}</Name><Properties><Last-Modified>{now['Last-Modified']}</Last-Modified>"
        f"<Etag>{escape(now['ETag'])}</Etag><Quota>{_SHARE_QUOTA_GB}</Quota></Properties>"
        f"{listed_metadata(request, name)}</Share>"
        for name in page.items
    ]
    return ListEntries("Shares", inner, page.next)


def share_names(request: StorageRequest) -> list[str]:
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
    """The properties of a folder, or of the share's root."""
    request.check_share()
    if not request.path:
        return ApiResponse(200, body=b"", headers={**share_headers(request), **request.metadata_headers})
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
    return (
        wanted
        if request.is_own_client
        else {name: file for name, file in wanted.items() if _is_published(file)}
    )


def _is_published(file: ShareFile) -> bool:
    """Whether Azure Files has this kind of file."""
    return file.is_file or file.is_directory


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


def share_headers(request: StorageRequest) -> Mapping[str, str]:
    """The version headers of a share, which has no modification time of its own here."""
    return version_headers(ShareFile(request.resource.share, FileKind.DIRECTORY, 0, _EPOCH))


def listed_metadata(request: StorageRequest, name: str) -> str:
    """The metadata of a listed share or container, if the request includes them."""
    return storage_metadata.metadata_element(
        request.call, request.context.metadata.metadata_of(replace(request.resource, share=name).key)
    )
