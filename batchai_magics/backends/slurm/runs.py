"""Submits, stops and reconciles runs from their files and Slurm's reports."""

from __future__ import annotations

import contextlib
import shlex
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import Predecessor, read_predecessors
from batchai_magics.backends.node.outcome import REQUEUE, TERMINATE, dependency_failed, failed_with, stopped
from batchai_magics.backends.service.repository import AFTER
from batchai_magics.backends.service.runner import Run, RunStatus, waiting_reason
from batchai_magics.backends.slurm import parse, run_state
from batchai_magics.backends.slurm.client import TIMEOUT_S, SlurmClient
from batchai_magics.backends.slurm.clusters import Placement
from batchai_magics.backends.slurm.node.attempt_ends import EndState
from batchai_magics.backends.slurm.node.run_files import (
    ArrayTask,
    AttemptNote,
    JobBundle,
    RunFiles,
    SlurmSubmission,
    array_logs,
    written_at,
)
from batchai_magics.backends.slurm.parse import SlurmJob
from batchai_magics.backends.slurm.queries import (
    AccountingCache,
    QueryCache,
)
from batchai_magics.backends.slurm.run_state import (
    Evidence,
    reported_end,
    requeued,
    status_at_end,
    status_of,
    with_last_log_line,
    with_reports,
    with_sentence,
)
from batchai_magics.backends.slurm.sbatch import SubmitOptions, array_script, write_script
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.errors import NotFoundError, ServiceError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import GRACE_S
from batchai_magics.models.states import ExecutionState

SKEW_S = 2.0  # how far the clocks of nodes may differ where they set file times themselves
STOP_TIMEOUT_S = 20.0  # after a stop request and the grace of the job; then Slurm cancels it


class PendingNotes(NamedTuple):
    """What is to be recorded of an open run whose own program cannot, or that is overdue in ending."""

    submission: SlurmSubmission | None = None  # of the first attempt, whose submitter died before it noted it
    report: AttemptNote | None = None  # that the attempt is over
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


MAX_CHAIN = 100  # how many runs, each after the next, are looked at to tell the state of one
Ends = dict[str, Outcome | None]  # of predecessors that were looked at, by guid


