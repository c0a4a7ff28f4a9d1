"""The state of a run, read from its files, and its outcome, inferred where its program did not report it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node.outcome import REQUEUE, failed_with, lost
from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.backends.service.runner import RunAttempt, RunStatus
from batchai_magics.backends.slurm import home_check
from batchai_magics.backends.slurm.node.attempt_ends import (
    NOT_REPORTED,
    EndState,
    end_state_of,
    logged_end,
    outcome_of,
)
from batchai_magics.backends.slurm.node.run_files import AttemptEnd, AttemptStart, RunFiles
from batchai_magics.backends.slurm.node.scratch import ScratchCollection
from batchai_magics.backends.slurm.parse import WAITING_STATES, JobLine
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan
from batchai_magics.models.states import ExecutionState
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_text, tail_of


@dataclass(frozen=True)
class RunState:
    """The state of a run, since when, its latest attempt, and how it ended.

    `waiting` is why it is pending; `is_between_attempts` whether its latest attempt is over and the next one
    has not started; `attempts` are all its attempts if there was more than one.
    """

    state: ExecutionState
    changed: float
    attempt_start: AttemptStart | None = None
    end: Outcome | None = None
    waiting: str = ""
    is_between_attempts: bool = False
    attempts: tuple[tuple[AttemptStart, AttemptEnd | None], ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.end is None

    @property
    def holds_nodes(self) -> bool:
        """Whether it currently has nodes."""
        return self.is_open and self.attempt_start is not None and not self.is_between_attempts

    @property
    def status(self) -> RunStatus:
        """This state as the service's RunStatus."""
        start, end = self.attempt_start, self.end
        return RunStatus(
            state=self.state,
            changed=self.changed,
            started=start.time if start else None,
            nodes=start.nodes if start and self.holds_nodes else (),
            waiting=self.waiting,
            attempts=tuple(self._attempts()),
            result=end,
            warnings=Outcome(None).with_watch_notes([start.unwatched]).warnings
            if start and start.unwatched and self.holds_nodes
            else (),
        )

    def _attempts(self) -> Iterator[RunAttempt]:
        """An attempt that did not report its end was over when the next one started."""
        later = [start.time for start, _ in self.attempts[1:]]
        for index, (start, attempt_end) in enumerate(self.attempts):
            is_latest = index == len(self.attempts) - 1
            ended = attempt_end.time if attempt_end else None if is_latest else later[index]
            reason = attempt_end.reason if attempt_end else "" if is_latest else NOT_REPORTED
            yield RunAttempt(start.nodes, start.time, ended, reason)

    @property
    def is_waiting(self) -> bool:
        """Whether no program of it is running that a stop request could reach."""
        return self.is_open and (self.attempt_start is None or self.is_between_attempts)


def state_of(files: RunFiles) -> RunState:
    """The state of a run, from its files alone."""
    attempt, end = files.attempt, files.end
    start = files.attempt_start(attempt)
    attempt_end = files.attempt_end(attempt, start.restarts) if start else None
    has_several = attempt_end is not None or attempt > 1 or bool(start and start.restarts)
    attempts = tuple(files.attempts()) if has_several else ()
    if end:
        return RunState(_final_state(end), end.ended, start, end, attempts=attempts)
    state, changed = _open_state(files, attempt, start, attempt_end)
    return RunState(state, changed, start, is_between_attempts=attempt_end is not None, attempts=attempts)


def with_end(state: RunState, end: Outcome) -> RunState:
    """The state of a run that was open, after its end."""
    final = _final_state(end)
    return replace(state, state=final, changed=end.ended, end=end, waiting="", is_between_attempts=False)


def requeued(state: RunState, line: JobLine, *, is_later: bool) -> RunState:
    """The state, changed to queued if Slurm reported so after the run's start; the program could not."""
    start = state.attempt_start
    is_up = state.state is ExecutionState.RUNNING or bool(start and start.ending)
    if not is_later or line.state not in WAITING_STATES or not is_up:
        return state
    return replace(state, state=ExecutionState.QUEUED, is_between_attempts=True)


def _open_state(
    files: RunFiles, attempt: int, start: AttemptStart | None, attempt_end: AttemptEnd | None
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


def _final_state(end: Outcome) -> ExecutionState:
    return ExecutionState.SUCCEEDED if end.is_success else ExecutionState.FAILED


def reported_end(line: JobLine | None, files: RunFiles) -> EndState | None:
    """How Slurm reports that an attempt ended; None if it has not, or it is unknown."""
    if line is None:
        return None
    ending = (
        end_state_of(line.state) if line.comment == files.comment else EndState.GONE
    )  # Slurm reuses job numbers
    is_vague = ending in (EndState.FAILED, EndState.CANCELLED, EndState.COMPLETED, EndState.GONE)
    return (logged_end(files.batch_log) or ending) if is_vague else ending


def with_last_log_line(outcome: Outcome, files: RunFiles) -> Outcome:
    """The outcome with the last line that the job's script printed, if any."""
    try:
        lines = tail_of(files.batch_log).strip().splitlines()
    except OSError:
        return outcome
    return with_sentence(outcome, f"Its script said last: {lines[-1].strip()}" if lines else "")


def with_sentence(outcome: Outcome, sentence: str) -> Outcome:
    """The outcome with a sentence (without full stop), if any, added to its first error."""
    if not sentence or not outcome.errors:
        return outcome
    first, *rest = outcome.errors
    return Outcome(outcome.exit_code, ({**first, "message": f"{first['message']}. {sentence}"}, *rest))


def with_ranks(outcome: Outcome, files: RunFiles) -> Outcome:
    """The outcome with the exit status of each rank that reported one."""
    try:
        plan = Plan.from_json(read_text(files.layout.plan, MAX_PLAN_BYTES))
        return outcome.with_ranks(exits_in(Path(plan.exits)), plan)
    except (OSError, ValueError):  # it never ran
        return outcome


def with_files_left(outcome: Outcome, files: RunFiles) -> Outcome:
    """For a run that did not end itself: the outcome with what remains on the nodes' own disks."""
    try:
        plan = Plan.from_json(read_text(files.layout.plan, MAX_PLAN_BYTES))
    except (OSError, ValueError):  # it never ran
        return outcome
    return outcome.warned("FilesLeftBehind", *ScratchCollection(files, plan).left_behind())


def _last_line(file: Path) -> str:
    try:
        lines: Sequence[str] = tail_of(file).strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


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
        problem = problems.get(evidence.node, "")
        text = f"Slurm could not start the job on {evidence.node}, and cancelled it"
        return failed_with("JobLaunchFailed", f"{text}: {problem}" if problem else text, NodeId=evidence.node)
    return outcome_of(ending)


def _failed_to_launch(evidence: Evidence) -> bool:
    """Whether slurmd cancelled the job: it had nodes, and no user cancelled its script."""
    if not evidence.node or evidence.has_started:
        return False
    try:
        text = tail_of(evidence.files.batch_log)
    except OSError:
        return True
    return not _CANCELLED_BY_USER.search(text)
