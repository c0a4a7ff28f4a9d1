"""Runs of jobs: handed to Slurm, asked to end, and where each stands by its files and by what Slurm says."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import RunEnd
from batchai_magics.backends.node.exits import exits_in
from batchai_magics.backends.node.outcome import REQUEUE, TERMINATE, Outcome, failed_with, stopped
from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm import orders, understand
from batchai_magics.backends.slurm.answers import Answers
from batchai_magics.backends.slurm.node.endings import Ending, ending_of, outcome_of
from batchai_magics.backends.slurm.node.run_files import Begun, Over, RunFiles, Stop, Submission
from batchai_magics.backends.slurm.records import Record
from batchai_magics.backends.slurm.say import Submission as Said
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.backends.slurm.talk import Slurm
from batchai_magics.backends.slurm.understand import JobLine
from batchai_magics.errors import ServiceError
from batchai_magics.launch.plan import Plan, PlanError
from batchai_magics.models.states import ExecutionState

OVERDUE_S = 20.0  # a program that was told to end its job, and has not by then, is ended by Slurm


GONE = JobLine("", "", "", "", "", "")  # of a job that Slurm does not know


class Placement(NamedTuple):
    """Where a cluster's jobs may run: not on these nodes, and not at all while it is too small for them."""

    excluded: tuple[str, ...]
    size: int

    def is_held(self, node_count: int) -> bool:
        """Whether a job of so many nodes has to wait for the cluster to grow."""
        return node_count > self.size


@dataclass(frozen=True)
class Standing:
    """Where a run stands: its state and since when, how its latest attempt began, how it has ended.

    `waiting` is why Slurm has not started it yet.
    """

    state: ExecutionState
    changed: float
    begun: Begun | None = None
    end: RunEnd | None = None
    waiting: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.end is None

    @property
    def holds_nodes(self) -> bool:
        """Whether nodes belong to it now."""
        return self.is_open and self.begun is not None


