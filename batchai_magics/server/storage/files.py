"""Files of Azure Files: made, written, read, deleted."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone

from batchai_magics.backends.base import ShareFile
from batchai_magics.backends.service.dialect.headers import DIGEST, WANT_DIGEST
from batchai_magics.errors import NotFoundError
from batchai_magics.models.execution import FileKind
from batchai_magics.server.batchai import log_secrets
from batchai_magics.server.call import Answer
from batchai_magics.server.storage import metadata, permissions, properties
from batchai_magics.server.storage.content import content, wanted
from batchai_magics.server.storage.context import Asked, stamps
from batchai_magics.server.storage.errors import StorageRefusal
from batchai_magics.server.storage.metadata import Record
from batchai_magics.server.storage.request import Span, header_number, path_of_url, span_of

LARGEST = 4 << 40  # 4 TiB, as Azure has it
RENAME_SOURCE = "x-ms-file-rename-source"
_PIECE = 1 << 20


def create(asked: Asked) -> Answer:
    """Begins a file of a size. It is on its share when all of its bytes have come."""
    size = header_number(asked.call, "x-ms-content-length", most=LARGEST)
    asked.check_share()
    record = Record(metadata.said(asked.call), properties.of_file(asked.call))
    with asked.service.metadata.exclusive(asked.resource.key):
        check_create(asked)
        is_whole = asked.uploads.begin(asked.storage, asked.resource, asked.share, size, record)
        if is_whole:
            asked.service.metadata.keep_new(asked.resource, record)
    return Answer(201, headers=stamps(_shown(asked)))


def put_range(asked: Asked) -> Answer:
    """Writes bytes into a file."""
    span, size = span_of(asked.call), _shown(asked).size_bytes
    if span is None or span.end is None:
        raise StorageRefusal(400, "MissingRequiredHeader", "The header x-ms-range must be bytes=FIRST-LAST.")
    if span.end > size:
        raise _invalid_range()
    if asked.call.headers.get("x-ms-write", "update").lower() == "clear":
        _clear(asked, span.start, span.end - span.start)
    else:
        check_body(asked, span.end - span.start)
        _write(asked, span.start, asked.call.body)
    headers = {"x-ms-request-server-encrypted": "true"}
    if "content-md5" in asked.call.headers:
        headers["Content-MD5"] = _md5(asked.call.body)
    whole = asked.uploads.wrote(asked.storage, asked.resource, asked.share, (span.start, span.end))
    if whole:
        asked.service.metadata.keep_new(asked.resource, whole.record)
    return Answer(201, headers={**stamps(_shown(asked)), **headers})


def set_properties(asked: Asked) -> Answer:
    """Gives a file other properties of its content, or another size, or both.

    Properties that are not said are cleared, unless the request is about the size alone.
    """
    said, shown = properties.of_file(asked.call), _shown(asked)
    is_resized = bool(asked.call.headers.get("x-ms-content-length"))
    if is_resized:
        size = header_number(asked.call, "x-ms-content-length", most=LARGEST)
        if asked.uploads.of(asked.resource):
            raise StorageRefusal(409, "SharingViolation", "The file is being uploaded.")
        asked.storage.resize(asked.share, asked.path, size)
        shown = _shown(asked)
    if said or not is_resized:
        _keep(asked, replace(_record(asked), properties=said))
    return Answer(200, headers=stamps(shown))


def set_metadata(asked: Asked) -> Answer:
    """Gives a file other metadata."""
    said, shown = metadata.said(asked.call), _shown(asked)
    _keep(asked, replace(_record(asked), metadata=said))
    return Answer(200, headers=stamps(shown))


def show(asked: Asked) -> Answer:
    """What there is to say of a file."""
    file = _shown(asked)
    size = {"Content-Length": str(file.size_bytes)} if asked.call.method == "HEAD" else {}
    if not asked.is_our_own:
        return Answer(200, headers={**_headers(asked, file), **size}, body=b"")
    digest = {}
    is_masked = log_secrets.for_anybody(asked.service, asked.path) is not None
    if WANT_DIGEST in asked.call.headers and file.is_file and not is_masked:
        digest[DIGEST] = asked.storage.digest(asked.share, asked.path)
    told = {**stamps(file), **size, **digest, "x-ms-type": "File", "x-ms-file-attributes": file.kind.value}
    return Answer(200, headers=told, body=b"")


def read(asked: Asked) -> Answer:
    """A file, or a range of it."""
    upload = asked.uploads.of(asked.resource)
    path = upload.part if upload else asked.path
    source, mask = _shown(asked), log_secrets.for_anybody(asked.service, asked.path)
    digest = {}
    is_digest_wanted = asked.is_our_own and WANT_DIGEST in asked.call.headers
    if is_digest_wanted and source.is_file and not upload and not mask:
        digest[DIGEST] = asked.storage.digest(asked.share, path)
    if not source.is_file:
        asked.storage.read(asked.share, path, 0, 0)  # which says in the right words that it is none

    def pieces(span: Span) -> Iterator[bytes]:
        start, end = span.start, span.end or 0
        while start < end:
            data = asked.storage.read(asked.share, path, start, min(_PIECE, end - start))
            if not data:  # it was cut meanwhile; the client sees that bytes are missing
                return
            yield mask(start, data) if mask else data
            start += len(data)

    headers, span = {**_headers(asked, source), **digest}, wanted(asked.call, source.size_bytes)
    return content(headers, source.size_bytes, span, pieces)


def ranges(asked: Asked) -> Answer:
    """The ranges of a file that have bytes: the whole of it."""
    size = _shown(asked).size_bytes
    inner = f"<Range><Start>0</Start><End>{size - 1}</End></Range>" if size else ""
    body = f'<?xml version="1.0" encoding="utf-8"?><Ranges>{inner}</Ranges>'.encode()
    headers = {"Content-Type": "application/xml", "x-ms-content-length": str(size)}
    return Answer(200, body=body, headers={**stamps(_shown(asked)), **headers})


def delete(asked: Asked) -> Answer:
    """Deletes a file, also one that is on its way; for our own client, whatever lies there."""
    asked.check_share()
    if asked.uploads.drop(asked.storage, asked.resource, asked.share):
        return Answer(202)
    if not asked.is_our_own and _shown(asked).is_directory:
        raise _mismatch()
    with asked.service.metadata.exclusive(asked.resource.key):
        asked.storage.delete(asked.share, asked.path)
        asked.service.metadata.forget(asked.resource.key)
    return Answer(202)


def rename(asked: Asked) -> Answer:
    """Gives another file this name; `x-ms-file-rename-source` says which."""
    path = source_path(asked, asked.call.headers.get(RENAME_SOURCE, ""))
    asked.check_share()
    shown = asked.storage.show(asked.share, path)
    if not asked.is_our_own and shown.is_directory is not (asked.call.query.get("restype") == "directory"):
        raise _mismatch()
    said, changed = metadata.said(asked.call), properties.of_file(asked.call)
    kept, key = asked.service.metadata, asked.resource.key
    with kept.exclusive(key):
        _check_target(asked, shown)
        asked.storage.rename(asked.share, path, asked.path)
        kept.move(replace(asked.resource, path=path).key, key)
        record = asked.record
        kept.keep(key, Record(said or record.metadata, {**record.properties, **changed}, record.revision))
    return Answer(200, headers=stamps(_shown(asked)))


def source_path(asked: Asked, url: str) -> str:
    """The path on the same share that an address names."""
    path = path_of_url(url, asked.resource)
    if not path:
        message = f"The source {url.partition('?')[0]!r} is not on this share."
        raise StorageRefusal(400, "InvalidHeaderValue", message)
    return path


def _check_target(asked: Asked, source: ShareFile) -> None:
    try:
        target = asked.storage.show(asked.share, asked.path)
    except NotFoundError:
        return
    replaces = asked.call.headers.get("x-ms-file-rename-replace-if-exists", "").lower() == "true"
    if target.is_directory or source.is_directory or not replaces:
        raise StorageRefusal(409, "ResourceAlreadyExists", "The specified resource already exists.")
    asked.check_may_replace(permissions.RENAME_FILE)


def check_create(asked: Asked) -> None:
    """Raises where no file can be made: a folder is there, or a file that the request may not replace."""
    try:
        found = _shown(asked)
    except NotFoundError:
        return
    if found.is_directory:
        raise _mismatch()
    asked.check_may_replace(permissions.CREATE_FILE)


def check_body(asked: Asked, length: int) -> None:
    """Raises for a body that is not as long as it says, or not what its MD5 says."""
    body, digest = asked.call.body, asked.call.headers.get("content-md5")
    if len(body) != length:
        message = f"The range has {length} bytes, and the body {len(body)}."
        raise StorageRefusal(400, "InvalidInput", message)
    if digest and digest != _md5(body):
        raise StorageRefusal(400, "Md5Mismatch", "The MD5 value of the body is not that of its header.")


def _write(asked: Asked, offset: int, data: bytes) -> None:
    upload = asked.uploads.of(asked.resource)
    asked.storage.change(asked.share, upload.part if upload else asked.path, offset, data)


def _clear(asked: Asked, offset: int, size_bytes: int) -> None:
    upload = asked.uploads.of(asked.resource)
    asked.storage.clear(asked.share, upload.part if upload else asked.path, offset, size_bytes)


def _shown(asked: Asked) -> ShareFile:
    """The file as whoever sends it sees it."""
    upload = asked.uploads.of(asked.resource)
    if upload:
        return ShareFile(asked.path, FileKind.FILE, upload.size_bytes, datetime.now(timezone.utc))
    asked.check_share()
    return replace(asked.storage.show(asked.share, asked.path), path=asked.path)


def _record(asked: Asked) -> Record:
    """What is kept of a file, as whoever sends it sees it."""
    upload = asked.uploads.of(asked.resource)
    return upload.record if upload else asked.record


def _keep(asked: Asked, record: Record) -> None:
    upload = asked.uploads.of(asked.resource)
    if upload:
        upload.record = record
    else:
        asked.service.metadata.keep(asked.resource.key, record)


def _headers(asked: Asked, file: ShareFile) -> dict[str, str]:
    """What an answer says of a file; our own client wants its bytes as they are, whatever their encoding."""
    if file.is_directory:
        raise _mismatch()
    record = _record(asked)
    kept = {} if asked.is_our_own else record.properties
    told = {**properties.headers(asked.call, kept), **metadata.headers(record.metadata)}
    return {**stamps(file), **told, "x-ms-type": "File"}


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _mismatch() -> StorageRefusal:
    message = "The specified resource type does not match the type of the existing resource."
    return StorageRefusal(409, "ResourceTypeMismatch", message)


def _invalid_range() -> StorageRefusal:
    return StorageRefusal(416, "InvalidRange", "The range specified is invalid for the current size.")
