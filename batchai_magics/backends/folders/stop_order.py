"""What a job is to be stopped for, in its folder, for the program that watches its logs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.service import private_files


class StopIfRequest(NamedTuple):
    """What a job is to be stopped for, as its description says it, and the patterns of its metrics."""

    conditions: Sequence[str]
    patterns: Mapping[str, str]

    def write(self, file: Path) -> None:
        """Writes it for the program that watches the job."""
        private_files.write(file, json.dumps(self._asdict()))

    @classmethod
    def read(cls, file: Path) -> StopIfRequest:
        """What was written so."""
        return cls(**json.loads(file.read_text(encoding="utf-8")))