class Runs:
    """The runs of jobs of a home."""

    def __init__(self, layout: Layout, slurm: Slurm, answers: Answers, settings: SlurmSettings) -> None:
        self._layout, self._slurm, self._answers = layout, slurm, answers
        self._settings = settings

    def files(self, guid: str) -> RunFiles:
        """The files of a run."""
        return RunFiles(self._layout.job(guid).root)

    def submit(self, job: Record, placement: Placement, *, attempt: int = 1, after: str = "") -> None:
        """Hands an attempt to Slurm; ServiceError, with its words, when it refuses."""
        files, more = self.files(job.guid), job.more
        is_held = placement.is_held(more["node_count"])
        said = Said(
            name=job.resource_id.name,
            guid=job.guid,
            partition=more["partition"],
            node_count=more["node_count"],
            minutes=more["minutes"],
            log=files.batch_log,
            niceness=more["niceness"],
            # What can never start is refused: a job that is held is told of its nodes when it is let go.
            excluded=() if is_held else placement.excluded,
            after=after,
            is_held=is_held,
            more=tuple(shlex.split(more["options"])),
        )
        script = orders.script(self._layout, job.guid, attempt, python=more["python"])
        number = self._slurm.submit(script, said.options, python=more["python"])
        if not files.note_submission(attempt, Submission(number, time.time(), is_held)):
            noted = files.submission(attempt)
            if noted is None or noted.slurm_job != number:
                self._slurm.end(number)

    def standing(self, guid: str) -> Standing:
        """Where a run stands, by its files alone."""
        files = self.files(guid)
        attempt, end = files.attempt, files.end
        begun = files.begun(attempt)
        if end:
            return Standing(_state_of(end), end.ended, begun, end)
        stop, submission = files.stop(attempt), files.submission(attempt)
        if stop and (begun or stop.reason != REQUEUE):
            state = ExecutionState.QUEUED if stop.reason == REQUEUE else ExecutionState.TERMINATING
            return Standing(state, stop.time, begun)
        if begun:
            return Standing(ExecutionState.RUNNING, begun.time, begun)
        return Standing(ExecutionState.QUEUED, submission.time if submission else 0.0)

    def settle(self, job: Record) -> Standing:
        """Where a run stands, also if Slurm has ended it without a word, or its submitter has died."""
        standing = self.standing(job.guid)
        if not standing.is_open:
            return standing
        files = self.files(job.guid)
        attempt = files.attempt
        submission = files.submission(attempt)
        if submission is None:
            self._settle_unsubmitted(job, files)
            return self.standing(job.guid)
        line = self._line(submission)
        self._settle_submitted(job, attempt, submission, line)
        standing = self.standing(job.guid)
        is_waiting = standing.state is ExecutionState.QUEUED and line is not None
        return replace(standing, waiting=understand.waiting_words(line)) if is_waiting and line else standing

    def ask_to_stop(self, job: Record, reason: str = TERMINATE) -> bool:
        """Asks a run to end, or to begin again; one that waits ends at once. False if it was asked before."""
        files = self.files(job.guid)
        if files.end:
            return False
        attempt = files.attempt
        is_first = files.ask_to_stop(attempt, Stop(reason, time.time()))
        submission = files.submission(attempt)
        if submission is None:
            return is_first
        number = submission.slurm_job
        if not files.begun(attempt):
            self._slurm.end_if_waiting(number)
            line = self._slurm.jobs().get(number)
            if line is None or ending_of(line.state):
                if reason != REQUEUE:
                    files.note_end(RunEnd(stopped(reason), time.time()))
                return is_first
        self._slurm.tell_to_stop(number)
        return is_first

    def requeue(self, job: Record, placement: Placement) -> None:
        """Ends a run's attempt and hands the next one to Slurm, to begin when that one is over."""
        files = self.files(job.guid)
        attempt = files.attempt
        submission = files.submission(attempt)
        if self.ask_to_stop(job, REQUEUE) and submission:
            self.submit(job, placement, attempt=attempt + 1, after=submission.slurm_job)

    def place(self, job: Record, placement: Placement) -> None:
        """Tells Slurm where a run that waits may run now."""
        files = self.files(job.guid)
        attempt = files.attempt
        submission = files.submission(attempt)
        if submission and not files.begun(attempt) and not files.end:
            is_held = placement.is_held(job.more["node_count"])
            excluded = () if is_held else placement.excluded
            self._slurm.place(submission.slurm_job, excluded=excluded, is_held=is_held)

    def conclude(self, job: Record, outcome: Outcome, *, ended: float = 0.0) -> None:
        """Notes the end of a run that cannot tell it itself."""
        files = self.files(job.guid)
        files.note_end(RunEnd(_with_ranks(outcome, files), ended or time.time()))

    def forget(self, job: Record) -> None:
        """Deletes the folder of a run."""
        private_files.remove_folder(self._layout.job(job.guid).root)

    def _settle_unsubmitted(self, job: Record, files: RunFiles) -> None:
        if time.time() - job.created > self._settings.lost_s and not files.attempt:
            number = self._number_in_slurm(job)
            if number:
                files.note_submission(1, Submission(number, time.time()))
                return
            text = "The process that submitted it disappeared before it was done: submit it again"
            self.conclude(job, failed_with("JobLaunchFailed", text))

    def _number_in_slurm(self, job: Record) -> str:
        """What Slurm calls a job whose submitter died before it could note it; empty where it has none."""
        with contextlib.suppress(ServiceError):
            _, lines = self._answers.jobs(since=job.created)
            return next((line.number for line in lines.values() if line.comment == job.guid), "")
        return ""

    def _settle_submitted(
        self, job: Record, attempt: int, submission: Submission, line: JobLine | None
    ) -> None:
        files = self.files(job.guid)
        stop = files.stop(attempt)
        if stop and time.time() - stop.time > OVERDUE_S:
            self._slurm.end(submission.slurm_job)
        ending = _ending(job, line)
        if ending is None:
            return
        over = files.note_over(attempt, Over(ending.value, time.time()))
        is_cancelled = ending is Ending.CANCELLED and not files.begun(attempt)
        if is_cancelled or time.time() - over.time >= self._settings.lost_s:
            outcome = _named(outcome_of(ending, reason=stop.reason if stop else ""), files)
            self.conclude(job, outcome, ended=over.time)

    def _line(self, submission: Submission) -> JobLine | None:
        """What Slurm says of an attempt: `GONE` when it knows it no longer; None where nobody knows."""
        try:
            asked, lines = self._answers.jobs(since=submission.time)
        except ServiceError:
            return None
        if asked <= submission.time:
            return None
        return lines.get(submission.slurm_job, GONE)


def _ending(job: Record, line: JobLine | None) -> Ending | None:
    """How Slurm says that an attempt has ended; None while it has not, or nobody knows."""
    if line is None:
        return None
    return ending_of(line.state) if line.comment == job.guid else Ending.GONE  # numbers are used again


def _state_of(end: RunEnd) -> ExecutionState:
    return ExecutionState.SUCCEEDED if end.outcome.is_success else ExecutionState.FAILED


def _named(outcome: Outcome, files: RunFiles) -> Outcome:
    """The outcome with the last words of the job's script, where it had any."""
    words = _last_line(files.batch_log)
    if not words or not outcome.errors:
        return outcome
    first, *rest = outcome.errors
    text = f"{first['message']}. Its script said last: {words}"
    return Outcome(outcome.exit_code, ({**first, "message": text}, *rest))


def _last_line(file: Path) -> str:
    try:
        lines: Sequence[str] = file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


def _with_ranks(outcome: Outcome, files: RunFiles) -> Outcome:
    """The outcome with what became of each process, as far as they have told it."""
    try:
        plan = Plan.read(str(files.layout.plan))
        return outcome.with_ranks(exits_in(files.layout.exits), plan)
    except (OSError, PlanError):  # it never ran
        return outcome
