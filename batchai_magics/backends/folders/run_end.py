"""Files between a run and the program that watches it: when it is to stop, and how it has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node.outcome import Outcome
from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.remote_path import is_remote

VERSION = 1


class RunEnd(NamedTuple):
    """How a run ended, and when (in seconds since 1970)."""

    outcome: Outcome
    ended: float

    def write(self, file: Path) -> None:
        """Writes it atomically; OSError if that fails."""
        text = self.to_json()
        if is_remote(file):
            return file.write_atomic(text.encode(), private_files.FILE, parents=False)
        part = file.with_suffix(".part")
        with open(part, "w", opener=private_files.opener) as stream:
            stream.write(text)
        part.replace(file)

    def to_json(self) -> str:
        """The JSON that is written."""
        outcome = self.outcome
        data = {
            "version": VERSION,
            "ended": self.ended,
            "exit_code": outcome.exit_code,
            "errors": outcome.errors,
            "warnings": outcome.warnings,
            "ranks": [rank._asdict() for rank in outcome.ranks],
        }
        return json.dumps(data)

    @classmethod
    def read(cls, file: Path) -> RunEnd | None:
        """Reads the end of a run; None if it is missing or unreadable."""
        from batchai_magics.launch.plan import ProcessExit

        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            ranks = tuple(ProcessExit(**rank) for rank in data["ranks"])
            warnings = tuple(data.get("warnings", ()))
            outcome = Outcome(data["exit_code"], tuple(data["errors"]), ranks, warnings=warnings)
            return cls(outcome, float(data["ended"])) if data["version"] == VERSION else None
        except (OSError, ValueError, KeyError, TypeError):
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
        return cls(**json.loads(file.read_text(encoding="utf-8")))
