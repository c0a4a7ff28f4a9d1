"""Small files with a checksum and preallocated space, among them the exit records of ranks."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

from batchai_magics.launch.plan import ProcessExit


class SignedRecord:
    """A file for one value, blank until it is written; its disk space is reserved in advance.

    A value that needs more than the reserved room extends it by multiples.
    """

    def __init__(self, path: str, *, room: int) -> None:
        self._room = room
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self._put(b"")

    def write(self, value: object) -> bool:
        """Overwrites the record in place with a JSON value; returns whether there was room."""
        body = json.dumps(value).encode()
        return self._put(_digest(body) + b" " + body)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)

    def _put(self, text: bytes) -> bool:
        data = text.ljust(-(-max(1, len(text)) // self._room) * self._room)
        try:
            return os.pwrite(self._file, data, 0) == len(data)
        except OSError:
            return False


def read(file: Path) -> object:
    """The value in a record; None if it is blank or incomplete."""
    digest, _, body = file.read_bytes().strip().partition(b" ")
    return json.loads(body) if body and digest == _digest(body) else None


def _digest(body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(body)


ROOM = 512  # size of a record in bytes


def exit_record(folder: str, rank: int) -> SignedRecord:
    """The record for the `ProcessExit` of a process, opened before its start."""
    path = os.path.join(folder, str(rank))  # noqa: PTH118 pathlib slows the start of a lone rank
    return SignedRecord(path, room=ROOM)


def exits_in(folder: Path) -> list[ProcessExit]:
    """The complete records in a folder: those of the processes that have ended."""
    values = (read(file) for file in folder.iterdir())
    return [ProcessExit(**value) for value in values if isinstance(value, dict)]
