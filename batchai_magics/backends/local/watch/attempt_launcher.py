"""Launches an attempt of a run on this machine, and reports to the store, for the `AttemptRunner`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from batchai_magics.backends.folders.layout import JobLayout
from batchai_magics.backends.local import unmanaged_mounts
from batchai_magics.backends.local.state.job_table import QUEUED_AGAIN, Attempts
from batchai_magics.backends.local.watch import process, run_watcher
from batchai_magics.backends.local.watch.detached_process import JobSecrets
from batchai_magics.backends.local.watch.outcome_writer import OutcomeWriter
from batchai_magics.backends.node.child_processes import ChildLauncher
from batchai_magics.backends.node.launcher import (
    Deadline,
    PlanProcesses,
    Report,
)
from batchai_magics.backends.node.outcome import stopped
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.leftovers import LiveProcess
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.temporary_folder import TemporaryFolder
from batchai_magics.backends.node.restarts import with_attempt
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Limits, Plan

KILLED = 128 + 9  # exit code of a process that was killed


class LocalLauncher(ChildLauncher):
    """Starts processes as children of a supervisor, and ends with them what they have started."""

    def __init__(
        self, job: JobLayout, attempts: Attempts, secrets: JobSecrets, signal_pipe: SignalPipe
    ) -> None:
        self._job, self.number = job, max(1, len(attempts))
        self.previous_end = attempts[-2].get("reason", QUEUED_AGAIN) if self.number > 1 else ""
        self.registry_password = secrets.registry_password
        submitter_env = json.loads(job.environment.read_text(encoding="utf-8"))
        env = {**os.environ, **submitter_env, **secrets.variables}
        self._folder = TemporaryFolder()
        super().__init__(job, signal_pipe, env, temporary=self._folder, find=process.processes_of)
        self.plan = self._read()

    @property
    def may_leave_memory(self) -> bool:
        """Whether shared memory segments of MPI may be left."""
        return any(processes.may_leave_memory for processes in self._launched)

    def _read(self) -> Plan:
        """The plan in the job's folder, for this attempt."""
        return with_attempt(Plan.read(str(self._job.plan)), self.number, self._job.root)

    def smaller(self, plan: Plan, nodes: Sequence[int]) -> Plan:
        """The plan for some of its nodes, by number."""
        from batchai_magics.backends.local.watch import plan_binding  # few jobs ask for it

        plan_binding.bind_smaller(self._job, plan, nodes)
        self.plan = self._read()
        return self.plan

    def kill_marked(self, mark: str) -> None:
        """Kills what has this mark in its environment."""
        termination.kill(lambda: process.marked(mark))

    def close(self) -> None:
        """Ends everything that was started, unmounts, and removes temporary files."""
        termination.end_all(self._leftover_processes)
        termination.kill(self._child_processes)
        if self.plan.mounts:
            unmanaged_mounts.unmount(self._job.root)
        self._folder.remove()

    def _leftover_processes(self) -> list[LiveProcess]:
        """Processes the job has started, also in containers; helpers of those exit with them."""
        if self.plan.containers.engine or not process.HAS_ORPHANS:
            return process.marked(self.plan.guid)
        return self._child_processes()

    def _child_processes(self) -> list[LiveProcess]:
        recorders = {pid for processes in self._launched for pid in processes.recorder_pids}
        return termination.without_mount_servers(process.descendants(recorders), self.plan)


class LocalReport(Report):
    """Brings stop requests from the store, and takes what happens into it."""

    gives_notice = True

    def __init__(self, job: JobLayout, writer: OutcomeWriter, limits: Limits) -> None:
        self._job, self._writer = job, writer
        self.deadline = Deadline(limits)

    def note_ending(self) -> None:
        """Records that the processes have been told to end."""
        self._writer.note_ending()

    def warn(self, text: str) -> None:
        """Records a warning about the run while it runs."""
        self._writer.warn(text)

    def stop_request(self, *, is_signalled: bool) -> Outcome | None:
        """The outcome if the store has a reason why the job has to stop."""
        reason = self._writer.stop_reason()
        return stopped(reason, self._writer.requeue_reason) if reason else None

    def was_ended(self, processes: PlanProcesses) -> bool:
        """Whether processes were killed, maybe for a user whose request is not known yet."""
        return any(end.exit_code == KILLED for end in processes.ends)

    def watch_command(self) -> tuple[Sequence[str], Path]:
        """The command of the program that watches the run, and its log."""
        return run_watcher.command(self._job), self._job.supervisor_log
