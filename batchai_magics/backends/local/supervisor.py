"""The supervisor process of a job; it outlives the kernel that submitted the job.

Started with `HOME GUID` in its own session, with the job's secrets as a JSON line on standard input (they
are written nowhere). It waits for nodes, binds the Plan to them, prepares them, starts the ranks and records
the outcome; then it starts the next queued job, or runs it itself. It does without the models, which take
longer to load than a short job takes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import make_attempt_files, write_end
from batchai_magics.backends.local import machine_devices, process, scheduler, unmanaged_mounts
from batchai_magics.backends.local.process import Secrets
from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.backends.local.state.job_table import Attempts, JobRow
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.node import mpi_launchers
from batchai_magics.backends.node.attempt import AttemptRunner
from batchai_magics.backends.node.child_processes import ChildLauncher
from batchai_magics.backends.node.job_environment import RUN_SCRIPT, free_ports
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.launcher import LOOPBACK, Deadline, PlanProcesses, Report
from batchai_magics.backends.node.outcome import KILLED, launch_failure, stop_outcome, supervisor_failure
from batchai_magics.backends.node.ranks import leftovers, termination
from batchai_magics.backends.node.ranks.leftovers import LiveProcess
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.temporary_folder import TemporaryFolder
from batchai_magics.backends.node.restarts import with_attempt
from batchai_magics.errors import StorageError, is_disk_full
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Limits, Plan, thread_share
from batchai_magics.launch.references import Bindings
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.record_files import TRIAL
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_file, read_text

if TYPE_CHECKING:
    from batchai_magics.backends.node.watch_process import WatchProgram

TAKE_OVER_S = 60.0  # how long after its start a supervisor takes further jobs
SWEEP_STEP = "jobs.sweeps.next_step"  # of an upper layer: a process of its own, which none here waits for
POLL_S = 0.2  # polling interval of a queued job whose secrets are held here


def main() -> None:
    """Runs the job that the arguments name, then the jobs that take over its nodes."""
    home, guid = sys.argv[1:3]
    message = sys.stdin.readline()
    if not message:  # the process that started it was killed
        return
    secrets = Secrets(**json.loads(message))
    termination.adopt_orphans()
    supervisor = Supervisor(Path(home))
    next_job = supervisor.watch(guid, secrets)
    del message, secrets
    while next_job:
        process.redirect_output(supervisor.layout.job(next_job.guid).supervisor_log)
        next_job = supervisor.watch(next_job.guid, Secrets())
    supervisor.store.close()
    os._exit(0)  # taking the modules apart would take longer than most of what it has done


class Supervisor:
    """Runs one job, and short jobs queued behind it, which saves the startup time of a process each.

    It stops taking jobs after a while, since its code may be outdated, and never holds two jobs' secrets.
    """

    def __init__(self, home: Path) -> None:
        self.layout = Layout(home)
        self.store = Store(self.layout.database, may_make=False)
        self._signal_pipe = SignalPipe()
        self._takes_over_until = time.monotonic() + TAKE_OVER_S

    def watch(self, guid: str, secrets: Secrets) -> JobRow | None:
        """Runs a job once its nodes are assigned; returns the next job for this process."""
        job = self.layout.job(guid)
        report = LocalReport(self.store, job)
        if not report.claim():
            return None
        while (run := report.read()) and run.is_open:
            if not run.is_assigned:
                time.sleep(POLL_S)
                continue
            if run.state is ExecutionState.RUNNING or report.begin():
                is_again = self._run(job, report, secrets)
            else:  # it was stopped before it started
                reason, now = report.stop_reason(), report.read()
                is_again = now is not None and now.is_open and _finish(job, report, stop_outcome(reason))
            others: list[subprocess.Popen[bytes]] = []
            if (self.layout.outboxes / guid).exists():
                from batchai_magics.backends.local import notification_sender

                others += notification_sender.start(job, secrets.variables)
            others += self._start_sweep_step(job)
            next_job = self._start_next(report.next_job, others)
            if not (is_again and secrets):  # only this process has the secrets of the requeued job
                return next_job
        return None

    def _run(self, job: JobLayout, report: LocalReport, secrets: Secrets) -> bool:
        """Runs the job on its nodes and records its outcome; True if it is requeued."""
        plan, launcher = None, None
        try:
            plan, bindings = bind(self.store, self.layout, job.root.name)
            run = report.read()
            attempts = run.attempts if run else ()
            launcher = LocalLauncher(plan, bindings, job, attempts, secrets, self._signal_pipe)
            report.start_clock(launcher.plan.limits)
            outcome = AttemptRunner(launcher.plan, launcher, report).run()
        except Exception as error:  # noqa: BLE001 whatever happened, the job must not stay "running"
            outcome = supervisor_failure(error) if plan else launch_failure(error)
        takes_next = not (outcome.is_requeued or secrets) and time.monotonic() < self._takes_over_until
        is_again = _finish(job, report, outcome, takes_next=takes_next)
        process.reap()
        if launcher is None or launcher.may_leave_memory:
            leftovers.sweep_segments()
        return is_again

    def _start_sweep_step(self, job: JobLayout) -> list[subprocess.Popen[bytes]]:
        """Starts the process that takes the next step of the sweep whose trial has ended, if it needs one."""
        file = job.records / TRIAL
        if not file.exists():
            return []
        from batchai_magics.records.trial_record import TrialRecord  # few jobs are trials

        guid = job.root.name
        with contextlib.suppress(OSError, ValueError):  # whoever reads the sweep takes the step then
            record = TrialRecord.from_text(read_file(file))
            with self.store.read() as db:
                run = job_table.find(db, guid)
                id = job_table.id_of(db, guid)
            is_failed = run is not None and run.state is ExecutionState.FAILED
            if run and not run.is_open and (record.steps_on == "end" or is_failed):
                arguments = (str(self.layout.home), guid, id)
                return [process.start(SWEEP_STEP, arguments, log=job.supervisor_log)]
        return []

    def _start_next(self, next_job: JobRow | None, started: list[subprocess.Popen[bytes]]) -> JobRow | None:
        """Starts pending work; returns the next job if this process can run it."""
        others = started
        if scheduler.has_pending_work(self.store):  # before what starts it is loaded, which takes time
            from batchai_magics.backends.local import reconciler

            others = [*others, *reconciler.reconcile(self.store, self.layout)]
        else:
            unmanaged_mounts.sweep(self.store, self.layout)
        if next_job is None or not others:
            return next_job
        from batchai_magics.backends.local import reconciler

        # The others are children of this process: a job running here could not tell them from its own.
        reconciler.start(self.store, self.layout, next_job)
        return None


def _finish(job: JobLayout, report: LocalReport, outcome: Outcome, *, takes_next: bool = False) -> bool:
    """Records how a job ended; True if it is requeued."""
    if outcome.is_requeued:
        job.plan.unlink(missing_ok=True)  # the next attempt has other nodes
    report.finish(outcome, takes_next=takes_next)
    if not outcome.is_requeued:  # only now: another attempt needs it if this program is killed before
        job.environment.unlink(missing_ok=True)
    return outcome.is_requeued


def bind(store: Store, layout: Layout, guid: str) -> tuple[Plan, Bindings]:
    """Creates the folders of a run with nodes, and writes its Plan; returns the Plan and its bindings.

    Raises LookupError if the nodes are unknown.
    """
    with store.read() as db:
        nodes = node_table.job_nodes(db, guid)
    if not nodes:
        raise LookupError("The database was lost, and with it which nodes the job has: submit it again")
    job = layout.job(guid)
    plan = Plan.from_json(read_text(job.submitted, MAX_PLAN_BYTES))
    devices = machine_devices.machine()
    # of a node that is shared, the job has the same part of the cores as of the GPUs
    first = nodes[0]
    cores, gpus = devices.core_share(first.mates), devices.gpu_share(first.position, first.mates)
    if first.gpus and gpus:
        cores = max(1, cores * len(first.gpus.split(",")) // len(gpus))
    bindings = Bindings(
        nodes=[node.id for node in nodes],
        addresses=[LOOPBACK] * len(nodes),
        ports=free_ports(plan.port_count, LOOPBACK),
        devices=[node.gpus or ",".join(devices.gpu_share(node.position, node.mates)) for node in nodes],
        threads=thread_share(cores, plan.processes_per_node),
    )
    return _bound(plan, bindings, job), bindings


def _bound(plan: Plan, bindings: Bindings, job: JobLayout) -> Plan:
    """The plan of a job with these bindings and this machine's programs; writes it, and creates its files."""
    plan = plan.resolved(bindings)
    make_attempt_files(job, plan)
    bound = mpi_launchers.with_own_launcher(plan, programs=job.bin, hosts=job.host_file)
    if bound.containers.engine:
        from batchai_magics.backends.node import containers  # few jobs need it

        folders = (job.root.parents[1], Path(RUN_SCRIPT))  # the home first
        bound = bound.changed(lambda part: containers.in_containers(part, folders))
    bound.write(str(job.plan))
    return bound


