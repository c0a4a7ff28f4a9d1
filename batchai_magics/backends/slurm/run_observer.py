"""Reads the status of runs from their files and Slurm's reports; writes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import Predecessor, read_predecessors
from batchai_magics.backends.node.outcome import REQUEUE, dependency_failed, failed_with
from batchai_magics.backends.service.repository import AFTER
from batchai_magics.backends.service.runner import Run, RunStatus, waiting_reason
from batchai_magics.backends.slurm import parse, run_state
from batchai_magics.backends.slurm.client import TIMEOUT_S, SlurmClient
from batchai_magics.backends.slurm.node.attempt_ends import EndState
from batchai_magics.backends.slurm.node.run_files import AttemptNote, RunFiles, SlurmSubmission, written_at
from batchai_magics.backends.slurm.parse import SlurmJob
from batchai_magics.backends.slurm.queries import AccountingCache, QueryCache
from batchai_magics.backends.slurm.run_state import (
    Evidence,
    reported_end,
    status_at_end,
    status_of,
    with_last_log_line,
    with_reports,
    with_requeue,
    with_sentence,
)
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.errors import ServiceError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import GRACE_S
from batchai_magics.models.states import ExecutionState

SKEW_S = 2.0  # how far the clocks of nodes may differ where they set file times themselves
STOP_TIMEOUT_S = 20.0  # after a stop request and the grace of the job; then Slurm cancels it


class PendingNotes(NamedTuple):
    """Records that are due for an open run whose program cannot write them, or whose end is overdue."""

    submission: SlurmSubmission | None = None  # of the first attempt, whose submitter died before noting it
    report: AttemptNote | None = None  # Slurm's report that the attempt is over
    end: Outcome | None = None
    overdue: str = ""  # the number of the Slurm job to cancel


class Chain(NamedTuple):
    """The runs after which a run starts: those that have not ended, and the name of one that failed."""

    waiting: tuple[Predecessor, ...] = ()
    failed: str = ""

    @property
    def reason(self) -> str:
        """Why the run is queued; empty if it waits for none."""
        return waiting_reason(self.waiting)


MAX_CHAIN = 100  # the longest chain of predecessors that is followed to determine the state of a run
Ends = dict[str, Outcome | None]  # the ends of predecessors that were observed, by guid


class RunObserver:
    """The status of the runs of a home, and the records that are due for them."""

    def __init__(
        self, layout: Layout, slurm: SlurmClient, queries: QueryCache, settings: SlurmSettings
    ) -> None:
        self._layout, self._queries = layout, queries
        self._settings, self._clock = settings, queries.clock
        self._accounting = AccountingCache(slurm)
        self._batch: Collection[Run] = ()  # the runs that were read together last
        self._due: dict[str, Run] = {}  # the runs with something to record, by guid

    def files(self, guid: str) -> RunFiles:
        """The files of a run."""
        return RunFiles(self._layout.job(guid).root)

    def folders(self, runs: Collection[Run]) -> list[Path]:
        """The folders to read for the states of these runs: theirs and their predecessors'."""
        guids = dict.fromkeys(run.guid for run in runs)
        guids |= dict.fromkeys(guid for run in runs for guid in run.state.get(AFTER, ()))
        return [self._layout.job(guid).root for guid in guids]

    @contextlib.contextmanager
    def batched(self, runs: Collection[Run]) -> Iterator[None]:
        """Within the context, these runs may be read from a snapshot, which the first read takes."""
        folders, queries = self.folders(runs), self._queries.files
        files = [*folders, *queries] if runs else ()  # folders as files, too: whether they still exist
        self._batch = runs
        with private_files.read_ahead(folders, files):
            yield

    def statuses(self, runs: Sequence[Run]) -> list[RunStatus]:
        """The status of each run, also if Slurm ended it without a report; `take_due` returns those runs."""
        statuses, known = [], Ends()
        for run in runs:
            status, due = self.observe(run, known)
            if due:
                self._due[run.guid] = run
            statuses.append(status)
        return statuses

    def take_due(self) -> Sequence[Run]:
        """The runs observed since the last call with something to record."""
        runs, self._due = list(self._due.values()), {}
        return runs

    def has_never_started(self, run: Run) -> bool:
        """Whether no attempt of a run has started."""
        return self.files(run.guid).attempt_start(1) is None

    def slurm_job(self, run: Run) -> str:
        """The Slurm job of a run's current attempt."""
        files = self.files(run.guid)
        start = files.attempt_start(files.attempt)
        assert start, "it holds nodes"
        return start.slurm_job

    def observe(
        self, run: Run, known: Ends | None = None, depth: int = 0
    ) -> tuple[RunStatus, PendingNotes | None]:
        """The status of a run according to its files and Slurm, and the records that are due."""
        files = self.files(run.guid)
        status = status_of(files)
        if not status.is_open:
            return status, None
        attempt = files.attempt
        submission = files.submission(attempt)
        is_queued = status.state is ExecutionState.QUEUED and status.started is None
        chain = self.chain(run, known, depth) if is_queued else Chain()
        if chain.failed:
            end = self.end_of(run, dependency_failed(chain.failed))
            return status_at_end(status, end), PendingNotes(
                end=end, overdue=submission.slurm_job if submission else ""
            )
        status = replace(status, waiting=chain.reason)
        if submission is None:
            due = self._due_unsubmitted(run, files)
            return (status_at_end(status, due.end) if due and due.end else status), due
        job = self._slurm_report(files, attempt, submission)
        due = self._due_submitted(run, status, submission, job)
        if due and due.end:
            return status_at_end(status, due.end), due
        if job is None:
            return status, due
        is_later = job.reported > files.written_at("begun", attempt) + SKEW_S
        status = with_requeue(status, files.attempt_start(attempt), job, is_later=is_later)
        if status.state is not ExecutionState.QUEUED or chain.waiting:
            return status, due
        is_chained = attempt == 1 and AFTER in run.state
        reason = parse.pending_reason(job, is_chained=is_chained)
        return replace(status, waiting=reason), due

    def chain(self, run: Run, known: Ends | None = None, depth: int = 0) -> Chain:
        """The predecessors of a run: those that have not ended, and the name of one that failed.

        A deleted predecessor counts as succeeded: if it had not ended, its deletion has ended its successors.
        """
        known = Ends() if known is None else known
        waiting = []
        for predecessor in self.predecessors(run):
            if predecessor.guid not in known:
                known[predecessor.guid] = None
                known[predecessor.guid] = self._end_of_predecessor(predecessor, known, depth + 1)
            end = known[predecessor.guid]
            if end is None:
                waiting.append(predecessor)
            elif predecessor.has_failed(end):
                return Chain(failed=predecessor.name)
        return Chain(tuple(waiting))

    def predecessors(self, run: Run) -> Sequence[Predecessor]:
        """The runs after which one starts."""
        return read_predecessors(self._layout.job(run.guid)) if AFTER in run.state else ()

    def _end_of_predecessor(self, predecessor: Predecessor, known: Ends, depth: int) -> Outcome | None:
        files = self.files(predecessor.guid)
        if not files.root.exists():
            return Outcome(0)
        if (end := files.outcome) or depth > MAX_CHAIN:
            return end
        state = {"grace_s": predecessor.grace_s, AFTER: ()}
        run = Run(predecessor.guid, predecessor.name, predecessor.created, state)
        status, due = self.observe(run, known, depth)
        if due:
            self._due[run.guid] = run
        return status.result

    def _slurm_report(self, files: RunFiles, attempt: int, submission: SlurmSubmission) -> SlurmJob | None:
        """Slurm's report on an attempt, if any; a young attempt about to start is queried more often."""
        since = files.written_at("submission", attempt)
        age_s = max(0.0, self._clock.now() - since)  # not exact, but close enough
        if age_s < self._queries.new_job_interval_s:  # Slurm has hardly seen it
            return None
        job = self._queries.of_job(submission.slurm_job, since=since)
        if job and job.is_starting and not files.attempt_start(attempt):
            return self._queries.of_job(submission.slurm_job, since=since, max_age_s=age_s / 2)
        return job

    def _due_unsubmitted(self, run: Run, files: RunFiles) -> PendingNotes | None:
        since = written_at(files.bundle) or run.created
        overdue_s = self._clock.age_s(since) - self._settings.lost_s
        if files.attempt or overdue_s <= 0:
            return None
        if number := self._find_slurm_job(run, since=since):
            return PendingNotes(SlurmSubmission(number, self._clock.now()))
        if overdue_s <= TIMEOUT_S:  # sbatch may still be running
            return None
        text = "The process that submitted it disappeared before it was done: submit it again"
        return PendingNotes(end=self.end_of(run, failed_with("JobLaunchFailed", text)))

    def _find_slurm_job(self, run: Run, *, since: float) -> str:
        """The number of a job whose submitter died before it noted it; empty without one."""
        with contextlib.suppress(ServiceError):
            _, lines = self._queries.jobs(since=since)
            files = self.files(run.guid)
            comment, task = files.comment, files.array_task
            suffix = f"_{task.task}" if task else ""
            numbers = (line.number for line in lines.values() if line.comment == comment)
            return next((number for number in numbers if number.endswith(suffix)), "")
        return ""

    def _due_submitted(
        self, run: Run, status: RunStatus, submission: SlurmSubmission, line: SlurmJob | None
    ) -> PendingNotes | None:
        files = self.files(run.guid)
        attempt = files.attempt
        limit_s = STOP_TIMEOUT_S + run.state.get("grace_s", GRACE_S)
        stopped_s = self._clock.age_s(files.written_at("stop", attempt)) if files.stop(attempt) else 0.0
        overdue = submission.slurm_job if stopped_s > limit_s else ""
        ending = reported_end(line, files)
        if ending is None:
            return PendingNotes(overdue=overdue) if overdue else None
        if ending is EndState.GONE and self._is_cancelled_task(files, submission):
            ending = EndState.CANCELLED
        now = AttemptNote(ending.value, self._clock.now())
        over = files.engine_report(attempt)
        evidence = Evidence(files, attempt, self._layout.home, run.state.get("partition", ""), line)
        is_cancelled = ending is EndState.CANCELLED and not status.nodes
        over_s = self._clock.age_s(files.written_at("over", attempt)) if over else 0.0
        is_over = run_state.never_started(ending, evidence) or is_cancelled
        end = None
        if is_over or over_s >= self._settings.lost_s:
            end = self._inferred_end(run, submission, evidence, ending, (over or now).time)
        return PendingNotes(report=None if over else now, end=end, overdue=overdue)

    def _inferred_end(
        self, run: Run, submission: SlurmSubmission, evidence: Evidence, ending: EndState, over: float
    ) -> Outcome:
        """The inferred end of a run that did not report it; `over` is when Slurm first reported its end."""
        files = evidence.files
        accounted = None
        if ending is EndState.GONE:  # the controller has forgotten it
            known_run = run._replace(guid=files.comment)
            accounted = self._accounting.of(known_run, submission, self._forgotten)
        known = (accounted and accounted.end_state) or ending
        stop = files.last_stop(evidence.attempt)
        reason = stop.reason if stop and stop.reason != REQUEUE else ""
        problems = self._node_problems(over) if run_state.depends_on_nodes(known, evidence) else {}
        outcome = run_state.outcome(known, evidence, reason=reason, problems=problems)
        outcome = with_last_log_line(outcome, files)
        if accounted:
            outcome = with_sentence(outcome, accounted.description)
        return self.end_of(run, outcome, ended=(accounted and accounted.ended) or over)

    def end_of(self, run: Run, outcome: Outcome, *, ended: float = 0.0) -> Outcome:
        """The end of a run, with the exits that its ranks reported and notes on files left on nodes."""
        files = self.files(run.guid)
        return with_reports(outcome, files)._replace(ended=ended or self._clock.now())

    def _is_cancelled_task(self, files: RunFiles, submission: SlurmSubmission) -> bool:
        """Whether a task of an array was cancelled before it started: then Slurm forgets just this task."""
        array, is_task, _ = submission.slurm_job.partition("_")
        if not is_task or files.attempt_start(1) or files.batch_log.exists():
            return False
        with contextlib.suppress(ServiceError):
            _, lines = self._queries.jobs()
            return any(line.number.startswith(f"{array}_") for line in lines.values())
        return False

    def _node_problems(self, since: float) -> dict[str, str]:
        """Why nodes are unusable, by name, according to Slurm after `since`; empty if it is unreachable."""
        with contextlib.suppress(ServiceError):
            lines = self._queries.nodes(since=since)
            return {line.name: f"{line.state}: {line.reason}" for line in lines if not line.is_usable}
        return {}

    def _forgotten(self) -> set[str]:
        """The numbers of the jobs of the batch and its predecessors that the controller has forgotten."""
        with contextlib.suppress(ServiceError):
            _, lines = self._queries.jobs()
            files = map(RunFiles, self.folders(self._batch))
            open_runs = (run_files for run_files in files if not run_files.outcome)
            submissions = [run_files.submission(run_files.attempt) for run_files in open_runs]
            return {latest.slurm_job for latest in submissions if latest and latest.slurm_job not in lines}
        return set()
