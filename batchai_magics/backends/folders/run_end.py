"""The files of a run that engines share: for an attempt, its predecessors, its conditions, its end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.private_files import is_remote
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import GRACE_S, Plan, PlanNode
from batchai_magics.untrusted_files import NotRegularError, read_file, read_json


def make_attempt_files(job: JobLayout, plan: Plan, nodes: Sequence[PlanNode] | None = None) -> None:
    """Creates the folders, logs and host file of an attempt on known nodes; removes earlier exits.

    The folders of all nodes, or of these alone.
    """
    exits, nodes = (Path(plan.exits), job.preparation_exits), plan.nodes if nodes is None else nodes
    for stale in exits:
        private_files.remove_folder(stale)
    for folder in (*exits, job.checkpoints, job.artifacts, *(Path(node.folder) for node in nodes)):
        private_files.make_folder(folder)
    for tmpdir in filter(None, (node.tmpdir for node in nodes)):
        with contextlib.suppress(OSError):  # then ranks use another one
            private_files.make_folder(Path(tmpdir))
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


class Predecessor(NamedTuple):
    """A run of the home that has to end, or to succeed, before another one starts."""

    guid: str
    name: str
    must_succeed: bool
    created: float = 0.0
    grace_s: float = GRACE_S

    def has_failed(self, end: Outcome) -> bool:
        """Whether this outcome prevents the other run from starting."""
        return self.must_succeed and not end.is_success


def write_predecessors(job: JobLayout, runs: Sequence[Predecessor]) -> None:
    """Records the runs after which a run starts, before it is submitted."""
    if runs:
        private_files.write(job.after, json.dumps(runs))


def read_predecessors(job: JobLayout) -> tuple[Predecessor, ...]:
    """The runs after which a run starts."""
    try:
        return tuple(Predecessor(*fields) for fields in read_json(job.after))
    except (FileNotFoundError, NotRegularError, ValueError, TypeError):
        return ()


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
