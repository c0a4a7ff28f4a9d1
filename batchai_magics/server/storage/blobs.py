"""Blobs: put whole or in blocks, read, deleted. A blob is in its container when all of it is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from xml.etree import ElementTree

from batchai_magics.backends.base import ShareFile
from batchai_magics.errors import NotFoundError
from batchai_magics.server.batchai import log_secrets
from batchai_magics.server.call import Answer
from batchai_magics.server.storage import metadata
from batchai_magics.server.storage.content import content, wanted
from batchai_magics.server.storage.context import Asked, stamps
from batchai_magics.server.storage.errors import StorageRefusal
from batchai_magics.server.storage.request import Span

_PIECE = 1 << 20
_MOST_BLOCKS = 50_000
_BLOCK_ID = re.compile(r"[A-Za-z0-9+/=]{1,128}")


def put(asked: Asked) -> Answer:
    """Makes a blob of the body."""
    asked.check_share()
    _check_absent(asked)
    kept = metadata.said(asked.call)
    _make(asked, asked.call.pieces(_PIECE))
    asked.service.metadata.keep(asked.resource.key, kept)
    return Answer(201, headers=_stamps(asked))


def put_block(asked: Asked) -> Answer:
    """Keeps a block of a blob that is to come."""
    asked.check_share()
    id = asked.call.query.get("blockid", "")
    if not _BLOCK_ID.fullmatch(id):
        raise StorageRefusal(400, "InvalidQueryParameterValue", f"blockid must be base64, not {id!r}.")
    with asked.uploads.made(asked.storage, asked.resource, asked.share) as part:
        _write(asked, part, asked.call.pieces(_PIECE))
    old = asked.uploads.keep_block(asked.resource, id, part)
    if old:
        asked.uploads.discard(asked.storage, asked.share, old)
    return Answer(201, headers={"x-ms-request-server-encrypted": "true"})


def put_block_list(asked: Asked) -> Answer:
    """Makes a blob of its blocks, in the order of the list."""
    asked.check_share()
    _check_absent(asked)
    blocks = asked.uploads.blocks(asked.resource)
    ids, kept = _block_ids(asked.call.body), metadata.said(asked.call)
    if not set(ids) <= set(blocks):
        raise StorageRefusal(400, "InvalidBlockList", "The specified block list is invalid.")
    _make(asked, (piece for id in ids for piece in _read(asked, blocks[id])))
    asked.uploads.drop_blocks(asked.storage, asked.resource, asked.share)
    asked.service.metadata.keep(asked.resource.key, kept)
    return Answer(201, headers=_stamps(asked))


def read(asked: Asked) -> Answer:
    """A blob, or a range of it."""
    blob = _shown(asked)
    _check_match(asked, blob)

    mask = log_secrets.for_anybody(asked.service, asked.path)

    def pieces(span: Span) -> Iterator[bytes]:
        start = span.start
        for data in _read(asked, asked.path, span):
            yield mask(start, data) if mask else data
            start += len(data)

    headers = {**_headers(blob), **asked.metadata_headers}
    return content(headers, blob.size_bytes, wanted(asked.call, blob.size_bytes), pieces)


def properties(asked: Asked) -> Answer:
    """What there is to say of a blob."""
    blob = _shown(asked)
    size = {"Content-Length": str(blob.size_bytes)}
    return Answer(200, body=b"", headers={**_headers(blob), **asked.metadata_headers, **size})


def set_metadata(asked: Asked) -> Answer:
    """Gives a blob other metadata."""
    kept, stamp = metadata.said(asked.call), _stamps(asked)
    asked.service.metadata.keep(asked.resource.key, kept)
    return Answer(200, headers=stamp)


def set_properties(asked: Asked) -> Answer:
    """Nothing: a blob's properties (its type of content and the like) are not kept here."""
    return Answer(200, headers=_stamps(asked))


def delete(asked: Asked) -> Answer:
    """Deletes a blob."""
    _shown(asked)
    asked.storage.delete(asked.share, asked.path)
    asked.service.metadata.forget(asked.resource.key)
    return Answer(202)


def _make(asked: Asked, pieces: Iterator[bytes]) -> None:
    """Makes a blob of these bytes: all of it is there, or nothing."""
    with asked.uploads.made(asked.storage, asked.resource, asked.share) as part:
        _write(asked, part, pieces)
        asked.storage.rename(asked.share, part, asked.path)
    asked.uploads.parts.end(part)


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


def _check_absent(asked: Asked) -> None:
    """Raises for a blob that is there where the client wants to make a new one, and for a folder."""
    try:
        found = asked.storage.show(asked.share, asked.path)
    except NotFoundError:
        return
    if found.is_directory or asked.call.headers.get("if-none-match") == "*":
        raise StorageRefusal(409, "BlobAlreadyExists", "The specified blob already exists.")


def _check_match(asked: Asked, blob: ShareFile) -> None:
    wanted_tag = asked.call.headers.get("if-match", "*")
    if wanted_tag not in ("*", stamps(blob)["ETag"]):
        raise StorageRefusal(412, "ConditionNotMet", "The blob has changed since.")


def _shown(asked: Asked) -> ShareFile:
    asked.check_share()
    try:
        found = asked.storage.show(asked.share, asked.path)
    except NotFoundError:
        found = None
    if found is None or not found.is_file:
        raise StorageRefusal(404, "BlobNotFound", "The specified blob does not exist.")
    return found


def _stamps(asked: Asked) -> dict[str, str]:
    return {**stamps(_shown(asked)), "x-ms-request-server-encrypted": "true"}


def _headers(blob: ShareFile) -> dict[str, str]:
    kind = {"Content-Type": "application/octet-stream", "x-ms-blob-type": "BlockBlob"}
    return {**stamps(blob), **kind, "x-ms-lease-state": "available", "x-ms-lease-status": "unlocked"}