class LocalLauncher(ChildLauncher):
    """Starts processes as children of a supervisor, and ends with them what they have started."""

    def __init__(
        self,
        plan: Plan,
        bindings: Bindings,
        job: JobLayout,
        attempts: Attempts,
        secrets: Secrets,
        signal_pipe: SignalPipe,
    ) -> None:
        self._bindings, self._job, self.number = bindings, job, max(1, len(attempts))
        self.previous_end = attempts[-2].reason if self.number > 1 else ""
        self.registry_password = secrets.registry_password
        submitter_env = json.loads(job.environment.read_text(encoding="utf-8"))
        env = {**os.environ, **submitter_env, **secrets.variables}
        self._folder = TemporaryFolder()
        super().__init__(job, signal_pipe, env, temporary=self._folder, find=process.processes_of)
        self.plan = with_attempt(plan, self.number, job.root)

    @property
    def may_leave_memory(self) -> bool:
        """Whether shared memory segments of MPI may be left."""
        return any(processes.may_leave_memory for processes in self._launched)

    def smaller(self, plan: Plan, nodes: Sequence[int]) -> Plan:
        """The plan for some of its nodes, by number."""
        smaller = _bound(plan, self._bindings.of_nodes(nodes), self._job)
        self.plan = with_attempt(smaller, self.number, self._job.root)
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
        return termination.without_mount_servers(process.descendants(), self.plan)


