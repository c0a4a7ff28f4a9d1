"""How each process ended: a small file of its own, with its room on the disk before the process starts."""

from __future__ import annotations

import os
from pathlib import Path

from batchai_magics.backends.node.runner import signed_record
from batchai_magics.backends.node.runner.signed_record import SignedRecord
from batchai_magics.launch.plan import ProcessExit

ROOM = 512  # bytes of a record


def exit_record(folder: str, rank: int) -> SignedRecord:
    """The record of one process, open from before its start, for its `ProcessExit` as a dict."""
    path = os.path.join(folder, str(rank))  # noqa: PTH118 pathlib slows the start of a lone rank
    return SignedRecord(path, room=ROOM)


def exits_in(folder: Path) -> list[ProcessExit]:
    """The records in a folder that are whole: those of the processes that have ended."""
    values = (signed_record.read(file) for file in folder.iterdir())
    return [ProcessExit(**value) for value in values if isinstance(value, dict)]
