"""Files between a run and the program that watches it: when it is to stop, and how it has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.node.outcome import Outcome
from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.remote_path import is_remote
from batchai_magics.untrusted_files import read_json

VERSION = 1
_LAST_S = 1e11  # the latest time that is read, in the year 5138


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
        from batchai_magics.launch.plan import ProcessExit, from_json_types

        try:
            data = read_json(file)
            ranks = from_json_types(tuple[ProcessExit, ...], data["ranks"], file.name)
            exit_code = from_json_types(int | None, data["exit_code"], file.name)
            errors, warnings = _details(data["errors"]), _details(data.get("warnings", ()))
            ended = float(data["ended"])
            is_known = data["version"] == VERSION and 0 <= ended < _LAST_S
            return cls(Outcome(exit_code, errors, ranks, warnings=warnings), ended) if is_known else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _details(values: Sequence[Any]) -> tuple[Any, ...]:
    """Errors or warnings; TypeError or KeyError if they are something else."""
    for each in values:
        if not (isinstance(each["code"], str) and isinstance(each["message"], str)):
            raise TypeError("it is no error")
    return tuple(values)


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
