"""Blobs: put whole or in blocks, read, deleted. A blob is in its container when all of it is there."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from xml.etree import ElementTree

from batchai_magics.backends.base import ShareFile
from batchai_magics.errors import NotFoundError
from batchai_magics.server.batchai import log_secrets
from batchai_magics.server.call import Answer
from batchai_magics.server.storage import conditions, metadata, permissions, properties
from batchai_magics.server.storage.content import content, wanted
from batchai_magics.server.storage.context import Asked, stamps, version_of
from batchai_magics.server.storage.errors import StorageRefusal
from batchai_magics.server.storage.metadata import NOTHING, Record
from batchai_magics.server.storage.request import Span

_PIECE = 1 << 20
_MOST_BLOCKS = 50_000
_BLOCK_ID = re.compile(r"[A-Za-z0-9+/=]{1,128}")


def put(asked: Asked) -> Answer:
    """Makes a blob of the body."""
    _check_type(asked)
    check_target(asked)
    record = Record(metadata.said(asked.call), properties.of_put_blob(asked.call))
    pieces = _digested(asked.call.pieces(_PIECE), asked.call.headers.get("content-md5"))
    return Answer(201, headers=_make(asked, pieces, record))


def put_block(asked: Asked) -> Answer:
    """Keeps a block of a blob that is to come."""
    asked.check_share()
    id = asked.call.query.get("blockid", "")
    if not _BLOCK_ID.fullmatch(id):
        raise StorageRefusal(400, "InvalidQueryParameterValue", f"blockid must be base64, not {id!r}.")
    with asked.uploads.made(asked.storage, asked.resource, asked.share) as part:
        _write(asked, part, _digested(asked.call.pieces(_PIECE), asked.call.headers.get("content-md5")))
    old = asked.uploads.keep_block(asked.resource, id, part)
    if old:
        asked.uploads.discard(asked.storage, asked.share, old)
    return Answer(201, headers={"x-ms-request-server-encrypted": "true"})


def put_block_list(asked: Asked) -> Answer:
    """Makes a blob of its blocks, in the order of the list."""
    check_target(asked)
    blocks, ids = asked.uploads.blocks(asked.resource), _block_ids(asked.call.body)
    record = Record(metadata.said(asked.call), properties.of_blob(asked.call))
    if not set(ids) <= set(blocks):
        raise StorageRefusal(400, "InvalidBlockList", "The specified block list is invalid.")
    stamp = _make(asked, (piece for id in ids for piece in _read(asked, blocks[id])), record)
    asked.uploads.drop_blocks(asked.storage, asked.resource, asked.share)
    return Answer(201, headers=stamp)


def read(asked: Asked) -> Answer:
    """A blob, or a range of it."""
    blob = _shown(asked)
    conditions.of_read(asked.call.headers).check_read(version_of(blob, asked.record))

    mask = log_secrets.for_anybody(asked.service, asked.path)

    def pieces(span: Span) -> Iterator[bytes]:
        start = span.start
        for data in _read(asked, asked.path, span):
            yield mask(start, data) if mask else data
            start += len(data)

    return content(_headers(asked, blob), blob.size_bytes, wanted(asked.call, blob.size_bytes), pieces)


def show(asked: Asked) -> Answer:
    """What there is to say of a blob."""
    blob = _shown(asked)
    conditions.of_read(asked.call.headers).check_read(version_of(blob, asked.record))
    size = {"Content-Length": str(blob.size_bytes)} if asked.call.method == "HEAD" else {}
    return Answer(200, body=b"", headers={**_headers(asked, blob), **size})


def set_metadata(asked: Asked) -> Answer:
    """Gives a blob other metadata."""
    said = metadata.said(asked.call)
    return Answer(200, headers=_change(asked, lambda record: replace(record, metadata=said)))


def set_properties(asked: Asked) -> Answer:
    """Gives a blob other properties of its content; those that are not said are cleared."""
    said = properties.of_blob(asked.call)
    return Answer(200, headers=_change(asked, lambda record: replace(record, properties=said)))


def delete(asked: Asked) -> Answer:
    """Deletes a blob."""
    wanted_state = conditions.of_write(asked.call.headers)
    with asked.service.metadata.exclusive(asked.resource.key):
        wanted_state.check_write(version_of(_shown(asked), asked.record))
        asked.storage.delete(asked.share, asked.path)
        asked.service.metadata.keep(asked.resource.key, NOTHING)
    return Answer(202)


def check_target(asked: Asked) -> None:
    """Raises where a blob may not be put: by the request's conditions or signature, or for a folder."""
    wanted_state = conditions.of_write(asked.call.headers)
    asked.check_share()
    found = _found(asked)
    if found and (found.is_directory or wanted_state.none_match == ("*",)):
        raise StorageRefusal(409, "BlobAlreadyExists", "The specified blob already exists.")
    wanted_state.check_write(version_of(found, asked.record) if found else None)
    if found:
        asked.check_may_replace(permissions.CREATE_FILE)


