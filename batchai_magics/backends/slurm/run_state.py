"""The state of a run by its files, and its outcome in the words of everything that reported one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from batchai_magics.backends.folders.run_end import RunEnd
from batchai_magics.backends.node.outcome import REQUEUE, Outcome
from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.backends.service.runner import Attempt, RunResult, RunStatus
from batchai_magics.backends.slurm.node.attempt import UNTOLD, logged_end
from batchai_magics.backends.slurm.node.collection import Collection
from batchai_magics.backends.slurm.node.end_states import EndState, end_state_of
from batchai_magics.backends.slurm.node.run_files import AttemptEnd, AttemptStart, RunFiles
from batchai_magics.backends.slurm.parse import WAITING_STATES, JobLine
from batchai_magics.launch.plan import Plan, PlanError
from batchai_magics.models.states import ExecutionState


@dataclass(frozen=True)
class RunState:
    """Where a run stands: its state and since when, how its latest attempt began, how it has ended.

    `waiting` is why Slurm has not started it yet; `has_left` whether its latest attempt is over; it waits
    for the next one; `beginnings` are all that it has had, unless it was but one.
    """

    state: ExecutionState
    changed: float
    attempt_start: AttemptStart | None = None
    end: RunEnd | None = None
    waiting: str = ""
    is_between_attempts: bool = False
    attempts: tuple[tuple[AttemptStart, AttemptEnd | None], ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.end is None

    @property
    def holds_nodes(self) -> bool:
        """Whether nodes belong to it now."""
        return self.is_open and self.attempt_start is not None and not self.is_between_attempts

    @property
    def status(self) -> RunStatus:
        """The same as the service's RunStatus."""
        begun, end = self.attempt_start, self.end
        return RunStatus(
            state=self.state,
            changed=self.changed,
            started=begun.time if begun else None,
            nodes=begun.nodes if begun and self.holds_nodes else (),
            waiting=self.waiting,
            attempts=tuple(self._attempts()),
            result=end and _result(end),
        )

    def _attempts(self) -> Iterator[Attempt]:
        """An attempt that did not report its end was over when the next one began."""
        later = [begun.time for begun, _ in self.attempts[1:]]
        for index, (begun, left) in enumerate(self.attempts):
            is_latest = index == len(self.attempts) - 1
            ended = left.time if left else None if is_latest else later[index]
            reason = left.reason if left else "" if is_latest else UNTOLD
            yield Attempt(begun.nodes, begun.time, ended, reason)

    @property
    def is_waiting(self) -> bool:
        """Whether it has no program that could be told anything."""
        return self.is_open and (self.attempt_start is None or self.is_between_attempts)


def _result(end: RunEnd) -> RunResult:
    outcome = end.outcome
    return RunResult(end.ended, outcome.exit_code, outcome.errors, outcome.warnings, outcome.ranks)


def state_of(files: RunFiles) -> RunState:
    """The state of a run, from its files alone."""
    attempt, end = files.attempt, files.end
    begun = files.attempt_start(attempt)
    left = files.attempt_end(attempt, begun.restarts) if begun else None
    is_again = left is not None or attempt > 1 or bool(begun and begun.restarts)
    beginnings = tuple(files.attempts()) if is_again else ()
    if end:
        return RunState(_final_state(end), end.ended, begun, end, attempts=beginnings)
    state, changed = _open_state(files, attempt, begun, left)
    return RunState(state, changed, begun, is_between_attempts=left is not None, attempts=beginnings)


def queued_again(standing: RunState, line: JobLine, *, is_later: bool) -> RunState:
    """The same, queued where Slurm has said so since the run began: its program could not tell."""
    if not is_later or line.state not in WAITING_STATES or standing.state is not ExecutionState.RUNNING:
        return standing
    return replace(standing, state=ExecutionState.QUEUED, is_between_attempts=True)


def _open_state(
    files: RunFiles, attempt: int, begun: AttemptStart | None, left: AttemptEnd | None
) -> tuple[ExecutionState, float]:
    """The state of a run that has not ended, and since when."""
    stop, submission = files.last_stop(attempt or 1), files.submission(attempt)
    if stop and stop.reason != REQUEUE:
        return ExecutionState.TERMINATING, stop.time
    if left:
        return ExecutionState.QUEUED, left.time
    if begun:
        return (ExecutionState.QUEUED, stop.time) if stop else (ExecutionState.RUNNING, begun.time)
    return ExecutionState.QUEUED, submission.time if submission else 0.0


def _final_state(end: RunEnd) -> ExecutionState:
    return ExecutionState.SUCCEEDED if end.outcome.is_success else ExecutionState.FAILED


def reported_end(guid: str, line: JobLine | None, files: RunFiles) -> EndState | None:
    """How Slurm says that an attempt of a run has ended; None while it has not, or nobody knows."""
    if line is None:
        return None
    ending = end_state_of(line.state) if line.comment == guid else EndState.GONE  # numbers are used again
    is_vague = ending in (EndState.FAILED, EndState.CANCELLED, EndState.COMPLETED, EndState.GONE)
    return (logged_end(files.batch_log) or ending) if is_vague else ending


def with_last_log_line(outcome: Outcome, files: RunFiles) -> Outcome:
    """The outcome with the last words of the job's script, where it had any."""
    words = _last_line(files.batch_log)
    return with_sentence(outcome, f"Its script said last: {words}" if words else "")


def with_sentence(outcome: Outcome, sentence: str) -> Outcome:
    """The outcome with one more sentence, if there is one, without its point, about its first error."""
    if not sentence or not outcome.errors:
        return outcome
    first, *rest = outcome.errors
    return Outcome(outcome.exit_code, ({**first, "message": f"{first['message']}. {sentence}"}, *rest))


def with_ranks(outcome: Outcome, files: RunFiles) -> Outcome:
    """The outcome with what became of each process, as far as they have told it."""
    try:
        plan = Plan.read(str(files.layout.plan))
        return outcome.with_ranks(exits_in(Path(plan.exits)), plan)
    except (OSError, PlanError):  # it never ran
        return outcome


def with_files_left(outcome: Outcome, files: RunFiles) -> Outcome:
    """The outcome with what nodes still have on their own disks, of a run that did not end itself."""
    try:
        plan = Plan.from_json(files.layout.plan.read_text(encoding="utf-8"))
    except (OSError, PlanError):  # it never ran
        return outcome
    return outcome.warned("FilesLeftBehind", *Collection(files, plan).left_behind())


def _last_line(file: Path) -> str:
    try:
        lines: Sequence[str] = file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""
