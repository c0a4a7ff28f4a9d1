"""Files that our own client uploads: in pieces that nobody sees before all are there, or in one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from batchai_magics.backends.base import ShareFile
from batchai_magics.backends.service import refusals
from batchai_magics.backends.service.dialect.headers import DIGEST, RECEIVED
from batchai_magics.models.execution import FileKind
from batchai_magics.server.call import Answer
from batchai_magics.server.storage.context import Asked, stamps
from batchai_magics.server.storage.errors import StorageRefusal
from batchai_magics.server.storage.files import LARGEST, check_body
from batchai_magics.server.storage.metadata import NOTHING
from batchai_magics.server.storage.request import header_number, span_of


def begin(asked: Asked) -> Answer:
    """Begins to take a file in pieces, or goes on with it: says how many bytes are there."""
    size = header_number(asked.call, "x-ms-content-length", most=LARGEST)
    asked.check_share()
    received = asked.storage.begin(asked.share, asked.path, size)
    return Answer(201, headers={**_unfinished(asked), RECEIVED: str(received)})


def write(asked: Asked) -> Answer:
    """The next piece of such a file."""
    span = span_of(asked.call)
    if span is None or span.end is None:
        raise StorageRefusal(400, "MissingRequiredHeader", "The header x-ms-range must be bytes=FIRST-LAST.")
    check_body(asked, span.end - span.start)
    asked.check_share()
    asked.storage.write(asked.share, asked.path, span.start, asked.call.body)
    return Answer(201, headers={**_unfinished(asked), "x-ms-request-server-encrypted": "true"})


def finish(asked: Asked) -> Answer:
    """Puts such a file in its place, if its digest is what the client says."""
    asked.check_share()
    with asked.service.metadata.exclusive(asked.resource.key):
        asked.storage.finish(asked.share, asked.path, asked.call.headers.get(DIGEST, ""))
        asked.service.metadata.keep_new(asked.resource, NOTHING)
    return Answer(200, headers=stamps(asked.storage.show(asked.share, asked.path)))


def put_whole(asked: Asked) -> Answer:
    """Such a file in one piece."""
    span, body = span_of(asked.call), asked.call.body
    if span is None or span.end is None or span.start:
        raise StorageRefusal(400, "InvalidHeaderValue", "The header x-ms-range must be bytes=0-LAST.")
    check_body(asked, span.end)
    asked.check_share()
    if hashlib.sha256(body).hexdigest() != asked.call.headers.get(DIGEST):
        raise refusals.damaged_upload(asked.share, asked.path)
    with asked.service.metadata.exclusive(asked.resource.key):
        asked.storage.upload(asked.share, {asked.path: body})
        asked.service.metadata.keep_new(asked.resource, NOTHING)
    headers = {"x-ms-request-server-encrypted": "true"}
    return Answer(201, headers={**stamps(asked.storage.show(asked.share, asked.path)), **headers})


def _unfinished(asked: Asked) -> Mapping[str, str]:
    return stamps(ShareFile(asked.path, FileKind.FILE, 0))
