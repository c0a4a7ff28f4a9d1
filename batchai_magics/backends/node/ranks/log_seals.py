"""Seals of a job's logs, taken when its processes had ended: size, digest, and lost bytes.

Disk space for the record is reserved before the processes start. A blank record means that the writer of the
logs was killed before its processes ended.
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
    """The size and digest of a complete log."""

    size: int
    sha256: str
    lost: int = 0  # bytes that could not be written


def seal_record(path: Path) -> SignedRecord:
    """The record for the seals of all logs of a job, by file name; opened before its processes start."""
    return SignedRecord(str(path), room=ROOM)


def seals_in(path: Path) -> dict[str, LogSeal] | None:
    """The seals of a job's logs by file name; empty if their end was not observed, None without a record."""
    try:
        seals = signed_records.read(path)
    except FileNotFoundError:
        return None
    return {name: LogSeal(*seal) for name, seal in seals.items()} if isinstance(seals, dict) else {}


class GrowingSeal:
    """The seal of a log being written; its digest is computed on the way unless others write to it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._digest: hashlib._Hash | None = None  # created with the first data
        self._size = 0
        self._is_sole_writer = True

    def check_truncated(self, start: int) -> bool:
        """Takes note of the log's current end; returns whether the log was truncated."""
        self._is_sole_writer &= start == self._size
        is_truncated, self._size = start < self._size, start
        return is_truncated

    def add(self, data: memoryview) -> None:
        """Takes note of appended bytes."""
        self._size += len(data)
        if self._is_sole_writer:
            self._digest = self._digest or _sha256()
            self._digest.update(data)

    def seal(self, lost: int) -> LogSeal:
        """The seal of the complete log, which is read again if others have written to it."""
        if self._is_sole_writer:
            return self._running_seal(lost)
        digest, size = _sha256(), 0
        try:
            # O_NONBLOCK: a process may have replaced the log, for instance by a pipe
            with os.fdopen(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                while data := file.read(1 << 20):
                    digest.update(data)
                    size += len(data)
        except OSError:  # it was deleted: what was written is lost
            return self._running_seal(lost)
        return LogSeal(size, digest.hexdigest(), lost)

    def _running_seal(self, lost: int) -> LogSeal:
        return LogSeal(self._size, (self._digest or _sha256()).hexdigest(), lost)


def _sha256() -> hashlib._Hash:
    """A new digest. Loading OpenSSL takes time, so it happens after the processes have started."""
    import hashlib

    return hashlib.sha256()


def seal_of(file: Path) -> LogSeal:
    """The seal of a log, read completely."""
    digest, size = _sha256(), 0
    with file.open("rb") as stream:
        while data := stream.read(1 << 20):
            digest.update(data)
            size += len(data)
    return LogSeal(size, digest.hexdigest())
