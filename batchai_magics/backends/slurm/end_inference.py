"""Infers how a run ended whose program did not report it: from Slurm's state and the files it left."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node.outcome import Outcome, failed_with
from batchai_magics.backends.slurm import home_check
from batchai_magics.backends.slurm.node.end_states import EndState, lost, outcome_of
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.backends.slurm.parse import JobLine

# A job that ends in one of these states without an attempt start never started.
_ENDED_BEFORE_START = (EndState.FAILED, EndState.COMPLETED)
_CANCELLED_BY_USER = re.compile(r"CANCELLED AT")  # written by Slurm to the log of a cancelled script


class Evidence(NamedTuple):
    """What is known about an attempt of a run: its files, its home, and Slurm's report."""

    files: RunFiles
    attempt: int
    home: Path
    partition: str
    line: JobLine | None

    @property
    def has_started(self) -> bool:
        """Whether its program has reported its start."""
        return self.files.attempt_start(self.attempt) is not None

    @property
    def nodes(self) -> Sequence[str]:
        """The nodes that its program has reported to run on."""
        start = self.files.attempt_start(self.attempt)
        return start.nodes if start else ()

    @property
    def node(self) -> str:
        """The node that runs its script; empty before one was allocated."""
        return self.line.first_node if self.line else ""


def never_started(ending: EndState, evidence: Evidence) -> bool:
    """Whether no report can follow any more, because its program never started."""
    return ending in _ENDED_BEFORE_START and not evidence.has_started


def depends_on_nodes(ending: EndState, evidence: Evidence) -> bool:
    """Whether the outcome depends on why nodes are unusable."""
    return ending is EndState.NODE_FAIL or (ending is EndState.CANCELLED and _failed_to_launch(evidence))


def outcome(ending: EndState, evidence: Evidence, *, reason: str, problems: Mapping[str, str]) -> Outcome:
    """How the run ended. `reason` is why it was asked to stop, `problems` why nodes are unusable."""
    if reason:
        return outcome_of(ending, reason=reason)
    if ending is EndState.NODE_FAIL:
        return lost({name: problems[name] for name in evidence.nodes if name in problems})
    if never_started(ending, evidence) and not evidence.files.batch_log.exists():
        home, partition, script = evidence.home, evidence.partition, evidence.files.script
        return home_check.not_shared(home, node=evidence.node, partition=partition, file=script)
    if ending is EndState.CANCELLED and _failed_to_launch(evidence):
        return _launch_failure(evidence.node, problems.get(evidence.node, ""))
    return outcome_of(ending)


def _launch_failure(node: str, problem: str) -> Outcome:
    text = f"Slurm could not start the job on {node}, and cancelled it"
    return failed_with("JobLaunchFailed", f"{text}: {problem}" if problem else text, NodeId=node)


def _failed_to_launch(evidence: Evidence) -> bool:
    """Whether slurmd cancelled the job: it had nodes, and no user cancelled its script."""
    if not evidence.node or evidence.has_started:
        return False
    try:
        text = evidence.files.batch_log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return not _CANCELLED_BY_USER.search(text)
