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
from batchai_magics.server.call import Answer
from batchai_magics.server.storage import metadata
from batchai_magics.server.storage.context import Asked, stamps
from batchai_magics.server.storage.errors import StorageRefusal
from batchai_magics.server.storage.listing import Entries, NamePage, name_element, page_of, xml
from batchai_magics.server.storage.part_files import is_part
from batchai_magics.server.storage.request import resource_at

_SHARE_QUOTA_GB = 5120
_EPOCH = datetime(2018, 5, 1, tzinfo=timezone.utc)


def create_share(asked: Asked) -> Answer:
    """Makes a share."""
    check_share_name(asked.share)
    if asked.share in asked.storage.shares():
        raise StorageRefusal(409, "ShareAlreadyExists", "The specified share already exists.")
    kept = metadata.said(asked.call)
    asked.storage.make(asked.share)
    asked.service.metadata.keep_metadata(asked.resource.key, kept)
    return Answer(201, headers=share_stamps(asked))


def show_share(asked: Asked) -> Answer:
    """What there is to say of a share."""
    asked.check_share()
    quota = {"x-ms-share-quota": str(_SHARE_QUOTA_GB)}
    return Answer(200, body=b"", headers={**share_stamps(asked), **asked.metadata_headers, **quota})


def delete_share(asked: Asked) -> Answer:
    """Deletes a share with all on it."""
    asked.check_share()
    asked.storage.remove(asked.share)
    asked.service.metadata.forget(asked.resource.key)
    return Answer(202)


def keep_metadata(asked: Asked) -> Answer:
    """Gives a share or a folder other metadata."""
    kept = metadata.said(asked.call)
    shown = show_folder(asked)
    asked.service.metadata.keep_metadata(asked.resource.key, kept)
    return Answer(200, body=b"", headers={name: shown.headers[name] for name in ("ETag", "Last-Modified")})


def list_shares(asked: Asked) -> Answer:
    """The shares of the account."""
    page = page_of(asked.call, names_in(asked))
    entries = share_entries(asked, page)
    return xml(asked.call, {"ServiceEndpoint": f"{asked.call.origin}/"}, entries)


def share_entries(asked: Asked, page: NamePage) -> Entries:
    """The shares of a page as XML."""
    now = share_stamps(asked)
    inner = [
        f"<Share><Name>{name}</Name><Properties><Last-Modified>{now['Last-Modified']}</Last-Modified>"
        f"<Etag>{escape(now['ETag'])}</Etag><Quota>{_SHARE_QUOTA_GB}</Quota></Properties>"
        f"{metadata_of(asked, name)}</Share>"
        for name in page.items
    ]
    return Entries("Shares", inner, page.next)


def names_in(asked: Asked) -> list[str]:
    """The names of the account's shares or containers that begin as the request wants."""
    prefix = asked.call.query.get("prefix", "")
    ours = [resource_at(asked.resource.service, share, "") for share in asked.storage.shares()]
    theirs = [found.share for found in ours if found.account == asked.resource.account]
    return [name for name in theirs if name.startswith(prefix)]


def create_folder(asked: Asked) -> Answer:
    """Makes a folder in one that is there."""
    asked.check_share()
    kept = metadata.said(asked.call)
    try:
        asked.storage.show(asked.share, asked.path)
    except NotFoundError:
        asked.storage.make_folder(asked.share, asked.path)
        asked.service.metadata.keep_metadata(asked.resource.key, kept)
        return Answer(201, headers=stamps(asked.storage.show(asked.share, asked.path)))
    raise StorageRefusal(409, "ResourceAlreadyExists", "The specified resource already exists.")


def show_folder(asked: Asked) -> Answer:
    """What there is to say of a folder; the share's root is one."""
    asked.check_share()
    if not asked.path:
        return Answer(200, body=b"", headers={**share_stamps(asked), **asked.metadata_headers})
    folder = asked.storage.show(asked.share, asked.path)
    if not folder.is_directory:
        raise StorageRefusal(404, "ResourceNotFound", "The specified resource does not exist.")
    return Answer(200, body=b"", headers={**stamps(folder), **asked.metadata_headers})


def delete_folder(asked: Asked) -> Answer:
    """Deletes an empty folder."""
    show_folder(asked)
    if not asked.path:
        raise StorageRefusal(400, "InvalidInput", "The root of a share goes with the share.")
    if asked.storage.list(asked.share, asked.path):
        raise StorageRefusal(409, "DirectoryNotEmpty", "The specified directory is not empty.")
    asked.storage.delete(asked.share, asked.path)
    asked.service.metadata.forget(asked.resource.key)
    return Answer(202)


def list_folder(asked: Asked) -> Answer:
    """One level of a folder."""
    asked.check_share()
    files = _shown_in(asked)
    page = page_of(asked.call, list(files))
    inner = [_entry(name, files[name], is_kind_wanted=asked.is_our_own) for name in page.items]
    attributes = {
        "ServiceEndpoint": f"{asked.call.origin}/",
        "ShareName": asked.resource.share,
        "DirectoryPath": asked.path,
    }
    return xml(asked.call, attributes, Entries("Entries", inner, page.next))


def _shown_in(asked: Asked) -> dict[str, ShareFile]:
    """What is shown of a folder, by name: what is whole and begins so; links and pipes to our own client."""
    prefix = asked.call.query.get("prefix", "")
    there = {file.path.rsplit("/", 1)[-1]: file for file in asked.storage.list(asked.share, asked.path)}
    wanted = {name: file for name, file in there.items() if name.startswith(prefix) and not is_part(name)}
    return wanted if asked.is_our_own else {name: file for name, file in wanted.items() if _is_known(file)}


def _is_known(file: ShareFile) -> bool:
    """Whether it is of a kind that Azure Files has."""
    return file.is_file or file.is_directory


def _entry(name: str, file: ShareFile, *, is_kind_wanted: bool) -> str:
    """Something in a folder as XML; what it is stands where the attributes of a file system do."""
    stamp = stamps(file)
    size = "" if file.is_directory else f"<Content-Length>{file.size_bytes}</Content-Length>"
    properties = (
        f"<Properties>{size}<LastWriteTime>{stamp['x-ms-file-last-write-time']}</LastWriteTime>"
        f"<Last-Modified>{stamp['Last-Modified']}</Last-Modified><Etag>{escape(stamp['ETag'])}</Etag></Properties>"
    )
    kind = f"<Attributes>{file.kind.value}</Attributes>" if is_kind_wanted else ""
    element = "Directory" if file.is_directory else "File"
    return f"<{element}>{name_element(name)}{properties}{kind}</{element}>"


def share_stamps(asked: Asked) -> Mapping[str, str]:
    """Those of a share itself: it has no time of its own here."""
    return stamps(ShareFile(asked.resource.share, FileKind.DIRECTORY, 0, _EPOCH))


def metadata_of(asked: Asked, name: str) -> str:
    """The metadata of a listed share or container, where the request wants them."""
    return metadata.element(asked.call, asked.service.metadata.of(replace(asked.resource, share=name).key))
