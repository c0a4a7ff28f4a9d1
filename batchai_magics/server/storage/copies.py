"""Files that are copied on the server: from any share of the account, whole or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from batchai_magics.server.call import Answer, Call, text_in_url
from batchai_magics.server.storage import blobs, conditions, files, metadata
from batchai_magics.server.storage.context import Asked, stamps, version_of
from batchai_magics.server.storage.errors import StorageRefusal
from batchai_magics.server.storage.metadata import Record
from batchai_magics.server.storage.request import Resource, place_of_url, share_of

SOURCE = "x-ms-copy-source"
_PIECE = 1 << 20


def copy(asked: Asked) -> Answer:
    """Makes a file or blob a copy of another one; it is done when this is answered."""
    source, is_blob = _source(asked), asked.resource.service == "blob"
    asked.check_share()
    (blobs.check_target if is_blob else files.check_create)(asked)
    share = share_of(source)
    found = asked.storage.show(share, source.path)
    if not found.is_file:
        raise no_source(asked.call)
    record = asked.service.metadata.record(source.key)
    conditions.of_copy_source(asked.call.headers).check_write(version_of(found, record))
    record = Record(metadata.said(asked.call) or record.metadata, record.properties)
    with asked.uploads.made(asked.storage, asked.resource, asked.share) as part:
        asked.storage.resize(asked.share, part, 0)
        offset = 0
        for piece in _pieces(asked, share, source.path):
            asked.storage.change(asked.share, part, offset, piece)
            offset += len(piece)
        stamp = blobs.place(asked, part, record) if is_blob else _place(asked, part, record)
    asked.uploads.parts.end(part)
    told = {"x-ms-copy-id": str(uuid.uuid4()), "x-ms-copy-status": "success"}
    return Answer(202, headers={**stamp, **told})


def _place(asked: Asked, part: str, record: Record) -> Mapping[str, str]:
    with asked.service.metadata.exclusive(asked.resource.key):
        files.check_create(asked)
        asked.storage.rename(asked.share, part, asked.path)
        asked.service.metadata.keep_new(asked.resource, record)
        return stamps(asked.storage.show(asked.share, asked.path))


def _pieces(asked: Asked, share: str, path: str) -> Iterator[bytes]:
    offset = 0
    while data := asked.storage.read(share, path, offset, _PIECE):
        yield data
        offset += len(data)


def _source(asked: Asked) -> Resource:
    """The file that is copied, which is one of the same account."""
    found = place_of_url(asked.call.headers[SOURCE], asked.resource.service)
    is_theirs = found.account == asked.resource.account and found.path
    if not is_theirs or share_of(found) not in asked.storage.shares():
        raise no_source(asked.call)
    return found


def no_source(call: Call) -> StorageRefusal:
    """The error for a source that is no file, or none that the request may read."""
    path = text_in_url(urlsplit(call.headers[SOURCE]).path, f"The header {SOURCE}")
    message = f"The source {path!r} is no file of this account that the request may read."
    return StorageRefusal(404, "CannotVerifyCopySource", message)
