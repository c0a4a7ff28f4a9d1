"""The supervisor process of a job; it outlives the kernel that submitted the job.

Started with `HOME KEY GUID` in its own session, with the job's secrets as a JSON line on standard input (they
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

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import make_attempt_files
from batchai_magics.backends.local import machine_devices, unmanaged_mounts
from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.backends.local.state.job_table import QUEUED_AGAIN, Attempts, JobRow, run_attempts
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import detached_process, process
from batchai_magics.backends.local.watch.detached_process import JobSecrets, Program, SharedStore
from batchai_magics.backends.local.watch.node_allocation import has_pending_work
from batchai_magics.backends.local.watch.outcome_writer import OutcomeWriter
from batchai_magics.backends.node import mpi_launchers
from batchai_magics.backends.node.attempt import AttemptRunner
from batchai_magics.backends.node.child_processes import ChildLauncher
from batchai_magics.backends.node.job_environment import RUN_SCRIPT, free_ports
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.launcher import Deadline, PlanProcesses, Report
from batchai_magics.backends.node.outcome import not_run, not_started, stopped
from batchai_magics.backends.node.ranks import leftovers, termination
from batchai_magics.backends.node.ranks.leftovers import LiveProcess
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.temporary_folder import TemporaryFolder
from batchai_magics.backends.node.restarts import with_attempt
from batchai_magics.backends.node.watch_process import WATCH, WatchProgram
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Limits, Plan, thread_share
from batchai_magics.launch.references import Bindings
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.record_files import TRIAL
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_file, read_json, read_text

TAKE_OVER_S = 60.0  # how long after its start a supervisor takes further jobs
SWEEP_STEP = "jobs.sweeps.next_step"  # of an upper layer: a process of its own, which none here waits for
POLL_S = 0.2  # polling interval of a queued job whose secrets are held here
LOOPBACK = "127.0.0.1"  # all nodes are on this machine
KILLED = 128 + 9  # exit code of a process that was killed


def main() -> None:
    """Runs the job that the arguments name, then the jobs that take over its nodes."""
    home, key, guid = sys.argv[1:4]
    message = sys.stdin.readline()
    if not message:  # the process that started it was killed
        return
    secrets = JobSecrets(**json.loads(message))
    termination.adopt_orphans()
    supervisor = Supervisor(Path(home))
    next_job = supervisor.watch(key, guid, secrets)
    del message, secrets
    while next_job:
        next_job = supervisor.take_over(next_job)
    supervisor.close()
    os._exit(0)  # taking the modules apart would take longer than most of what it has done


class Supervisor:
    """Runs one job, and short jobs queued behind it, which saves the startup time of a process each.

    It stops taking jobs after a while, since its code may be outdated, and never holds two jobs' secrets.
    """

    def __init__(self, home: Path) -> None:
        self._layout = Layout(home)
        self._store = SharedStore(self._layout.database, may_make=False)
        self._signal_pipe = SignalPipe()
        self._takes_over_until = time.monotonic() + TAKE_OVER_S

    def watch(self, key: str, guid: str, secrets: JobSecrets) -> JobRow | None:
        """Runs a job once its nodes are assigned; returns the next job for this process."""
        job = self._layout.job(guid)
        writer = OutcomeWriter(self._store, key, guid, job)
        if not writer.claim():
            return None
        while _waits_for_nodes(writer):
            if writer.begin():
                is_again = self._run(job, writer, secrets)
            else:  # it was stopped before it started
                reason = writer.stop_reason()
                is_again = writer.is_open() and _finish(job, writer, stopped(reason))
            others: list[subprocess.Popen[bytes]] = []
            if (self._layout.outboxes / job.root.name).exists():
                from batchai_magics.backends.local.watch import notification_sender

                others += notification_sender.start(job, secrets.variables)
            others += self._start_sweep_step(job)
            next_job = self._start_next(writer.next_job, others)
            if not (is_again and secrets):  # only this process has the secrets of the requeued job
                return next_job
        return None

    def take_over(self, job: JobRow) -> JobRow | None:
        """Like `watch`, for a job that takes over the nodes of the previous one."""
        detached_process.redirect_output(self._layout.job(job.guid).supervisor_log)
        return self.watch(job.key, job.guid, JobSecrets())

    def close(self) -> None:
        """Closes the store."""
        self._store.close()

    def _run(self, job: JobLayout, writer: OutcomeWriter, secrets: JobSecrets) -> bool:
        """Runs the job on its nodes and records its outcome; True if it is requeued."""
        plan, launcher = None, None
        try:
            plan = bind(self._store, self._layout, job.root.name)
            launcher = LocalLauncher(plan, job, writer.attempts, secrets, self._signal_pipe)
            report = LocalReport(job, writer, launcher.plan.limits)
            outcome = AttemptRunner(launcher.plan, launcher, report).run()
        except Exception as error:  # noqa: BLE001 whatever happened, the job must not stay "running"
            outcome = not_run(error) if plan else not_started(error)
        takes_next = not (outcome.is_requeued or secrets) and time.monotonic() < self._takes_over_until
        is_again = _finish(job, writer, outcome, takes_next=takes_next)
        process.reap()
        if launcher is None or launcher.may_leave_memory:
            leftovers.sweep_segments()
        return is_again

    def _start_sweep_step(self, job: JobLayout) -> list[subprocess.Popen[bytes]]:
        """Starts the process that takes the next step of the sweep whose trial has ended, if it needs one."""
        file = job.records / TRIAL
        if not file.exists():
            return []
        from batchai_magics.backends.local.state import resource_table  # few jobs are trials
        from batchai_magics.records.trial_record import TrialRecord

        with contextlib.suppress(OSError, ValueError):  # whoever reads the sweep takes the step then
            record = TrialRecord.from_text(read_file(file))
            with self._store.read() as db:
                run = job_table.find_by_guid(db, job.root.name)
                id = resource_table.by_guid(db, job.root.name).id
            is_failed = run is not None and run.state is ExecutionState.FAILED
            if run and not run.is_open and (record.steps_on == "end" or is_failed):
                arguments = (str(self._layout.home), job.root.name, id)
                program = Program(SWEEP_STEP, arguments, sys.executable, job.supervisor_log)
                return [detached_process.start(program, secrets={})]
        return []

    def _start_next(self, next_job: JobRow | None, started: list[subprocess.Popen[bytes]]) -> JobRow | None:
        """Starts pending work; returns the next job if this process can run it."""
        others = [*started, *self._start_others()]
        if next_job is None or not others:
            return next_job
        from batchai_magics.backends.local.watch import scheduler

        # The others are children of this process: a job running here could not tell them from its own.
        scheduler.start(self._store, self._layout, next_job, secrets=JobSecrets())
        return None

    def _start_others(self) -> list[subprocess.Popen[bytes]]:
        """Starts other pending work. Loading the models is slow, so checks first that there may be any."""
        if not has_pending_work(self._store):
            unmanaged_mounts.sweep(self._store, self._layout)
            return []
        from batchai_magics.backends.local.watch import reconciler

        return reconciler.reconcile(self._store, self._layout)


def _waits_for_nodes(writer: OutcomeWriter) -> bool:
    """Waits for the nodes; False if the job ends first."""
    while writer.is_open():
        if writer.is_assigned():
            return True
        time.sleep(POLL_S)
    return False


def _finish(job: JobLayout, writer: OutcomeWriter, outcome: Outcome, *, takes_next: bool = False) -> bool:
    """Records how a job ended; True if it is requeued."""
    if outcome.is_requeued:
        job.plan.unlink(missing_ok=True)  # the next attempt has other nodes
    writer.finish(outcome, takes_next=takes_next)
    if not outcome.is_requeued:  # only now: another attempt needs it if this program is killed before
        job.environment.unlink(missing_ok=True)
    return outcome.is_requeued


def bind(store: Store, layout: Layout, guid: str) -> Plan:
    """Makes the folders of a run that has got its nodes; returns its Plan, which is written as well.

    LookupError if the nodes are unknown.
    """
    with store.read() as db:
        nodes = node_table.job_nodes(db, guid)
    if not nodes:
        raise LookupError("The database was lost, and with it which nodes the job has: submit it again")
    job = layout.job(guid)
    plan = Plan.from_json(read_text(job.submitted, MAX_PLAN_BYTES))
    here = machine_devices.machine()
    # of a node that is shared, the job has the same part of the cores as of the GPUs
    first = nodes[0]
    cores, gpus = here.core_share(first.mates), here.gpu_share(first.position, first.mates)
    if first.gpus and gpus:
        cores = max(1, cores * len(first.gpus.split(",")) // len(gpus))
    bindings = Bindings(
        nodes=[node.id for node in nodes],
        addresses=[LOOPBACK] * len(nodes),
        ports=free_ports(plan.port_count, LOOPBACK),
        devices=[node.gpus or ",".join(here.gpu_share(node.position, node.mates)) for node in nodes],
        threads=thread_share(cores, plan.processes_per_node),
    )
    if job.preflight.exists():
        body = {"home": str(layout.home), "bindings": bindings._asdict()}
        private_files.write(job.bindings, json.dumps(body))
    return _bound(plan, bindings, home=layout.home, job=job)


def bind_smaller(job: JobLayout, plan: Plan, numbers: Sequence[int]) -> Plan:
    """The plan of a bound job for some of its nodes, which replaces that for all."""
    body = read_json(job.bindings, MAX_PLAN_BYTES)
    return _bound(plan, Bindings(**body["bindings"]).of_nodes(numbers), home=Path(body["home"]), job=job)


def _bound(plan: Plan, bindings: Bindings, *, home: Path, job: JobLayout) -> Plan:
    """The plan of a job with these bindings and this machine's programs; writes it, and creates its files."""
    plan = plan.resolved(bindings)
    make_attempt_files(job, plan)
    chosen = mpi_launchers.with_open_mpi(plan, programs=job.bin, hosts=job.host_file)
    bound = mpi_launchers.with_launcher_note(chosen) if chosen.notes == plan.notes else chosen
    if bound.containers.engine:
        from batchai_magics.backends.node import containers  # few jobs need it

        folders = (home, Path(RUN_SCRIPT))
        bound = bound.changed(lambda part: containers.in_containers(part, folders))
    bound.write(str(job.plan))
    return bound


class LocalLauncher(ChildLauncher):
    """Starts processes as children of a supervisor, and ends with them what they have started."""

    def __init__(
        self, plan: Plan, job: JobLayout, attempts: Attempts, secrets: JobSecrets, signal_pipe: SignalPipe
    ) -> None:
        self._job, self.number = job, max(1, len(attempts))
        self.previous_end = attempts[-2].get("reason", QUEUED_AGAIN) if self.number > 1 else ""
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
        smaller = bind_smaller(self._job, plan, nodes)
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

    def note_stop(self, reason: str) -> None:
        """Records that the program that watches the run has it stopped."""
        self._writer.ask_to_stop(reason)

    def watch_program(self) -> WatchProgram:
        """The program that watches the run."""
        log = self._job.supervisor_log
        os.close(private_files.opener(str(log), os.O_WRONLY | os.O_CREAT))
        start = detached_process.start_command(sys.executable, WATCH.partition(".")[2], [])
        return WatchProgram(start, log, run_attempts(self._writer.attempts))
