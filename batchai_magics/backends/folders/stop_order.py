"""The stop conditions of a job, as a file for the program that watches its logs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.service import private_files


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
        return cls(**json.loads(file.read_text(encoding="utf-8")))
