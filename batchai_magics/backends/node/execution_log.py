"""execution.log: what was done on each node to run a job, and the lines that mark a new attempt."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import IO


class ExecutionLog:
    """Appends timestamped lines to the log of every node; launchers print to `file`."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [Path(path) for path in paths]
        self.file: IO[bytes] = self._paths[0].open("ab", buffering=0)

    def write(self, sentence: str) -> None:
        """Appends a line to every node's log. A full disk loses the line, not the job."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for path in self._paths:
            with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
                file.write(f"{now} {sentence}\n")


RESIZED = "its nodes left the cluster"


def mark_attempt(log: Path, number: int, nodes: Sequence[str], reason: str) -> str:
    """Marks in a log where an attempt starts and why the previous one ended; returns the sentence.

    A full disk loses the line, not the job.
    """
    sentence = f"attempt {number} begins on {', '.join(nodes)}: {reason}"
    with contextlib.suppress(OSError), log.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        separator = "" if file.read(1) in (b"", b"\n") else "\n"
        file.write(f"{separator}[batchai] {sentence}\n".encode())
    return sentence
