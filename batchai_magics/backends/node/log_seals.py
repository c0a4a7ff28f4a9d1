"""What a job's logs were when its processes had ended: so many bytes, their digest, and what got lost.

The record has its room on the disk before the processes start. One that is blank says that whoever wrote the
logs was ended before it had seen theirs.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node import signed_record
from batchai_magics.backends.node.signed_record import SignedRecord

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
        seals = signed_record.read(path)
    except FileNotFoundError:
        return None
    return {name: LogSeal(*seal) for name, seal in seals.items()} if isinstance(seals, dict) else {}
