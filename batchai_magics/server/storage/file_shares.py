"""Shares and their folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from xml.sax.saxutils import escape

from batchai_magics.backends.base import ShareFile
from batchai_magics.errors import NotFoundError
from batchai_magics.models.execution import FileKind
from batchai_magics.models.ids import check_share_name
from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.storage import storage_metadata
from batchai_magics.server.storage.storage_errors import StorageApiError
from batchai_magics.server.storage.storage_request import StorageRequest, version_headers
from batchai_magics.server.storage.storage_resource import resource_of_share
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


def create_share(asked: StorageRequest) -> ApiResponse:
    """Makes a share."""
    check_share_name(asked.share)
    if asked.share in asked.storage.shares():
        raise StorageApiError(409, "ShareAlreadyExists", "The specified share already exists.")
    kept = storage_metadata.parse_metadata(asked.call)
    asked.storage.make(asked.share)
    asked.service.metadata.keep_metadata(asked.resource.key, kept)
    return ApiResponse(201, headers=share_headers(asked))


def show_share(asked: StorageRequest) -> ApiResponse:
    """What there is to say of a share."""
    asked.check_share()
    quota = {"x-ms-share-quota": str(_SHARE_QUOTA_GB)}
    return ApiResponse(200, body=b"", headers={**share_headers(asked), **asked.metadata_headers, **quota})


def delete_share(asked: StorageRequest) -> ApiResponse:
    """Deletes a share with all on it."""
    asked.check_share()
    asked.storage.remove(asked.share)
    asked.service.metadata.forget(asked.resource.key)
    return ApiResponse(202)


def set_metadata(asked: StorageRequest) -> ApiResponse:
    """Gives a share or a folder other metadata."""
    kept = storage_metadata.parse_metadata(asked.call)
    shown = show_folder(asked)
    asked.service.metadata.keep_metadata(asked.resource.key, kept)
    return ApiResponse(
        200, body=b"", headers={name: shown.headers[name] for name in ("ETag", "Last-Modified")}
    )


def list_shares(asked: StorageRequest) -> ApiResponse:
    """The shares of the account."""
    page = name_page(asked.call, share_names(asked))
    entries = share_entries(asked, page)
    return list_response(asked.call, {"ServiceEndpoint": f"{asked.call.origin}/"}, entries)


def share_entries(asked: StorageRequest, page: NamePage) -> ListEntries:
    """The shares of a page as XML."""
    now = share_headers(asked)
    inner = [
        f"<Share><Name>{name}</Name><Properties><Last-Modified>{now['Last-Modified']}</Last-Modified>"
        f"<Etag>{escape(now['ETag'])}</Etag><Quota>{_SHARE_QUOTA_GB}</Quota></Properties>"
        f"{listed_metadata(asked, name)}</Share>"
        for name in page.items
    ]
    return ListEntries("Shares", inner, page.next)


def share_names(asked: StorageRequest) -> list[str]:
    """The names of the account's shares or containers that begin as the request wants."""
    prefix = asked.call.query.get("prefix", "")
    ours = [resource_of_share(asked.resource.service, share, "") for share in asked.storage.shares()]
    theirs = [found.share for found in ours if found.account == asked.resource.account]
    return [name for name in theirs if name.startswith(prefix)]


def create_folder(asked: StorageRequest) -> ApiResponse:
    """Makes a folder in one that is there."""
    asked.check_share()
    kept = storage_metadata.parse_metadata(asked.call)
    try:
        asked.storage.show(asked.share, asked.path)
    except NotFoundError:
        asked.storage.make_folder(asked.share, asked.path)
        asked.service.metadata.keep_metadata(asked.resource.key, kept)
        return ApiResponse(201, headers=version_headers(asked.storage.show(asked.share, asked.path)))
    raise StorageApiError(409, "ResourceAlreadyExists", "The specified resource already exists.")


def show_folder(asked: StorageRequest) -> ApiResponse:
    """What there is to say of a folder; the share's root is one."""
    asked.check_share()
    if not asked.path:
        return ApiResponse(200, body=b"", headers={**share_headers(asked), **asked.metadata_headers})
    folder = asked.storage.show(asked.share, asked.path)
    if not folder.is_directory:
        raise StorageApiError(404, "ResourceNotFound", "The specified resource does not exist.")
    return ApiResponse(200, body=b"", headers={**version_headers(folder), **asked.metadata_headers})


def delete_folder(asked: StorageRequest) -> ApiResponse:
    """Deletes an empty folder."""
    show_folder(asked)
    if not asked.path:
        raise StorageApiError(400, "InvalidInput", "The root of a share goes with the share.")
    if asked.storage.list(asked.share, asked.path):
        raise StorageApiError(409, "DirectoryNotEmpty", "The specified directory is not empty.")
    asked.storage.delete(asked.share, asked.path)
    asked.service.metadata.forget(asked.resource.key)
    return ApiResponse(202)


def list_folder(asked: StorageRequest) -> ApiResponse:
    """One level of a folder."""
    asked.check_share()
    files = _visible_entries(asked)
    page = name_page(asked.call, list(files))
    inner = [_entry_xml(name, files[name], is_kind_wanted=asked.is_our_own) for name in page.items]
    attributes = {
        "ServiceEndpoint": f"{asked.call.origin}/",
        "ShareName": asked.resource.share,
        "DirectoryPath": asked.path,
    }
    return list_response(asked.call, attributes, ListEntries("Entries", inner, page.next))


def _visible_entries(asked: StorageRequest) -> dict[str, ShareFile]:
    """What is shown of a folder, by name: what is whole and begins so; links and pipes to our own client."""
    prefix = asked.call.query.get("prefix", "")
    there = {file.path.rsplit("/", 1)[-1]: file for file in asked.storage.list(asked.share, asked.path)}
    wanted = {name: file for name, file in there.items() if name.startswith(prefix) and not is_part(name)}
    return (
        wanted if asked.is_our_own else {name: file for name, file in wanted.items() if _is_published(file)}
    )


def _is_published(file: ShareFile) -> bool:
    """Whether it is of a kind that Azure Files has."""
    return file.is_file or file.is_directory


def _entry_xml(name: str, file: ShareFile, *, is_kind_wanted: bool) -> str:
    """Something in a folder as XML; what it is stands where the attributes of a file system do."""
    stamp = version_headers(file)
    size = "" if file.is_directory else f"<Content-Length>{file.size_bytes}</Content-Length>"
    properties = (
        f"<Properties>{size}<LastWriteTime>{stamp['x-ms-file-last-write-time']}</LastWriteTime>"
        f"<Last-Modified>{stamp['Last-Modified']}</Last-Modified><Etag>{escape(stamp['ETag'])}</Etag></Properties>"
    )
    kind = f"<Attributes>{file.kind.value}</Attributes>" if is_kind_wanted else ""
    element = "Directory" if file.is_directory else "File"
    return f"<{element}>{name_element(name)}{properties}{kind}</{element}>"


def share_headers(asked: StorageRequest) -> Mapping[str, str]:
    """Those of a share itself: it has no time of its own here."""
    return version_headers(ShareFile(asked.resource.share, FileKind.DIRECTORY, 0, _EPOCH))


def listed_metadata(asked: StorageRequest, name: str) -> str:
    """The metadata of a listed share or container, where the request wants them."""
    return storage_metadata.metadata_element(
        asked.call, asked.service.metadata.of(replace(asked.resource, share=name).key)
    )
