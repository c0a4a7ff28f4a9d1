"""Files go to a share and come from it in pieces: what was interrupted goes on where it stood.

This is the plain way, made from a storage's other verbs. A place that lies on this machine has a shorter one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from batchai_magics.errors import StorageError

if TYPE_CHECKING:
    from batchai_magics.backends.base.storage import Copy, ShareFile, Storage


PIECE_BYTES = 4 << 20
STALE_S = 24 * 3600.0  # after which nobody goes on with an upload any more
AGAIN = "The same line goes on where it stopped."
_MARK_LENGTH = 12


class DefaultTransfers:
    """What a storage has unless it has better: whole files, one after the other, in pieces."""

    def send(self: Storage, share: str, copies: Sequence[Copy]) -> Generator[int, None, Sequence[ShareFile]]:
        """Uploads files; each appears on the share when all of it is there and its digest is right."""
        for copy in copies:
            with naming(copy, "read"):
                yield from _send(self, share, copy)
        return [self.show(share, copy.there) for copy in copies]

    def fetch(self: Storage, share: str, copies: Sequence[Copy]) -> Iterator[int]:
        """Downloads files; each appears when all of it is there and its digest is right."""
        unfinished = Unfinished()
        for copy in copies:
            with naming(copy, "written"):
                yield from _fetch(self, share, copy, unfinished)


@contextlib.contextmanager
def naming(copy: Copy, done: str) -> Iterator[None]:
    """Makes an error of the system one that names the file of this machine, which could not be `done`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"{copy.here} cannot be {done}: {reason}", hint=AGAIN) from error


def spoiled(copy: Copy, *, is_changed: bool) -> StorageError:
    """The error for a file that is not what it was to be."""
    what = "changed while it was read" if is_changed else "was damaged on its way"
    return StorageError(f"{copy.there} {what}", hint="Run the same line again.")


class Unfinished:
    """What earlier downloads left behind; each folder is looked through once."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, list[Path]]] = {}

    @staticmethod
    def name(target: Path, identity: str) -> Path:
        """Where a download keeps what it has so far: named for the file, and for which one it is there."""
        return Path(Unfinished.path(str(target), identity))

    @staticmethod
    def path(target: str, identity: str) -> str:
        """The same as text, for thousands of files."""
        mark = hashlib.sha256(identity.encode()).hexdigest()[:_MARK_LENGTH]
        folder, name = os.path.split(target)
        return f"{folder}/.{name}.{mark}.part" if folder else f".{name}.{mark}.part"

    def drop(self, target: str | Path) -> None:
        """Deletes what is left of the file as it was before it changed."""
        folder, name = os.path.split(target)
        if folder not in self._folders:
            self._folders[folder] = _parts_in(Path(folder))
        for part in self._folders[folder].pop(name, ()):
            part.unlink(missing_ok=True)


def _parts_in(folder: Path) -> dict[str, list[Path]]:
    """The unfinished downloads in a folder, by the name of the file that they are of."""
    parts: dict[str, list[Path]] = {}
    for path in folder.glob(".*.part"):
        name, _, mark = path.name[1 : -len(".part")].rpartition(".")
        if len(mark) == _MARK_LENGTH and not set(mark) - set("0123456789abcdef"):
            parts.setdefault(name, []).append(path)
    return parts


def _send(storage: Storage, share: str, copy: Copy) -> Iterator[int]:
    offset = storage.begin(share, copy.there, copy.size_bytes)
    try:
        yield from _pieces_up(storage, share, copy, offset)
    except StorageError:
        if not offset:
            raise
        # What was there belonged to another file of this name; the backend has thrown it away.
        again = storage.begin(share, copy.there, copy.size_bytes)
        yield from (0 for _ in _pieces_up(storage, share, copy, again))


def _pieces_up(storage: Storage, share: str, copy: Copy, offset: int) -> Iterator[int]:
    digest = hashlib.sha256()
    with copy.here.open("rb") as file:
        for data in _pieces(file, offset):
            digest.update(data)
            yield len(data)
        while data := file.read(PIECE_BYTES):
            digest.update(data)
            storage.write(share, copy.there, offset, data)
            offset += len(data)
            yield len(data)
    storage.finish(share, copy.there, digest.hexdigest())


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    left = size
    while left and (data := file.read(min(PIECE_BYTES, left))):
        left -= len(data)
        yield data


def _fetch(storage: Storage, share: str, copy: Copy, unfinished: Unfinished) -> Iterator[int]:
    source = storage.show(share, copy.there)
    part = Unfinished.name(copy.here, f"{share}/{source.path} {source.size_bytes} {source.modified}")
    part.parent.mkdir(parents=True, exist_ok=True)
    was_begun = part.exists()
    is_right = yield from _pieces_down(storage, share, source, part)
    if not is_right and was_begun and storage.show(share, copy.there) == source:
        # What an earlier line had left was damaged; that is thrown away.
        is_right = yield from _uncounted(_pieces_down(storage, share, source, part))
    is_same = storage.show(share, copy.there) == source
    if not (is_right and is_same):
        part.unlink(missing_ok=True)
        raise spoiled(copy, is_changed=not is_same)
    part.replace(copy.here)
    unfinished.drop(copy.here)


def _pieces_down(storage: Storage, share: str, source: ShareFile, part: Path) -> Generator[int, None, bool]:
    """Reads what `part` lacks of a file; gives whether it then is that very file, else it is gone."""
    digest = hashlib.sha256()
    with part.open("a+b") as file:
        file.seek(0)
        for data in _pieces(file, source.size_bytes):
            digest.update(data)
            yield len(data)
        file.truncate()
        while data := storage.read(share, source.path, file.tell(), PIECE_BYTES):
            digest.update(data)
            file.write(data)
            yield len(data)
        size_bytes = file.tell()
    known = storage.digest(share, source.path)
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
