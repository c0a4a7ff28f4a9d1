"""Files that go to a share in pieces: nobody sees one before it is whole; what was interrupted goes on."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

from batchai_magics.backends.arm.storage.clients import Headers
from batchai_magics.backends.base import ShareFile
from batchai_magics.backends.base.transfers import PIECE_BYTES
from batchai_magics.backends.service import refusals
from batchai_magics.backends.service.dialect.headers import DIGEST, RECEIVED, UPLOAD, UploadStep
from batchai_magics.errors import NotFoundError
from batchai_magics.models.execution import FileKind
from batchai_magics.models.times import parse_time

if TYPE_CHECKING:
    from batchai_magics.backends.arm.storage.backend import ArmStorage

_PART = ".batchai-part-"
_MARK_LENGTH = 16


class Uploads(Protocol):
    """How a file is uploaded in pieces."""

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts, or goes on: gives the offset to send from."""

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """The next piece."""

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Puts the file in its place if its digest is right."""

    def whole(self, share: str, path: str, data: bytes) -> ShareFile:
        """Puts a file that is one piece in its place; gives it as it lies there."""


class OwnUploads:
    """In the words of our own server: it keeps the pieces out of sight, and compares the digest itself."""

    def __init__(self, storage: ArmStorage) -> None:
        self._storage = storage

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts, or goes on: gives the offset to send from."""
        told = Headers()
        with self._storage.file(share, path) as client:
            client.create_file(
                size_bytes,
                headers={UPLOAD: UploadStep.BEGIN.value},
                raw_response_hook=told.keep,
            )
        return int(told.get(RECEIVED, "0"))

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """The next piece."""
        with self._storage.file(share, path) as client:
            client.upload_range(data, offset, len(data), headers={UPLOAD: UploadStep.WRITE.value})

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Puts the file in its place if its digest is right."""
        with self._storage.file(share, path) as client:
            headers = {UPLOAD: UploadStep.FINISH.value, DIGEST: sha256}
            client.set_file_metadata({}, headers=headers)

    def whole(self, share: str, path: str, data: bytes) -> ShareFile:
        """Puts a file that is one piece in its place, in one request."""
        headers = {UPLOAD: UploadStep.WHOLE.value, DIGEST: hashlib.sha256(data).hexdigest()}
        told = Headers()
        with self._storage.file(share, path) as client:
            client.upload_range(
                data,
                0,
                len(data),
                headers=headers,
                raw_response_hook=told.keep,
            )
        written = parse_time(told.get("x-ms-file-last-write-time"))
        return ShareFile(path, FileKind.FILE, len(data), written)


class PlainUploads:
    """In the words of Azure Files: the pieces lengthen a file beside the one that it will be."""

    def __init__(self, storage: ArmStorage) -> None:
        self._storage = storage

    def begin(self, share: str, path: str, size_bytes: int) -> int:
        """Starts, or goes on: gives the offset to send from."""
        part = _part(path)
        try:
            received = self._storage.show(share, part).size_bytes
        except NotFoundError:
            received = size_bytes + 1
        if received <= size_bytes:
            return received
        self._storage.make_parents(share, path)
        self._storage.resize(share, part, 0)
        return 0

    def write(self, share: str, path: str, offset: int, data: bytes) -> None:
        """The next piece; what an earlier try of it left is cut off."""
        part = _part(path)
        self._storage.resize(share, part, offset + len(data))
        self._storage.change(share, part, offset, data)

    def finish(self, share: str, path: str, sha256: str) -> None:
        """Puts the file in its place if its digest is right; it is read once more for that."""
        part = _part(path)
        if self._digest(share, part) != sha256:
            self._storage.delete(share, part)
            raise refusals.damaged_upload(share, path)
        self._storage.rename(share, part, path)

    def whole(self, share: str, path: str, data: bytes) -> ShareFile:
        """Puts a file that is one piece in its place."""
        self.begin(share, path, len(data))
        self.write(share, path, 0, data)
        self._storage.rename(share, _part(path), path)
        return self._storage.show(share, path)

    def _digest(self, share: str, path: str) -> str:
        digest, offset = hashlib.sha256(), 0
        while data := self._storage.read(share, path, offset, PIECE_BYTES):
            digest.update(data)
            offset += len(data)
        return digest.hexdigest()


def is_part(path: str) -> bool:
    """Whether a file is one that is not whole yet."""
    name = path.rpartition("/")[2]
    return name.startswith(_PART) and len(name) == len(_PART) + _MARK_LENGTH


def _part(path: str) -> str:
    """Where a file is until it is whole: named for it, so that another process finds it."""
    mark = hashlib.sha256(path.encode()).hexdigest()[:_MARK_LENGTH]
    return str(PurePosixPath(path).with_name(f"{_PART}{mark}"))
