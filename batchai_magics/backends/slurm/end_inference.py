"""How a run ended whose own program has not told it: by what Slurm says, and by what is there and is not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node.outcome import Outcome, failed_with
from batchai_magics.backends.slurm import home_check
from batchai_magics.backends.slurm.node.end_states import EndState, lost, outcome_of
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.backends.slurm.parse import JobLine

# A job that Slurm says has ended so, and whose program has left no word of its beginning, has never begun.
_NEVER_BEGUN = (EndState.FAILED, EndState.COMPLETED)
_BY_SOMEBODY = re.compile(r"CANCELLED AT")  # what Slurm writes into the log of a script that it ends


class Evidence(NamedTuple):
    """What is known of an attempt at a run: where its files and the home are, and what Slurm says of it."""

    files: RunFiles
    attempt: int
    home: Path
    partition: str
    line: JobLine | None

    @property
    def has_begun(self) -> bool:
        """Whether its program has told that it runs."""
        return self.files.attempt_start(self.attempt) is not None

    @property
    def node(self) -> str:
        """The node that Slurm has given its script; empty where it has given it none."""
        return self.line.first_node if self.line else ""


def is_certain(ending: EndState, evidence: Evidence) -> bool:
    """Whether no word of the run can still come: its program has never begun."""
    return ending in _NEVER_BEGUN and not evidence.has_begun


def is_of_nodes(ending: EndState, evidence: Evidence) -> bool:
    """Whether it helps to know why nodes cannot be used."""
    return ending is EndState.NODE_FAIL or (ending is EndState.CANCELLED and _is_not_launched(evidence))


def outcome(ending: EndState, evidence: Evidence, *, reason: str, problems: Mapping[str, str]) -> Outcome:
    """How the run ended. `reason` is why it had been asked to end, `problems` why nodes cannot be used."""
    if reason:
        return outcome_of(ending, reason=reason)
    if ending is EndState.NODE_FAIL:
        begun = evidence.files.attempt_start(evidence.attempt)
        return lost({name: problems[name] for name in (begun.nodes if begun else ()) if name in problems})
    if is_certain(ending, evidence) and not evidence.files.batch_log.exists():
        home, partition, script = evidence.home, evidence.partition, evidence.files.script
        return home_check.not_shared(home, node=evidence.node, partition=partition, file=script)
    if ending is EndState.CANCELLED and _is_not_launched(evidence):
        problem = problems.get(evidence.node, "")
        text = f"Slurm could not start the job on {evidence.node}, and cancelled it"
        return failed_with("JobLaunchFailed", f"{text}: {problem}" if problem else text, NodeId=evidence.node)
    return outcome_of(ending)


def _is_not_launched(evidence: Evidence) -> bool:
    """Whether a job that is cancelled was so by slurmd: it had nodes, and nobody ended its script."""
    if not evidence.node or evidence.has_begun:
        return False
    try:
        text = evidence.files.batch_log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return not _BY_SOMEBODY.search(text)
