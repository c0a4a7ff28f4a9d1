"""Submits, stops and reconciles runs; records in their files what their own programs cannot record."""

from __future__ import annotations

import contextlib
import shlex
import uuid
from collections.abc import Sequence
from dataclasses import replace

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import Predecessor
from batchai_magics.backends.node.outcome import REQUEUE, TERMINATE, dependency_failed, stop_outcome
from batchai_magics.backends.service.repository import AFTER
from batchai_magics.backends.service.runner import Run, RunStatus
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.clusters import Placement
from batchai_magics.backends.slurm.node.run_files import (
    ArrayTask,
    AttemptNote,
    JobBundle,
    RunFiles,
    SlurmSubmission,
    array_logs,
)
from batchai_magics.backends.slurm.queries import QueryCache
from batchai_magics.backends.slurm.run_observer import RunObserver
from batchai_magics.backends.slurm.run_state import status_of
from batchai_magics.backends.slurm.sbatch import SubmitOptions, array_script, write_script
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.errors import NotFoundError, ServiceError
from batchai_magics.launch.outcome import Outcome


class Runs:
    """The runs of jobs of a home; `observer` reads their status."""

    def __init__(
        self, layout: Layout, slurm: SlurmClient, queries: QueryCache, settings: SlurmSettings
    ) -> None:
        self.observer = RunObserver(layout, slurm, queries, settings)
        self._slurm, self._clock = slurm, queries.clock

    def submit(self, run: Run, placement: Placement, *, attempt: int = 1, after: str = "") -> None:
        """Submits an attempt; a run whose predecessor has failed ends instead.

        Raises:
            ServiceError: Slurm refused it, with Slurm's message.
            NotFoundError: A predecessor of a new run has just been deleted.
        """
        submit_options = self._prepared([run], placement, after=after, is_new=attempt == 1)
        if submit_options is None:
            return
        files, more = self.observer.files(run.guid), run.state
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

    def submit_array(self, runs: Sequence[Run], placement: Placement, *, limit: int, after: str) -> str:
        """Submits the first attempts of runs as the tasks of an array; returns its number.

        The task of each run is recorded first, so that the array's comment identifies all of its runs. Runs
        whose predecessor has failed end instead; the number is then empty.

        Raises:
            ServiceError: Slurm refused it, with Slurm's message.
            NotFoundError: A predecessor has just been deleted.
        """
        options = self._prepared(runs, placement, after=after)
        if options is None:
            return ""
        array, folder = uuid.uuid4().hex, self.observer.files(runs[0].guid).root.parent
        files, more = [self.observer.files(run.guid) for run in runs], runs[0].state
        logs = array_logs(files[0].root, array)
        private_files.make_folder(logs)
        for index, task_files in enumerate(files):
            task_files.note_array_task(ArrayTask(array, index))
        programs = JobBundle.read(files[0].bundle).programs
        names = [task_files.root.name for task_files in files]
        script = logs / "batch.sh"
        private_files.write(script, array_script(folder, names, python=more["python"], programs=programs))
        of_array = replace(options, guid=array, log=logs, task_count=len(runs), task_limit=limit)
        number = self._slurm.submit(script, of_array.options, python=more["python"])
        now = self._clock.now()
        for index, task_files in enumerate(files):
            task_files.note_submission(1, SlurmSubmission(f"{number}_{index}", now))
        return number

    def _prepared(
        self, runs: Sequence[Run], placement: Placement, *, after: str, is_new: bool = True
    ) -> SubmitOptions | None:
        """The sbatch options of attempts; if a predecessor has failed, ends the runs and returns None.

        Raises:
            NotFoundError: A predecessor of new runs was deleted meanwhile.
        """
        run = runs[0]
        with self.observer.batched([run]) if AFTER in run.state else contextlib.nullcontext():
            for predecessor in self.observer.predecessors(run) if is_new else ():
                if not self.observer.files(predecessor.guid).root.exists():
                    text = f"no job can start after {predecessor.name}: it was deleted"
                    raise NotFoundError(text, code="JobNotFound")
            chain = self.observer.chain(run)
            if not chain.failed:
                return self._options(run, placement, [after, *map(self._slurm_job_of, chain.waiting)])
        end = dependency_failed(chain.failed)._replace(ended=self._clock.now())
        for guid in (run.guid for run in runs):
            self.observer.files(guid).note_end(end)
        return None

    def _options(self, run: Run, placement: Placement, after: Sequence[str]) -> SubmitOptions:
        """The sbatch options of an attempt."""
        files, more = self.observer.files(run.guid), run.state
        is_held = placement.is_held(more["node_count"])
        return SubmitOptions(
            name=run.name,
            guid=run.guid,
            partition=more["partition"],
            node_count=more["node_count"],
            minutes=more["minutes"],
            log=files.own_log,
            niceness=more["niceness"],
            # Slurm rejects jobs that can never start: a held one gets its exclusions on release.
            excluded=() if is_held else placement.excluded,
            after=tuple(filter(None, after)),
            is_held=is_held,
            is_restarted=more.get("is_restarted", False),
            notice_s=more.get("notice_s", 0),
            more=tuple(shlex.split(more["options"])),
        )

    def _slurm_job_of(self, predecessor: Predecessor) -> str:
        """The Slurm job of a run that has not ended; raises ServiceError if it is being submitted."""
        files = self.observer.files(predecessor.guid)
        submission = files.submission(files.attempt)
        if submission is None:
            text = f"no job can start after {predecessor.name} yet: it is being submitted"
            raise ServiceError(text, code="JobNotSubmitted", hint="Try again in a moment.")
        return submission.slurm_job

    def reconcile(self, run: Run) -> RunStatus:
        """The status of a run, also if Slurm ended it without a report or its submitter died."""
        with self.observer.batched([run]):
            return self._reconciled(run)

    def _reconciled(self, run: Run) -> RunStatus:
        """Writes the records of a run that are due; returns its status."""
        status, due = self.observer.observe(run)
        if due is None:
            return status
        files = self.observer.files(run.guid)
        with private_files.left_for_later_if_full():
            if due.overdue:
                with contextlib.suppress(ServiceError):  # it does not answer: write the records anyway
                    self._slurm.cancel(due.overdue)
            if due.submission:
                files.note_submission(1, due.submission)
            if due.report:
                files.note_engine_report(files.attempt, due.report)
            if due.end:
                files.note_end(due.end)
        return self.observer.observe(run)[0]

    def record_due(self) -> None:
        """Writes the records that are due for runs, and cancels those whose end is overdue."""
        if runs := self.observer.take_due():
            with self.observer.batched(runs):
                for run in runs:
                    self._reconciled(run)

    def ask_to_stop(self, run: Run, reason: str = TERMINATE) -> bool:
        """Asks a run to stop or requeue; a pending one ends at once. Returns False if it was asked before."""
        files = self.observer.files(run.guid)
        with self.observer.batched([run]):
            status = self._reconciled(run)
            attempt = files.attempt or 1  # 1 while the first is being submitted
            submission = files.submission(attempt)
        if not status.is_open:
            return False
        stopped_attempt = attempt
        # If the disk is full, Slurm's own signal still ends the run, but cannot requeue it.
        with contextlib.nullcontext() if reason == REQUEUE else private_files.left_for_later_if_full():
            stopped_attempt = files.ask_to_stop(attempt, AttemptNote(reason, self._clock.now()))
        if submission is None:
            return bool(stopped_attempt)
        if stopped_attempt > attempt:
            self._cancel_attempt(files, stopped_attempt)
        number = submission.slurm_job
        if status.nodes or not (self._cancel_if_pending(files, number, reason)):
            self._slurm.signal_stop(number)
        return bool(stopped_attempt)

    def _cancel_if_pending(self, files: RunFiles, number: str, reason: str) -> bool:
        """Cancels a pending run; False if it has started meanwhile."""
        self._slurm.cancel_if_pending(number)
        if (line := self._slurm.jobs().get(number)) and not line.end_state:
            return False
        if reason != REQUEUE:
            with private_files.left_for_later_if_full():
                files.note_end(stop_outcome(reason)._replace(ended=self._clock.now()))
        return True

    def kill(self, run: Run) -> None:
        """Requests that the processes of a run are killed, if it was asked to stop before."""
        files = self.observer.files(run.guid)
        attempt = files.attempt
        if (stop := files.last_stop(attempt)) and stop.reason != REQUEUE:
            private_files.write_new(files.kill_request, "")

    def requeue(self, run: Run, placement: Placement) -> None:
        """Stops a run's attempt and submits the next one, which starts when this one has ended."""
        files = self.observer.files(run.guid)
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
        files = self.observer.files(run.guid)
        attempt = files.attempt
        submission = files.submission(attempt)
        status = status_of(files)
        if submission and status.is_open and not status.nodes:
            is_held = placement.is_held(run.state["node_count"])
            excluded = () if is_held else placement.excluded
            self._slurm.update_placement(submission.slurm_job, excluded=excluded, is_held=is_held)

    def fail_waiting(self, run: Run, predecessor: Run) -> None:
        """Ends a run that is pending for a predecessor, which is about to be deleted."""
        files = self.observer.files(run.guid)
        status = self.reconcile(run)
        is_waiting = status.is_open and status.started is None
        if is_waiting and predecessor.guid in {awaited.guid for awaited in self.observer.predecessors(run)}:
            self.conclude(run, dependency_failed(predecessor.name, "was deleted"))
            self._cancel_attempt(files, files.attempt)

    def conclude(self, run: Run, outcome: Outcome) -> None:
        """Records the end of a run whose own program cannot."""
        self.observer.files(run.guid).note_end(self.observer.end_of(run, outcome))