class LocalReport(Report):
    """The row of a supervised run in the store: brings requests to stop, and takes what happens into it.

    While the store is unreadable, the last row read is used; a missing job folder means the job was deleted.
    `next_job` is the queued job whose nodes were assigned to this process when the previous one finished.
    """

    gives_notice = True
    finish_s = 60.0  # how long to retry the store with an outcome; the job's folder has it by then
    retry_s = 0.2

    def __init__(self, store: Store, job: JobLayout) -> None:
        self._store, self._job, self._guid = store, job, job.root.name
        self._last: JobRow | None = None
        self.next_job: JobRow | None = None

    def claim(self) -> bool:
        """Makes this process the job's supervisor; False if it has another one or is gone.

        A job that has its nodes is marked as running in the same transaction: each waits for the disk.
        """
        identity = process.own_identity()
        with self._store.write() as db:
            is_ours = job_table.claim(db, self._guid, identity)
            run = job_table.find(db, self._guid)
            if is_ours and run and run.is_assigned:
                self._mark_running(db)
        if is_ours:
            with (
                contextlib.suppress(OSError),
                open(self._job.supervisor, "w", opener=private_files.opener) as file,
            ):
                file.write(identity)  # read when a lost store is rebuilt
        return is_ours

    def read(self) -> JobRow | None:
        """The run as it is now; None if its job was deleted."""
        try:
            with self._store.read() as db:
                self._last = job_table.find(db, self._guid)
        except StorageError:
            if not self._job.root.exists():
                return None
        return self._last

    def begin(self) -> bool:
        """Marks the job as running; False if it was told to stop first."""
        return self._store.insist(self._mark_running)

    def _mark_running(self, db: Database) -> bool:
        nodes = [node.id for node in node_table.job_nodes(db, self._guid)]
        return job_table.begin(db, self._guid, nodes)

    def start_clock(self, limits: Limits) -> None:
        """Begins the time that the attempt has."""
        self.deadline = Deadline(limits)

    def warn(self, text: str) -> None:
        """Records a warning about the run while it runs; if that fails, the outcome still has it."""
        error = Outcome(None).with_watch_notes([text]).warnings
        with contextlib.suppress(StorageError), self._store.write() as db:
            job_table.warn(db, self._guid, error)

    def note_ending(self) -> None:
        """Records that the processes have been told to end, if the disk has room for it."""
        if self._last and self._last.state is ExecutionState.TERMINATING:  # as a user's request has it
            return
        with contextlib.suppress(StorageError), self._store.write() as db:
            job_table.set_terminating(db, self._guid)

    def stop_reason(self) -> str:
        """Why the job has to stop; empty if it need not."""
        run = self.read()
        return "the job was deleted" if run is None else run.stop

    def stop_request(self, *, is_signalled: bool) -> Outcome | None:
        """The outcome if the store has a reason why the job has to stop."""
        reason = self.stop_reason()
        return stop_outcome(reason, self._last.again if self._last else "") if reason else None

    def was_ended(self, processes: PlanProcesses) -> bool:
        """Whether processes were killed, maybe for a user whose request is not known yet."""
        return any(end.exit_code == KILLED for end in processes.ends)

    def note_stop(self, reason: str) -> None:
        """Records that the run is stopped by the program that watches it; it ends even if that fails."""
        with contextlib.suppress(StorageError):
            self._store.insist(lambda db: job_table.ask_to_stop(db, self._guid, reason))

    def watch_program(self) -> WatchProgram:
        """The program that watches the run."""
        from batchai_magics.backends.node.watch_process import WATCH, WatchProgram  # few jobs need it

        log, run = self._job.supervisor_log, self.read()
        os.close(private_files.opener(str(log), os.O_WRONLY | os.O_CREAT))
        start = process.start_command(sys.executable, WATCH.partition(".")[2], [])
        return WatchProgram(start, log, run.attempts if run else ())

    def finish(self, outcome: Outcome, *, takes_next: bool = False) -> None:
        """Writes the outcome and releases the nodes, even on a full disk.

        The outcome goes to the job's folder first. If the store fails for a minute, or this process gets
        SIGTERM meanwhile, recovery reads it from there.

        Args:
            outcome: How the job ended.
            takes_next: Whether to assign nodes to the next job, for this process, in the same transaction.
        """
        outcome = outcome._replace(ended=time.time())
        self._write_end(outcome)
        if self._is_recorded(outcome, takes_next=takes_next):
            return
        with process.ended_by_signals():
            deadline = time.monotonic() + self.finish_s
            while self._job.root.exists() and time.monotonic() < deadline:
                time.sleep(self.retry_s)
                if self._is_recorded(outcome, takes_next=takes_next):
                    return

    def _write_end(self, outcome: Outcome) -> None:
        while not outcome.is_requeued:
            try:
                return write_end(self._job.end, outcome)
            except OSError as error:
                if not is_disk_full(error) or not self._store.reserve.release_slice():
                    return  # the store is tried all the same

    def _is_recorded(self, outcome: Outcome, *, takes_next: bool) -> bool:
        def hand_over(db: Database) -> JobRow | None:
            run = job_table.find(db, self._guid)
            scheduler.record_end(db, self._guid, outcome)
            return scheduler.hand_over_nodes(db, run) if run and takes_next else None

        try:
            self.next_job = self._store.insist(hand_over)
        except StorageError:
            return False
        self._store.reserve.refill()
        return True
