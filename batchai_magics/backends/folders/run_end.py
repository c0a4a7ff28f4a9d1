"""The files of an attempt, and those between a run and the program that watches it: stop, end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.private_files import is_remote
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan
from batchai_magics.untrusted_files import read_file, read_json


def make_attempt_files(job: JobLayout, plan: Plan) -> None:
    """Creates the folders, logs and host file of an attempt on known nodes; removes earlier exits."""
    exits = (Path(plan.exits), job.preparation_exits)
    for stale in exits:
        private_files.remove_folder(stale)
    for folder in (*exits, job.checkpoints, job.artifacts, *(Path(node.folder) for node in plan.nodes)):
        private_files.make_folder(folder)
    for node in plan.nodes:
        if node.tmpdir:
            private_files.make_folder(Path(node.tmpdir))
    for log in (*(stream.path for stream in plan.output), *plan.execution_logs):
        private_files.make_file(Path(log))
    private_files.make_file(job.host_file)
    job.host_file.write_text("".join(f"{node.id}\n" for node in plan.nodes), encoding="utf-8")


def write_end(file: Path, outcome: Outcome) -> None:
    """Writes atomically how a run ended; OSError if that fails."""
    if is_remote(file):
        return file.write_atomic(outcome.to_json().encode(), private_files.FILE, parents=False)
    part = file.with_suffix(".part")
    with open(part, "w", encoding="utf-8", opener=private_files.opener) as stream:
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
