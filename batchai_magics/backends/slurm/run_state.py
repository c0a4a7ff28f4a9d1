"""The status of a run, read from its files, and its outcome, inferred where its program did not report it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node.outcome import REQUEUE, failed_with, node_loss
from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.backends.service.runner import RunStatus
from batchai_magics.backends.slurm import home_check
from batchai_magics.backends.slurm.node.attempt_ends import EndState, log_text, logged_end, outcome_of
from batchai_magics.backends.slurm.node.run_files import AttemptNote, AttemptStart, RunFiles
from batchai_magics.backends.slurm.node.scratch import ScratchCollection
from batchai_magics.backends.slurm.parse import WAITING_STATES, SlurmJob
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan
from batchai_magics.models.states import ExecutionState
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_text


def status_of(files: RunFiles) -> RunStatus:
    """The status of a run, from its files alone; it holds nodes while an attempt of it runs."""
    attempt, end = files.attempt, files.outcome
    start = files.attempt_start(attempt)
    attempt_end = files.attempt_end(attempt, start.restarts) if start else None
    has_several = attempt_end is not None or attempt > 1 or bool(start and start.restarts)
    attempts, started = tuple(files.attempts()) if has_several else (), start.time if start else None
    if end:
        return RunStatus.of_end(end, started, attempts)
    state, changed = _open_state(files, attempt, start, attempt_end)
    status = RunStatus(state, changed, started, attempts=attempts)
    if start is None or attempt_end:
        return status
    warnings = Outcome(None).with_watch_notes(filter(None, [start.unwatched])).warnings
    return replace(status, nodes=start.nodes, warnings=warnings)


def status_at_end(status: RunStatus, end: Outcome) -> RunStatus:
    """The status of a run that was open, after its end."""
    return RunStatus.of_end(end, status.started, status.attempts)


def with_requeue(
    status: RunStatus, start: AttemptStart | None, line: SlurmJob, *, is_later: bool
) -> RunStatus:
    """The status, changed to queued if Slurm requeued the run after its start, unreported by its program."""
    is_up = status.state is ExecutionState.RUNNING or bool(start and start.ending)
    if not is_later or line.state not in WAITING_STATES or not is_up:
        return status
    return replace(status, state=ExecutionState.QUEUED, nodes=(), warnings=())


def _open_state(
    files: RunFiles, attempt: int, start: AttemptStart | None, attempt_end: AttemptNote | None
) -> tuple[ExecutionState, float]:
    """The state of a run that has not ended, and since when."""
    stop, submission = files.last_stop(attempt or 1), files.submission(attempt)
    if stop and stop.reason != REQUEUE:
        return ExecutionState.TERMINATING, stop.time
    if attempt_end:
        return ExecutionState.QUEUED, attempt_end.time
    if start and start.ending:
        return ExecutionState.TERMINATING, start.ending
    if start:
        return (ExecutionState.QUEUED, stop.time) if stop else (ExecutionState.RUNNING, start.time)
    return ExecutionState.QUEUED, submission.time if submission else 0.0


def reported_end(line: SlurmJob | None, files: RunFiles) -> EndState | None:
    """The end of an attempt according to Slurm; None if it has not ended, or that is unknown."""
    if line is None:
        return None
    ending = line.end_state if line.comment == files.comment else EndState.GONE  # Slurm reuses job numbers
    is_vague = ending in (EndState.FAILED, EndState.CANCELLED, EndState.COMPLETED, EndState.GONE)
    return (logged_end(files.batch_log) or ending) if is_vague else ending


def with_last_log_line(outcome: Outcome, files: RunFiles) -> Outcome:
    """The outcome with the last line that the job's script printed, if any."""
    lines = log_text(files.batch_log).strip().splitlines()
    return with_sentence(outcome, f"Its script said last: {lines[-1].strip()}" if lines else "")


def with_sentence(outcome: Outcome, sentence: str) -> Outcome:
    """The outcome with a sentence (without full stop), if any, added to its first error."""
    if not sentence or not outcome.errors:
        return outcome
    first, *rest = outcome.errors
    return Outcome(outcome.exit_code, ({**first, "message": f"{first['message']}. {sentence}"}, *rest))


def with_reports(outcome: Outcome, files: RunFiles) -> Outcome:
    """The outcome of a run that did not record its end, with the exits that its ranks have recorded.

    Warnings name the nodes with files left on their own disks.
    """
    try:
        plan = Plan.from_json(read_text(files.plan, MAX_PLAN_BYTES))
        outcome = outcome.with_ranks(exits_in(Path(plan.exits)), plan)
    except (OSError, ValueError):  # it never ran
        return outcome
    return outcome.warned("FilesLeftBehind", *ScratchCollection(files, plan).left_behind())


# A job that ends in one of these states without an attempt start never started.
_ENDED_BEFORE_START = (EndState.FAILED, EndState.COMPLETED)
_CANCELLED_BY_USER = re.compile(r"CANCELLED AT")  # written by Slurm to the log of a cancelled script


class Evidence(NamedTuple):
    """The evidence on the end of an attempt: the run's files, its home, and Slurm's report."""

    files: RunFiles
    attempt: int
    home: Path
    partition: str
    line: SlurmJob | None

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
        return node_loss({name: problems[name] for name in evidence.nodes if name in problems})
    if never_started(ending, evidence) and not evidence.files.batch_log.exists():
        home, partition, script = evidence.home, evidence.partition, evidence.files.script
        return home_check.not_shared(home, node=evidence.node, partition=partition, file=script)
    if ending is EndState.CANCELLED and _failed_to_launch(evidence):
        problem = problems.get(evidence.node, "")
        text = f"Slurm could not start the job on {evidence.node}, and cancelled it"
        return failed_with("JobLaunchFailed", f"{text}: {problem}" if problem else text, NodeId=evidence.node)
    return outcome_of(ending)


def _failed_to_launch(evidence: Evidence) -> bool:
    """Whether slurmd cancelled the job: it had nodes, and no user cancelled its script."""
    is_without_start = bool(evidence.node) and not evidence.has_started
    return is_without_start and not _CANCELLED_BY_USER.search(log_text(evidence.files.batch_log))
