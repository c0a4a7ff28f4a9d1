"""What a job's logs were when its processes had ended: so many bytes, their digest, and what got lost.

The record has its room on the disk before the processes start. One that is blank says that whoever wrote the
logs was ended before it had seen theirs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node.exits import signed, signed_in

ROOM = 1 << 12


class LogSeal(NamedTuple):
    """The whole of a log, as it was written."""

    size: int
    sha256: str
    lost: int = 0  # bytes more that no disk has taken


class SealRecord:
    """The record of all logs of a job, open from before its processes start."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self._put(b"")

    def write(self, seals: Mapping[str, LogSeal]) -> bool:
        """Overwrites the blank record in place; whether there was room for it after all."""
        return self._put(signed(json.dumps(seals)))

    def close(self) -> None:
        """Lets go of the file."""
        os.close(self._file)

    def _put(self, text: bytes) -> bool:
        data = text.ljust(-(-max(1, len(text)) // ROOM) * ROOM)
        try:
            return os.pwrite(self._file, data, 0) == len(data)
        except OSError:
            return False


def seals_in(path: Path) -> dict[str, LogSeal] | None:
    """The seals of a job's logs by file name: none when nobody saw their end; None without any record."""
    try:
        body = signed_in(path)
    except FileNotFoundError:
        return None
    return {name: LogSeal(*seal) for name, seal in json.loads(body).items()} if body else {}
