"""Files between a run and the program that watches it: when it is to stop, and how it has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.remote_path import is_remote
from batchai_magics.launch.outcome import Outcome
from batchai_magics.untrusted_files import read_file, read_json


def write_end(file: Path, outcome: Outcome) -> None:
    """Writes atomically how a run ended; OSError if that fails."""
    if is_remote(file):
        return file.write_atomic(outcome.to_json().encode(), private_files.FILE, parents=False)
    part = file.with_suffix(".part")
    with open(part, "w", opener=private_files.opener) as stream:
        stream.write(outcome.to_json())
    part.replace(file)


def read_end(file: Path) -> Outcome | None:
    """Reads how a run ended; None if that is missing or unreadable."""
    try:
        return Outcome.from_json(read_file(file))
    except (OSError, ValueError):
        return None


class StopIfRequest(NamedTuple):
    """A job's stop conditions, as in its description, and the patterns of its metrics."""

    conditions: Sequence[str]
    patterns: Mapping[str, str]

    def write(self, file: Path) -> None:
        """Writes the file."""
        private_files.write(file, json.dumps(self._asdict()))

    @classmethod
    def read(cls, file: Path) -> StopIfRequest:
        """Reads the file."""
        return cls(**read_json(file))