class Runs:
    """The runs of jobs of a home."""

    def __init__(
        self, layout: Layout, slurm: SlurmClient, queries: QueryCache, settings: SlurmSettings
    ) -> None:
        self._layout, self._slurm, self._queries = layout, slurm, queries
        self._settings, self._clock = settings, queries.clock
        self._accounting = AccountingCache(slurm)
        self._batch: Collection[Run] = ()  # the runs that were read together last
        self._due: dict[str, Run] = {}  # the runs of which something is to be recorded, by guid

    def files(self, guid: str) -> RunFiles:
        """The files of a run."""
        return RunFiles(self._layout.job(guid).root)

    def folders(self, runs: Collection[Run]) -> list[Path]:
        """The folders to read for the states of these runs: theirs and those of their predecessors."""
        guids = dict.fromkeys(run.guid for run in runs)
        guids |= dict.fromkeys(guid for run in runs for guid in run.state.get(AFTER, ()))
        return [self._layout.job(guid).root for guid in guids]

    def submit(self, run: Run, placement: Placement, *, attempt: int = 1, after: str = "") -> None:
        """Submits an attempt; ServiceError with Slurm's message if it is refused.

        A run whose predecessor has failed ends instead. Raises NotFoundError if a predecessor of a new run
        has just been deleted.
        """
        submit_options = self._prepared([run], placement, after=after, is_new=attempt == 1)
        if submit_options is None:
            return
        files, more = self.files(run.guid), run.state
        if attempt > 1:
            programs = JobBundle.read(files.bundle).programs
            write_script(files, attempt, python=more["python"], programs=programs)
        with private_files.pipelined(files.root):
            number = self._slurm.submit(files.script, submit_options.options, python=more["python"])
            try:
                is_first = files.note_submission(attempt, SlurmSubmission(number, self._clock.now()))
            except OSError:
                self._slurm.cancel(number)
                raise
        if not is_first:
            noted = files.submission(attempt)
            if noted is None or noted.slurm_job != number:
                self._slurm.cancel(number)

    def _prepared(
        self, runs: Sequence[Run], placement: Placement, *, after: str, is_new: bool = True
    ) -> SubmitOptions | None:
        """The sbatch options of attempts; None if a predecessor has failed, with which the runs have ended.

        Raises NotFoundError if a predecessor of new runs was deleted while they were prepared.
        """
        run = runs[0]
        with self.batched([run]) if AFTER in run.state else contextlib.nullcontext():
            for each in self._awaited(run) if is_new else ():
                if not self.files(each.guid).root.exists():
                    text = f"no job can start after {each.name}: it was deleted"
                    raise NotFoundError(text, code="JobNotFound")
            chain = self._chain(run, Ends())
            if not chain.failed:
                return self._options(run, placement, [after, *map(self._slurm_job_of, chain.waiting)])
        end = dependency_failed(chain.failed)._replace(ended=self._clock.now())
        for guid in (each.guid for each in runs):
            self.files(guid).note_end(end)
        return None

    def _options(self, run: Run, placement: Placement, after: Sequence[str]) -> SubmitOptions:
        """The sbatch options of an attempt."""
        files, more = self.files(run.guid), run.state
        is_held = placement.is_held(more["node_count"])
        return SubmitOptions(
            name=run.name,
            guid=run.guid,
            partition=more["partition"],
            node_count=more["node_count"],
            minutes=more["minutes"],
            log=files.own_log,
            niceness=more["niceness"],
            # Slurm rejects what can never start: a held job gets its exclusions on release.
            excluded=() if is_held else placement.excluded,
            after=tuple(filter(None, after)),
            is_held=is_held,
            is_restarted=more.get("is_restarted", False),
            notice_s=more.get("notice_s", 0),
            more=tuple(shlex.split(more["options"])),
        )

    def _awaited(self, run: Run) -> Sequence[Predecessor]:
        """The runs after which one starts."""
        return read_predecessors(self._layout.job(run.guid)) if AFTER in run.state else ()

    def _slurm_job_of(self, awaited: Predecessor) -> str:
        """The Slurm job of a run that has not ended; ServiceError if it is being submitted."""
        files = self.files(awaited.guid)
        submission = files.submission(files.attempt)
        if submission is None:
            text = f"no job can start after {awaited.name} yet: it is being submitted"
            raise ServiceError(text, code="JobNotSubmitted", hint="Try again in a moment.")
        return submission.slurm_job

    def _chain(self, run: Run, known: Ends, depth: int = 0) -> Chain:
        """What became of the runs after which one starts.

        One that was deleted had ended: otherwise, its deletion has ended those that waited for it.
        """
        waiting = []
        for each in self._awaited(run):
            if each.guid not in known:
                known[each.guid] = None
                known[each.guid] = self._end_of_predecessor(each, known, depth + 1)
            end = known[each.guid]
            if end is None:
                waiting.append(each)
            elif each.has_failed(end):
                return Chain(failed=each.name)
        return Chain(tuple(waiting))

    def _end_of_predecessor(self, awaited: Predecessor, known: Ends, depth: int) -> Outcome | None:
        files = self.files(awaited.guid)
        if not files.root.exists():
            return Outcome(0)
        if (end := files.outcome) or depth > MAX_CHAIN:
            return end
        run = Run(awaited.guid, awaited.name, awaited.created, {"grace_s": awaited.grace_s, AFTER: ()})
        status, due = self._observed(run, known, depth)
        if due:
            self._due[run.guid] = run
        return status.result

    def fail_waiting(self, run: Run, predecessor: Run) -> None:
        """Ends a run that still waits for a predecessor, which is about to be deleted."""
        files = self.files(run.guid)
        status = self.reconcile(run)
        is_waiting = status.is_open and status.started is None
        if is_waiting and any(each.guid == predecessor.guid for each in self._awaited(run)):
            self.conclude(run, dependency_failed(predecessor.name, "was deleted"))
            self._cancel_attempt(files, files.attempt)

    def submit_array(self, runs: Sequence[Run], placement: Placement, *, limit: int, after: str) -> str:
        """Submits the first attempts of runs as the tasks of an array; returns its number.

        Which task a run is, is recorded before: whoever finds the array's comment knows all its runs. Runs
        whose predecessor has failed end instead. NotFoundError if one has just been deleted.
        """
        options = self._prepared(runs, placement, after=after)
        if options is None:
            return ""
        array, folder = uuid.uuid4().hex, self.files(runs[0].guid).root.parent
        files, more = [self.files(run.guid) for run in runs], runs[0].state
        logs = array_logs(files[0].root, array)
        private_files.make_folder(logs)
        for index, each in enumerate(files):
            each.note_array_task(ArrayTask(array, index))
        programs = JobBundle.read(files[0].bundle).programs
        names = [each.root.name for each in files]
        script = logs / "batch.sh"
        private_files.write(script, array_script(folder, names, python=more["python"], programs=programs))
        together = replace(options, guid=array, log=logs, task_count=len(runs), task_limit=limit)
        number = self._slurm.submit(script, together.options, python=more["python"])
        now = self._clock.now()
        for index, each in enumerate(files):
            each.note_submission(1, SlurmSubmission(f"{number}_{index}", now))
        return number

    @contextlib.contextmanager
    def batched(self, runs: Collection[Run]) -> Iterator[None]:
        """Within the context, these runs may be read from a snapshot, which the first read takes."""
        folders, queries = self.folders(runs), self._queries.files
        files = [*folders, *queries] if runs else ()  # a folder is a file, too: whether it is still there
        self._batch = runs
        with private_files.read_ahead(folders, files):
            yield

    def statuses(self, runs: Sequence[Run]) -> list[RunStatus]:
        """The status of each run, also if Slurm ended it without a report; `record_due` records that."""
        statuses, known = [], Ends()
        for run in runs:
            status, due = self._observed(run, known)
            if due:
                self._due[run.guid] = run
            statuses.append(status)
        return statuses

    def record_due(self) -> None:
        """Records what was seen of runs whose own program cannot, and cancels those that are overdue."""
        runs, self._due = list(self._due.values()), {}
        if runs:
            with self.batched(runs):
                for run in runs:
                    self._reconciled(run)

    def has_never_started(self, run: Run) -> bool:
        """Whether no attempt of a run has started."""
        return self.files(run.guid).attempt_start(1) is None

    def slurm_job(self, run: Run) -> str:
        """The Slurm job of a run's current attempt."""
        files = self.files(run.guid)
        start = files.attempt_start(files.attempt)
        assert start, "it holds nodes"
        return start.slurm_job

    def reconcile(self, run: Run) -> RunStatus:
        """The status of a run, also if Slurm ended it without a report or its submitter died."""
        with self.batched([run]):
            return self._reconciled(run)

    def ask_to_stop(self, run: Run, reason: str = TERMINATE) -> bool:
        """Asks a run to stop or requeue; a pending one ends at once. False if it was asked before."""
        files = self.files(run.guid)
        with self.batched([run]):
            status = self._reconciled(run)
            attempt = files.attempt or 1  # 1 while the first is being submitted
            submission = files.submission(attempt)
        if not status.is_open:
            return False
        asked = attempt
        # If the disk is full, Slurm's own signal still ends the run, but cannot requeue it.
        with contextlib.nullcontext() if reason == REQUEUE else private_files.left_for_later_if_full():
            asked = files.ask_to_stop(attempt, AttemptNote(reason, self._clock.now()))
        if submission is None:
            return bool(asked)
        if asked > attempt:
            self._cancel_attempt(files, asked)
        number = submission.slurm_job
        if status.nodes or not (self._cancel_if_pending(files, number, reason)):
            self._slurm.signal_stop(number)
        return bool(asked)

    def kill(self, run: Run) -> None:
        """Has the processes of a run killed, if it was asked to stop before."""
        files = self.files(run.guid)
        attempt = files.attempt
        if (stop := files.last_stop(attempt)) and stop.reason != REQUEUE:
            private_files.write_new(files.kill_request, "")

    def _cancel_if_pending(self, files: RunFiles, number: str, reason: str) -> bool:
        """Cancels a pending run; False if it has started meanwhile."""
        self._slurm.cancel_if_pending(number)
        if (line := self._slurm.jobs().get(number)) and not line.end_state:
            return False
        if reason != REQUEUE:
            with private_files.left_for_later_if_full():
                files.note_end(stopped(reason)._replace(ended=self._clock.now()))
        return True

    def requeue(self, run: Run, placement: Placement) -> None:
        """Stops a run's attempt and submits the next one, to start when this one is over."""
        files = self.files(run.guid)
        attempt = files.attempt
        submission = files.submission(attempt)
        if not (self.ask_to_stop(run, REQUEUE) and submission):
            return
        self.submit(run, placement, attempt=attempt + 1, after=submission.slurm_job)
        if files.stop(attempt + 1) or files.outcome:  # it was stopped meanwhile
            self._cancel_attempt(files, attempt + 1)

    def _cancel_attempt(self, files: RunFiles, attempt: int) -> None:
        """Cancels an attempt that may have been submitted and has not started."""
        submission = files.submission(attempt)
        if submission:
            self._slurm.cancel_if_pending(submission.slurm_job)

    def update_placement(self, run: Run, placement: Placement) -> None:
        """Updates on which nodes a pending run may start."""
        files = self.files(run.guid)
        attempt = files.attempt
        submission = files.submission(attempt)
        status = status_of(files)
        if submission and status.is_open and not status.nodes:
            is_held = placement.is_held(run.state["node_count"])
            excluded = () if is_held else placement.excluded
            self._slurm.update_placement(submission.slurm_job, excluded=excluded, is_held=is_held)

    def conclude(self, run: Run, outcome: Outcome) -> None:
        """Records the end of a run whose own program cannot."""
        self.files(run.guid).note_end(self._end(run, outcome))

    def _end(self, run: Run, outcome: Outcome, *, ended: float = 0.0) -> Outcome:
        """The end of a run with what its ranks reported and what is left on nodes."""
        files = self.files(run.guid)
        return with_reports(outcome, files)._replace(ended=ended or self._clock.now())

    def _reconciled(self, run: Run) -> RunStatus:
        """The status of a run, after what is due was recorded."""
        status, due = self._observed(run)
        if due is None:
            return status
        files = self.files(run.guid)
        with private_files.left_for_later_if_full():
            if due.overdue:
                with contextlib.suppress(ServiceError):  # it does not answer: what is known is recorded
                    self._slurm.cancel(due.overdue)
            if due.submission:
                files.note_submission(1, due.submission)
            if due.report:
                files.note_engine_report(files.attempt, due.report)
            if due.end:
                files.note_end(due.end)
        return self._observed(run)[0]

    def _observed(
        self, run: Run, known: Ends | None = None, depth: int = 0
    ) -> tuple[RunStatus, PendingNotes | None]:
        """The status of a run as its files and Slurm have it, and what of it is to be recorded."""
        files = self.files(run.guid)
        status = status_of(files)
        if not status.is_open:
            return status, None
        attempt = files.attempt
        submission = files.submission(attempt)
        is_queued = status.state is ExecutionState.QUEUED and status.started is None
        chain = self._chain(run, Ends() if known is None else known, depth) if is_queued else Chain()
        if chain.failed:
            end = self._end(run, dependency_failed(chain.failed))
            return status_at_end(status, end), PendingNotes(
                end=end, overdue=submission.slurm_job if submission else ""
            )
        status = replace(status, waiting=chain.reason)
        if submission is None:
            due = self._due_unsubmitted(run, files)
            return (status_at_end(status, due.end) if due and due.end else status), due
        job = self._observe(files, attempt, submission)
        due = self._due_submitted(run, status, submission, job)
        if due and due.end:
            return status_at_end(status, due.end), due
        if job is None:
            return status, due
        is_later = job.asked > files.written_at("begun", attempt) + SKEW_S
        status = requeued(status, files.attempt_start(attempt), job, is_later=is_later)
        if status.state is not ExecutionState.QUEUED or chain.waiting:
            return status, due
        is_chained = attempt == 1 and AFTER in run.state
        reason = parse.pending_reason(job, is_chained=is_chained)
        return replace(status, waiting=reason), due

    def _observe(self, files: RunFiles, attempt: int, submission: SlurmSubmission) -> SlurmJob | None:
        """Slurm's report on an attempt; queried more often for a young one about to start."""
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
        return PendingNotes(end=self._end(run, failed_with("JobLaunchFailed", text)))

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
        """How and when a run ended that did not report it; `over` is when Slurm first said so."""
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
        return self._end(run, outcome, ended=(accounted and accounted.ended) or over)

    def _is_cancelled_task(self, files: RunFiles, submission: SlurmSubmission) -> bool:
        """Whether a task of an array was cancelled before it started: Slurm forgets it, not the others."""
        array, is_task, _ = submission.slurm_job.partition("_")
        if not is_task or files.attempt_start(1) or files.batch_log.exists():
            return False
        with contextlib.suppress(ServiceError):
            _, lines = self._queries.jobs()
            return any(each.number.startswith(f"{array}_") for each in lines.values())
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
            latest = [each.submission(each.attempt) for each in files if not each.outcome]
            return {one.slurm_job for one in latest if one and one.slurm_job not in lines}
        return set()
