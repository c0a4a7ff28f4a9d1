"""How each process ended: a small file of its own, with its room on the disk before the process starts."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

from batchai_magics.launch.plan import ProcessExit

ROOM = 512  # bytes of a record, blank until the process has ended


class ExitRecord:
    """The record of one process, open from before its start. A full disk costs the room, not the record."""

    def __init__(self, folder: str, rank: int) -> None:
        path = os.path.join(folder, str(rank))  # noqa: PTH118 pathlib slows the start of a lone rank
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self._put(b"")

    def write(self, end: ProcessExit) -> bool:
        """Overwrites the blank record in place; whether there was room for it after all."""
        return self._put(signed(json.dumps(end._asdict())))

    def close(self) -> None:
        """Lets go of the file."""
        os.close(self._file)

    def _put(self, text: bytes) -> bool:
        data = text.ljust(ROOM)
        try:
            return os.pwrite(self._file, data, 0) == len(data)
        except OSError:
            return False


def exits_in(folder: Path) -> list[ProcessExit]:
    """The records in a folder that are whole: those of the processes that have ended."""
    read = (_read(file) for file in folder.iterdir())
    return [end for end in read if end]


def _read(file: Path) -> ProcessExit | None:
    body = signed_in(file)
    return ProcessExit(**json.loads(body)) if body else None


def signed_in(file: Path) -> str:
    """What `signed` was made of; empty when it is not there as a whole."""
    digest, _, body = file.read_text(encoding="utf-8", errors="replace").strip().partition(" ")
    return body if body and signed(body) == f"{digest} {body}".encode() else ""


def signed(text: str) -> bytes:
    """The text behind a digest of it, so that a half-written record is told from a whole one."""
    return f"{zlib.crc32(text.encode()):08x} {text}".encode()
