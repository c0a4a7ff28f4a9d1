"""Files go up to a share and come down from it in pieces: what was interrupted goes on where it stood."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from batchai_magics.backends.base import ShareFile
from batchai_magics.commands.azure.place import Place
from batchai_magics.errors import StorageError

PIECE_BYTES = 4 << 20
AGAIN = "The same line goes on where it stopped."


@dataclass(frozen=True)
class Copy:
    """A file of this machine and its path on the share."""

    here: Path
    there: str
    size_bytes: int


def upload(place: Place, copies: Sequence[Copy]) -> Generator[int, None, list[ShareFile]]:
    """Uploads files; each appears on the share when all of it is there and its digest is right."""
    for copy in copies:
        with _told(copy, "read"):
            yield from _upload(place, copy)
    return [place.file(copy.there) for copy in copies]


def download(place: Place, copies: Sequence[Copy]) -> Generator[int, None, list[dict[str, object]]]:
    """Downloads files; each appears when all of it is there."""
    for copy in copies:
        with _told(copy, "written"):
            yield from _download(place, copy)
    return [{"contentLength": copy.size_bytes, "name": copy.there, "path": str(copy.here)} for copy in copies]


def inside(folder: Path, path: str) -> Path:
    """`folder/path`; a StorageError when that would lie outside of the folder, be it by a link."""
    place = folder / path
    if ".." in place.relative_to(folder).parts or not _real(place.parent).is_relative_to(_real(folder)):
        raise StorageError(f"{path!r} leads out of {folder}", hint="Nothing was written there.")
    return place


def _upload(place: Place, copy: Copy) -> Iterator[int]:
    offset = place.storage.begin(place.name, copy.there, copy.size_bytes)
    try:
        yield from _send(place, copy, offset)
    except StorageError:
        if not offset:
            raise
        # What was there belonged to another file of this name; the backend has thrown it away.
        yield from (
            0 for _ in _send(place, copy, place.storage.begin(place.name, copy.there, copy.size_bytes))
        )


def _send(place: Place, copy: Copy, offset: int) -> Iterator[int]:
    digest = hashlib.sha256()
    with copy.here.open("rb") as file:
        for data in _pieces(file, offset):
            digest.update(data)
            yield len(data)
        while data := file.read(PIECE_BYTES):
            digest.update(data)
            place.storage.write(place.name, copy.there, offset, data)
            offset += len(data)
            yield len(data)
    place.storage.finish(place.name, copy.there, digest.hexdigest())


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    left = size
    while left and (data := file.read(min(PIECE_BYTES, left))):
        left -= len(data)
        yield data


def _download(place: Place, copy: Copy) -> Iterator[int]:
    source = place.file(copy.there)
    part = copy.here.with_name(f".{copy.here.name}.{_mark(place, source)}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as file:
        offset = file.tell()
        yield offset
        while offset < source.size_bytes:
            data = place.storage.read(place.name, copy.there, offset, PIECE_BYTES)
            if not data:
                break
            file.write(data)
            offset += len(data)
            yield len(data)
    if offset != source.size_bytes or place.file(copy.there) != source:
        part.unlink()
        raise StorageError(f"{copy.there} changed while it was read", hint="Run the same line again.")
    part.replace(copy.here)


def _mark(place: Place, source: ShareFile) -> str:
    """What tells this very file from any other, and from itself after a change."""
    text = f"{place.name}/{source.path} {source.size_bytes} {source.modified}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@contextlib.contextmanager
def _told(copy: Copy, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"{copy.here} cannot be {done}: {reason}", hint=AGAIN) from error


def _real(path: Path) -> Path:
    return path.expanduser().resolve()
