"""Runs of jobs: handed to Slurm, asked to end, and where each stands by its files and by what Slurm says."""

from __future__ import annotations

import contextlib
import shlex
import time
from dataclasses import replace
from typing import NamedTuple

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import RunEnd
from batchai_magics.backends.node.outcome import REQUEUE, TERMINATE, Outcome, failed_with, stopped
from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm import orders, understand
from batchai_magics.backends.slurm.answers import Answers
from batchai_magics.backends.slurm.node.beginning import said_ending
from batchai_magics.backends.slurm.node.endings import Ending, ending_of, outcome_of
from batchai_magics.backends.slurm.node.run_files import Over, RunFiles, Stop, Submission
from batchai_magics.backends.slurm.records import Record
from batchai_magics.backends.slurm.say import Submission as Said
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.backends.slurm.standing import Standing, standing_of, with_last_words, with_ranks
from batchai_magics.backends.slurm.talk import Slurm
from batchai_magics.backends.slurm.understand import JobLine
from batchai_magics.errors import ServiceError
from batchai_magics.models.states import ExecutionState

SKEW_S = 2.0  # how far the clocks of a node and of this machine may be apart
OVERDUE_S = 20.0  # a program that was told to end its job, and has not by then, is ended by Slurm


GONE = JobLine("", "", "", "", "", "")  # of a job that Slurm does not know


class Heard(NamedTuple):
    """What Slurm has said of an attempt, and when it was asked."""

    asked: float
    line: JobLine


class Placement(NamedTuple):
    """Where a cluster's jobs may run: not on these nodes, and not at all while it is too small for them."""

    excluded: tuple[str, ...]
    size: int

    def is_held(self, node_count: int) -> bool:
        """Whether a job of so many nodes has to wait for the cluster to grow."""
        return node_count > self.size


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
        return standing_of(self.files(guid))

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
        heard = self._heard(submission)
        self._settle_submitted(job, attempt, submission, heard and heard.line)
        standing = self.standing(job.guid)
        if heard is None or not standing.is_open:
            return standing
        standing = _queued_again(standing, heard)
        is_queued = standing.state is ExecutionState.QUEUED
        return replace(standing, waiting=understand.waiting_words(heard.line)) if is_queued else standing

    def ask_to_stop(self, job: Record, reason: str = TERMINATE) -> bool:
        """Asks a run to end, or to begin again; one that waits ends at once. False if it was asked before."""
        files = self.files(job.guid)
        standing = self.settle(job)
        if standing.end:
            return False
        attempt = files.attempt
        is_first = files.ask_to_stop(attempt, Stop(reason, time.time()))
        submission = files.submission(attempt)
        if submission is None:
            return is_first
        number = submission.slurm_job
        if standing.is_waiting:
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
        if submission and self.standing(job.guid).is_waiting:
            is_held = placement.is_held(job.more["node_count"])
            excluded = () if is_held else placement.excluded
            self._slurm.place(submission.slurm_job, excluded=excluded, is_held=is_held)

    def conclude(self, job: Record, outcome: Outcome, *, ended: float = 0.0) -> None:
        """Notes the end of a run that cannot tell it itself."""
        files = self.files(job.guid)
        files.note_end(RunEnd(with_ranks(outcome, files), ended or time.time()))

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
        ending = _ending(job, line, files)
        if ending is None:
            return
        over = files.note_over(attempt, Over(ending.value, time.time()))
        is_cancelled = ending is Ending.CANCELLED and self.standing(job.guid).is_waiting
        if is_cancelled or time.time() - over.time >= self._settings.lost_s:
            outcome = with_last_words(outcome_of(ending, reason=stop.reason if stop else ""), files)
            self.conclude(job, outcome, ended=over.time)

    def _heard(self, submission: Submission) -> Heard | None:
        """What Slurm says of an attempt: `GONE` when it knows it no longer; None where nobody knows."""
        try:
            asked, lines = self._answers.jobs(since=submission.time)
        except ServiceError:
            return None
        if asked <= submission.time:
            return None
        return Heard(asked, lines.get(submission.slurm_job, GONE))


def _queued_again(standing: Standing, heard: Heard) -> Standing:
    """The same, queued where Slurm has said so since the run began: its program could not tell."""
    begun = standing.begun
    is_stale = begun is None or heard.asked <= begun.time + SKEW_S
    if is_stale or heard.line.state not in understand.WAITING_STATES:
        return standing
    if standing.state is not ExecutionState.RUNNING:
        return standing
    return replace(standing, state=ExecutionState.QUEUED, has_left=True)


def _ending(job: Record, line: JobLine | None, files: RunFiles) -> Ending | None:
    """How Slurm says that an attempt has ended; None while it has not, or nobody knows."""
    if line is None:
        return None
    ending = ending_of(line.state) if line.comment == job.guid else Ending.GONE  # numbers are used again
    is_vague = ending in (Ending.FAILED, Ending.CANCELLED, Ending.COMPLETED, Ending.GONE)
    return (said_ending(files.batch_log) or ending) if is_vague else ending
