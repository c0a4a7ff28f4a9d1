"""Submits, stops and reconciles runs: records in their files what their own programs cannot."""

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
        """Submits an attempt; ServiceError with Slurm's message if it is refused.

        A run whose predecessor has failed ends instead. Raises NotFoundError if a predecessor of a new run
        has just been deleted.
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

        Which task a run is, is recorded before: whoever finds the array's comment knows all its runs. Runs
        whose predecessor has failed end instead. NotFoundError if one has just been deleted.
        """
        options = self._prepared(runs, placement, after=after)
        if options is None:
            return ""
        array, folder = uuid.uuid4().hex, self.observer.files(runs[0].guid).root.parent
        files, more = [self.observer.files(run.guid) for run in runs], runs[0].state
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

    def _prepared(
        self, runs: Sequence[Run], placement: Placement, *, after: str, is_new: bool = True
    ) -> SubmitOptions | None:
        """The sbatch options of attempts; None if a predecessor has failed, with which the runs have ended.

        Raises NotFoundError if a predecessor of new runs was deleted while they were prepared.
        """
        run = runs[0]
        with self.observer.batched([run]) if AFTER in run.state else contextlib.nullcontext():
            for each in self.observer.predecessors(run) if is_new else ():
                if not self.observer.files(each.guid).root.exists():
                    text = f"no job can start after {each.name}: it was deleted"
                    raise NotFoundError(text, code="JobNotFound")
            chain = self.observer.chain(run)
            if not chain.failed:
                return self._options(run, placement, [after, *map(self._slurm_job_of, chain.waiting)])
        end = dependency_failed(chain.failed)._replace(ended=self._clock.now())
        for guid in (each.guid for each in runs):
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
            # Slurm rejects what can never start: a held job gets its exclusions on release.
            excluded=() if is_held else placement.excluded,
            after=tuple(filter(None, after)),
            is_held=is_held,
            is_restarted=more.get("is_restarted", False),
            notice_s=more.get("notice_s", 0),
            more=tuple(shlex.split(more["options"])),
        )

    def _slurm_job_of(self, awaited: Predecessor) -> str:
        """The Slurm job of a run that has not ended; ServiceError if it is being submitted."""
        files = self.observer.files(awaited.guid)
        submission = files.submission(files.attempt)
        if submission is None:
            text = f"no job can start after {awaited.name} yet: it is being submitted"
            raise ServiceError(text, code="JobNotSubmitted", hint="Try again in a moment.")
        return submission.slurm_job

    def reconcile(self, run: Run) -> RunStatus:
        """The status of a run, also if Slurm ended it without a report or its submitter died."""
        with self.observer.batched([run]):
            return self._reconciled(run)

    def _reconciled(self, run: Run) -> RunStatus:
        """The status of a run, after what is due was recorded."""
        status, due = self.observer.observe(run)
        if due is None:
            return status
        files = self.observer.files(run.guid)
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
        return self.observer.observe(run)[0]

    def record_due(self) -> None:
        """Records what was seen of runs whose own program cannot, and cancels those that are overdue."""
        if runs := self.observer.take_due():
            with self.observer.batched(runs):
                for run in runs:
                    self._reconciled(run)

    def ask_to_stop(self, run: Run, reason: str = TERMINATE) -> bool:
        """Asks a run to stop or requeue; a pending one ends at once. False if it was asked before."""
        files = self.observer.files(run.guid)
        with self.observer.batched([run]):
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
        """Has the processes of a run killed, if it was asked to stop before."""
        files = self.observer.files(run.guid)
        attempt = files.attempt
        if (stop := files.last_stop(attempt)) and stop.reason != REQUEUE:
            private_files.write_new(files.kill_request, "")

    def requeue(self, run: Run, placement: Placement) -> None:
        """Stops a run's attempt and submits the next one, to start when this one is over."""
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
        """Ends a run that still waits for a predecessor, which is about to be deleted."""
        files = self.observer.files(run.guid)
        status = self.reconcile(run)
        is_waiting = status.is_open and status.started is None
        if is_waiting and any(each.guid == predecessor.guid for each in self.observer.predecessors(run)):
            self.conclude(run, dependency_failed(predecessor.name, "was deleted"))
            self._cancel_attempt(files, files.attempt)

    def conclude(self, run: Run, outcome: Outcome) -> None:
        """Records the end of a run whose own program cannot."""
        self.observer.files(run.guid).note_end(self.observer.end_of(run, outcome))
