"""A rank's stream into a log, and what was written and noted of it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import SimpleNamespace

from batchai_magics.backends.node.ranks import output_streams
from batchai_magics.backends.node.ranks.output_streams import SECRET, SPAN, LogWriter, ProcessStream
from batchai_magics.backends.node.ranks.signed_records import LogSeal
from batchai_magics.launch.plan import LogPaths


def stream(folder: Path, number: int = 0, *, is_shared: bool = True) -> ProcessStream:
    log = LogPaths(str(folder / "out"), str(folder / "spans") if is_shared else "", str(folder / "times"))
    return ProcessStream(LogWriter(log), number)


def written(folder: Path) -> bytes:
    return (folder / "out").read_bytes()


def spans(folder: Path) -> list[tuple[int, int, int]]:
    return list(SPAN.iter_unpack((folder / "spans").read_bytes()))


def watched(monkeypatch, folder: Path, see) -> list[object]:
    """What `see` gives before each piece that is written."""
    seen: list[object] = []

    def write(file: int, data: bytes) -> int:
        seen.append(see(data))
        return os.write(file, data)

    monkeypatch.setattr(output_streams, "os", SimpleNamespace(**{**vars(os), "write": write}))
    return seen


def hidden(folder: Path) -> list[tuple[int, int]]:
    return list(SECRET.iter_unpack((folder / "hidden").read_bytes()))


def seal_of(data: bytes, lost: int = 0) -> LogSeal:
    return LogSeal(len(data), hashlib.sha256(data).hexdigest(), lost)
