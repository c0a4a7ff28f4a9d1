"""Files go up to a share and come down from it in pieces: what was interrupted goes on where it stood."""

from __future__ import annotations

import contextlib
import glob
import hashlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from batchai_magics.backends.base import ShareFile
from batchai_magics.commands.azure.bucket import Bucket
from batchai_magics.errors import StorageError

PIECE_BYTES = 4 << 20
_PART, _MARK_LENGTH = ".{}.{}.part", 12  # what a download has so far: the file's name, and which file it is
AGAIN = "The same line goes on where it stopped."


@dataclass(frozen=True)
class Copy:
    """A file of this machine and its path on the share."""

    here: Path
    there: str
    size_bytes: int


def upload(bucket: Bucket, copies: Sequence[Copy]) -> Generator[int, None, list[ShareFile]]:
    """Uploads files; each appears on the share when all of it is there and its digest is right."""
    for copy in copies:
        with _translated(copy, "read"):
            yield from _upload(bucket, copy)
    return [bucket.file(copy.there) for copy in copies]


def download(bucket: Bucket, copies: Sequence[Copy]) -> Generator[int, None, list[dict[str, object]]]:
    """Downloads files; each appears when all of it is there and its digest is right."""
    for copy in copies:
        with _translated(copy, "written"):
            yield from _download(bucket, copy)
    return [{"contentLength": copy.size_bytes, "name": copy.there, "path": str(copy.here)} for copy in copies]


def inside(folder: Path, path: str) -> Path:
    """`folder/path`; a StorageError when that would lie outside of the folder, be it by a link."""
    target = folder / path
    if ".." in target.relative_to(folder).parts or not _real(target.parent).is_relative_to(_real(folder)):
        raise StorageError(f"{path!r} leads out of {folder}", hint="Nothing was written there.")
    return target


def _upload(bucket: Bucket, copy: Copy) -> Iterator[int]:
    offset = bucket.storage.begin(bucket.name, copy.there, copy.size_bytes)
    try:
        yield from _send(bucket, copy, offset)
    except StorageError:
        if not offset:
            raise
        # What was there belonged to another file of this name; the backend has thrown it away.
        again = bucket.storage.begin(bucket.name, copy.there, copy.size_bytes)
        yield from (0 for _ in _send(bucket, copy, again))


def _send(bucket: Bucket, copy: Copy, offset: int) -> Iterator[int]:
    digest = hashlib.sha256()
    with copy.here.open("rb") as file:
        for data in _pieces(file, offset):
            digest.update(data)
            yield len(data)
        while data := file.read(PIECE_BYTES):
            digest.update(data)
            bucket.storage.write(bucket.name, copy.there, offset, data)
            offset += len(data)
            yield len(data)
    bucket.storage.finish(bucket.name, copy.there, digest.hexdigest())


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    left = size
    while left and (data := file.read(min(PIECE_BYTES, left))):
        left -= len(data)
        yield data


def _download(bucket: Bucket, copy: Copy) -> Iterator[int]:
    source = bucket.file(copy.there)
    part = copy.here.with_name(_PART.format(copy.here.name, _mark(bucket, source)))
    part.parent.mkdir(parents=True, exist_ok=True)
    was_begun = part.exists()
    is_right = yield from _fetch(bucket, source, part)
    if not is_right and was_begun and bucket.find(copy.there) == source:
        # What an earlier line had left was damaged; that is thrown away.
        is_right = yield from _uncounted(_fetch(bucket, source, part))
    if not is_right or bucket.find(copy.there) != source:
        part.unlink(missing_ok=True)
        what = "was damaged on its way" if bucket.find(copy.there) == source else "changed while it was read"
        raise StorageError(f"{copy.there} {what}", hint="Run the same line again.")
    part.replace(copy.here)
    for left in copy.here.parent.glob(_PART.format(glob.escape(copy.here.name), "?" * _MARK_LENGTH)):
        left.unlink(missing_ok=True)  # of the file as it was before it changed


def _fetch(bucket: Bucket, source: ShareFile, part: Path) -> Generator[int, None, bool]:
    """Reads what `part` lacks of a file; gives whether it then is that very file, else it is gone."""
    digest = hashlib.sha256()
    with part.open("a+b") as file:
        file.seek(0)
        for data in _pieces(file, source.size_bytes):
            digest.update(data)
            yield len(data)
        file.truncate()
        while data := bucket.storage.read(bucket.name, source.path, file.tell(), PIECE_BYTES):
            digest.update(data)
            file.write(data)
            yield len(data)
        size_bytes = file.tell()
    known = bucket.storage.digest(bucket.name, source.path)
    is_right = size_bytes == source.size_bytes and known in ("", digest.hexdigest())
    if not is_right:
        part.unlink()
    return is_right


def _uncounted(steps: Generator[int, None, bool]) -> Generator[int, None, bool]:
    """The same steps, counted as nothing: they were counted before."""
    try:
        while True:
            next(steps)
            yield 0
    except StopIteration as end:
        return bool(end.value)


def _mark(bucket: Bucket, source: ShareFile) -> str:
    """What tells this very file from any other, and from itself after a change."""
    text = f"{bucket.name}/{source.path} {source.size_bytes} {source.modified}"
    return hashlib.sha256(text.encode()).hexdigest()[:_MARK_LENGTH]


@contextlib.contextmanager
def _translated(copy: Copy, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"{copy.here} cannot be {done}: {reason}", hint=AGAIN) from error


def _real(path: Path) -> Path:
    return path.expanduser().resolve()
