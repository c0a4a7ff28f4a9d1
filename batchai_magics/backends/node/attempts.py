"""A job that is begun once more: its log goes on behind a line that says so, and why."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

RESIZED = "its nodes left the cluster"


def mark(log: Path, number: int, nodes: Sequence[str], reason: str) -> str:
    """Writes into a log where an attempt begins, and why the one before is over; gives the sentence.

    A full disk loses the line, not the job.
    """
    sentence = f"attempt {number} begins on {', '.join(nodes)}: {reason}"
    with contextlib.suppress(OSError), log.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        glue = "" if file.read(1) in (b"", b"\n") else "\n"
        file.write(f"{glue}[batchai] {sentence}\n".encode())
    return sentence