def place(asked: Asked, part: str, record: Record) -> Mapping[str, str]:
    """Puts a file that is whole in the place of the blob, if the request's conditions hold; its stamps."""
    with asked.service.metadata.exclusive(asked.resource.key):
        check_target(asked)
        asked.storage.rename(asked.share, part, asked.path)
        asked.service.metadata.keep_new(asked.resource, record)
        return stamps(_shown(asked), asked.record)


def _make(asked: Asked, pieces: Iterator[bytes], record: Record) -> dict[str, str]:
    """Makes a blob of these bytes: all of it is there, or nothing. What to say of it."""
    with asked.uploads.made(asked.storage, asked.resource, asked.share) as part:
        _write(asked, part, pieces)
        stamp = place(asked, part, record)
    asked.uploads.parts.end(part)
    return {**stamp, "x-ms-request-server-encrypted": "true"}


def _change(asked: Asked, change: Callable[[Record], Record]) -> dict[str, str]:
    """Changes what is kept of a blob, if the request's conditions hold. What to say of it."""
    wanted_state, kept = conditions.of_write(asked.call.headers), asked.service.metadata
    with kept.exclusive(asked.resource.key):
        blob = _shown(asked)
        wanted_state.check_write(version_of(blob, asked.record))
        kept.keep(asked.resource.key, change(asked.record).revised(changed=time.time()))
        return {**stamps(blob, asked.record), "x-ms-request-server-encrypted": "true"}


def _write(asked: Asked, part: str, pieces: Iterator[bytes]) -> None:
    """Writes a file under a name that nobody sees; its folders are made."""
    for folder in reversed(PurePosixPath(part).parents):
        if str(folder) != ".":
            asked.storage.make_folder(asked.share, str(folder))
    asked.storage.resize(asked.share, part, 0)
    offset = 0
    for piece in pieces:
        asked.storage.change(asked.share, part, offset, piece)
        offset += len(piece)


def _read(asked: Asked, path: str, span: Span | None = None) -> Iterator[bytes]:
    start, end = (span.start, span.end or 0) if span else (0, 1 << 62)
    while start < end and (data := asked.storage.read(asked.share, path, start, min(_PIECE, end - start))):
        yield data
        start += len(data)


def _block_ids(body: bytes) -> list[str]:
    invalid = StorageRefusal(400, "InvalidXmlDocument", "The block list is no XML.")
    if b"<!" in body:  # a list of blocks has no entities
        raise invalid
    try:
        ids = [item.text or "" for item in ElementTree.fromstring(body)]
    except ElementTree.ParseError:
        raise invalid from None
    if len(ids) > _MOST_BLOCKS:
        raise StorageRefusal(400, "BlockListTooLong", "A block list has at most 50,000 blocks.")
    return ids


def _check_type(asked: Asked) -> None:
    """Raises for a blob that is not made of blocks."""
    kind = asked.call.headers.get("x-ms-blob-type", "")
    if kind.lower() != "blockblob":
        code = "InvalidHeaderValue" if kind else "MissingRequiredHeader"
        text = f"x-ms-blob-type must be BlockBlob, not {kind!r}: page and append blobs are not kept here."
        raise StorageRefusal(400, code, text)


def _found(asked: Asked) -> ShareFile | None:
    try:
        return asked.storage.show(asked.share, asked.path)
    except NotFoundError:
        return None


def _shown(asked: Asked) -> ShareFile:
    asked.check_share()
    found = _found(asked)
    if found is None or not found.is_file:
        raise StorageRefusal(404, "BlobNotFound", "The specified blob does not exist.")
    return found


def _headers(asked: Asked, blob: ShareFile) -> dict[str, str]:
    record = asked.record
    return {
        **stamps(blob, record),
        **properties.headers(asked.call, record.properties),
        **metadata.headers(record.metadata),
        "x-ms-blob-type": "BlockBlob",
        "x-ms-lease-state": "available",
        "x-ms-lease-status": "unlocked",
    }


def _digested(pieces: Iterator[bytes], wanted_md5: str | None) -> Iterator[bytes]:
    """The pieces of a body; raises after the last one when they are not what its MD5 says."""
    digest = hashlib.md5(usedforsecurity=False)
    for piece in pieces:
        if wanted_md5:
            digest.update(piece)
        yield piece
    if wanted_md5 and base64.b64encode(digest.digest()).decode() != wanted_md5:
        raise StorageRefusal(400, "Md5Mismatch", "The MD5 value of the body is not that of its header.")
