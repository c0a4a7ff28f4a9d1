"""Where a run stands by its files, and how it ended in the words of all who told something of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from batchai_magics.backends.folders.run_end import RunEnd
from batchai_magics.backends.node.outcome import REQUEUE, Outcome
from batchai_magics.backends.node.runner.exits import exits_in
from batchai_magics.backends.service.runner import Attempt, RunResult, RunStatus
from batchai_magics.backends.slurm.node.beginning import UNTOLD, said_ending
from batchai_magics.backends.slurm.node.collection import Collection
from batchai_magics.backends.slurm.node.endings import Ending, ending_of
from batchai_magics.backends.slurm.node.run_files import Begun, Left, RunFiles
from batchai_magics.backends.slurm.understand import WAITING_STATES, JobLine
from batchai_magics.launch.plan import Plan, PlanError
from batchai_magics.models.states import ExecutionState


@dataclass(frozen=True)
class Standing:
    """Where a run stands: its state and since when, how its latest attempt began, how it has ended.

    `waiting` is why Slurm has not started it yet; `has_left` whether its latest attempt is over; it waits
    for the next one; `beginnings` are all that it has had, unless it was but one.
    """

    state: ExecutionState
    changed: float
    begun: Begun | None = None
    end: RunEnd | None = None
    waiting: str = ""
    has_left: bool = False
    beginnings: tuple[tuple[Begun, Left | None], ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.end is None

    @property
    def holds_nodes(self) -> bool:
        """Whether nodes belong to it now."""
        return self.is_open and self.begun is not None and not self.has_left

    @property
    def status(self) -> RunStatus:
        """The same in the words of the service."""
        begun, end = self.begun, self.end
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
        """One that left no word was over when the next one began."""
        later = [begun.time for begun, _ in self.beginnings[1:]]
        for index, (begun, left) in enumerate(self.beginnings):
            is_latest = index == len(self.beginnings) - 1
            ended = left.time if left else None if is_latest else later[index]
            reason = left.reason if left else "" if is_latest else UNTOLD
            yield Attempt(begun.nodes, begun.time, ended, reason)

    @property
    def is_waiting(self) -> bool:
        """Whether it has no program that could be told anything."""
        return self.is_open and (self.begun is None or self.has_left)


def _result(end: RunEnd) -> RunResult:
    outcome = end.outcome
    return RunResult(end.ended, outcome.exit_code, outcome.errors, outcome.warnings, outcome.ranks)


def standing_of(files: RunFiles) -> Standing:
    """Where a run stands, by its files alone."""
    attempt, end = files.attempt, files.end
    begun = files.begun(attempt)
    left = files.left(attempt, begun.restarts) if begun else None
    is_again = left is not None or attempt > 1 or bool(begun and begun.restarts)
    beginnings = tuple(files.beginnings()) if is_again else ()
    if end:
        return Standing(_state_of(end), end.ended, begun, end, beginnings=beginnings)
    state, changed = _open_state(files, attempt, begun, left)
    return Standing(state, changed, begun, has_left=left is not None, beginnings=beginnings)


def queued_again(standing: Standing, line: JobLine, *, is_later: bool) -> Standing:
    """The same, queued where Slurm has said so since the run began: its program could not tell."""
    if not is_later or line.state not in WAITING_STATES or standing.state is not ExecutionState.RUNNING:
        return standing
    return replace(standing, state=ExecutionState.QUEUED, has_left=True)


def _open_state(
    files: RunFiles, attempt: int, begun: Begun | None, left: Left | None
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


def _state_of(end: RunEnd) -> ExecutionState:
    return ExecutionState.SUCCEEDED if end.outcome.is_success else ExecutionState.FAILED


def heard_ending(guid: str, line: JobLine | None, files: RunFiles) -> Ending | None:
    """How Slurm says that an attempt of a run has ended; None while it has not, or nobody knows."""
    if line is None:
        return None
    ending = ending_of(line.state) if line.comment == guid else Ending.GONE  # numbers are used again
    is_vague = ending in (Ending.FAILED, Ending.CANCELLED, Ending.COMPLETED, Ending.GONE)
    return (said_ending(files.batch_log) or ending) if is_vague else ending


def with_last_words(outcome: Outcome, files: RunFiles) -> Outcome:
    """The outcome with the last words of the job's script, where it had any."""
    words = _last_line(files.batch_log)
    return with_words(outcome, f"Its script said last: {words}" if words else "")


def with_words(outcome: Outcome, sentence: str) -> Outcome:
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
