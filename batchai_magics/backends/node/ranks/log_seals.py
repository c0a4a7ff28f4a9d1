"""What a job's logs were when its processes had ended: so many bytes, their digest, and what got lost.

The record has its room on the disk before the processes start. One that is blank says that whoever wrote the
logs was ended before it had seen theirs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from batchai_magics.backends.node.ranks import signed_records
from batchai_magics.backends.node.ranks.signed_records import SignedRecord

if TYPE_CHECKING:
    import hashlib


ROOM = 1 << 12


class LogSeal(NamedTuple):
    """The whole of a log, as it was written."""

    size: int
    sha256: str
    lost: int = 0  # bytes more that no disk has taken


def seal_record(path: Path) -> SignedRecord:
    """The record of all logs of a job, open from before its processes start, for their seals by file name."""
    return SignedRecord(str(path), room=ROOM)


def seals_in(path: Path) -> dict[str, LogSeal] | None:
    """The seals of a job's logs by file name: none when nobody saw their end; None without any record."""
    try:
        seals = signed_records.read(path)
    except FileNotFoundError:
        return None
    return {name: LogSeal(*seal) for name, seal in seals.items()} if isinstance(seals, dict) else {}


class GrowingSeal:
    """The seal of a log that is written now: its size, and its digest unless others write to it too."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._digest: hashlib._Hash | None = None  # until something comes
        self._size = 0
        self._is_alone = True

    def is_cut_at(self, start: int) -> bool:
        """Takes notice of where the log ends now; whether that is before what was written."""
        self._is_alone &= start == self._size
        is_cut, self._size = start < self._size, start
        return is_cut

    def add(self, data: memoryview) -> None:
        """These bytes were written behind the others."""
        self._size += len(data)
        if self._is_alone:
            self._digest = self._digest or _sha256()
            self._digest.update(data)

    def seal(self, lost: int) -> LogSeal:
        """The whole log; it is read where others have written to it, or had before."""
        if self._is_alone:
            return self._own_seal(lost)
        digest, size = _sha256(), 0
        try:
            # What a process has put in its place, such as a pipe, is not waited for.
            with os.fdopen(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                while data := file.read(1 << 20):
                    digest.update(data)
                    size += len(data)
        except OSError:  # it was taken away: what was written is lost
            return self._own_seal(lost)
        return LogSeal(size, digest.hexdigest(), lost)

    def _own_seal(self, lost: int) -> LogSeal:
        return LogSeal(self._size, (self._digest or _sha256()).hexdigest(), lost)


def _sha256() -> hashlib._Hash:
    """A new digest. It loads OpenSSL: there is time for that when the processes have started."""
    import hashlib

    return hashlib.sha256()


def seal_of(file: Path) -> LogSeal:
    """The seal of a log as it is, read whole."""
    digest, size = _sha256(), 0
    with file.open("rb") as stream:
        while data := stream.read(1 << 20):
            digest.update(data)
            size += len(data)
    return LogSeal(size, digest.hexdigest())
