"""Launches an attempt on the nodes of an allocation, on several of them through srun, and reports on it."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.run_end import make_attempt_files
from batchai_magics.backends.node import stack_dumps
from batchai_magics.backends.node.attempt import poll_for
from batchai_magics.backends.node.child_processes import ChildProcesses
from batchai_magics.backends.node.job_environment import free_ports
from batchai_magics.backends.node.launcher import Launcher, PlanProcesses, Report
from batchai_magics.backends.node.node_programs import programs_folder, start_words
from batchai_magics.backends.node.outcome import (
    KILLED,
    REQUEUE,
    Fault,
    failed_with,
    node_loss,
    ranks_outcome,
    stop_outcome,
    write_error,
)
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.leftovers import LEFTOVER_S
from batchai_magics.backends.node.ranks.rank import become_own_group
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.signed_records import exits_in
from batchai_magics.backends.node.ranks.temporary_folder import ROOT, TMPDIR
from batchai_magics.backends.node.restarts import RESIZED, EndWarning, with_attempt_exits
from batchai_magics.backends.node.watch_process import WATCH, WatchProgram
from batchai_magics.backends.slurm.node import allocation, scratch
from batchai_magics.backends.slurm.node.attempt_ends import (
    TERMINATED,
    EndState,
    RunningAttempt,
    batch_log_text,
    end_state_of,
    kernel_reason,
    logged_end,
    oom_kills,
    out_of_memory,
    outcome_of,
    with_kill_reason,
    with_mpi_plugins,
    with_orphans,
)
from batchai_magics.backends.slurm.node.node_setups import NodeSetups
from batchai_magics.backends.slurm.node.run_files import (
    AttemptNote,
    JobBundle,
    RankMark,
    RunFiles,
    ending_mark,
    read_secrets,
)
from batchai_magics.backends.slurm.node.scratch import ScratchCollection
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import LaunchMode, Limits, Plan, ProcessExit
from batchai_magics.launch.references import Bindings

COLLECT_AFTER_STOP_S = 15.0  # how long a stopped run may take to collect its working directories
COLLECT_S = 60.0  # the same for other runs, in addition to their time limit
POLL_S = 1.0  # interval for reading the exit files of ranks on other nodes
SRUN_END_TIMEOUT_S = 30.0  # how long srun may take to end its tasks
TASK_END_TIMEOUT_S = 15.0  # how long the programs of tasks may take to end, in addition to their grace
RANK = "batchai_magics.backends.slurm.node.run_rank"
# How much later than its children this program may receive a signal that Slurm sends to all.
SIGNAL_DELAY_S = 1.0


class SlurmLauncher(Launcher):
    """Starts processes on the nodes of an allocation; the first node runs this program.

    On a single node, processes are its children; on several, they run below srun. `report` is the attempt's
    `Report`.
    """

    def __init__(self, files: RunFiles, running: RunningAttempt, signal_pipe: SignalPipe) -> None:
        self.files, self._running, self.signal_pipe = files, running, signal_pipe
        self._bundle, self.nodes = JobBundle.read(files.bundle), allocation.nodes()
        addresses = allocation.addresses(self.nodes)
        self.address = addresses[0]
        self.number, self.previous_end = running.number, ""
        self.plan = self._resolved(Plan.from_json(self._bundle.plan), self.nodes, addresses)
        self.env: Mapping[str, str] = {**os.environ, **read_secrets(files.secrets)}
        setup = Plan.from_json(self._bundle.setup) if self._bundle.setup else None
        setup = setup and resolved(self._bundle, setup, files.root.name, self.nodes, addresses)
        self.setup = (
            NodeSetups(
                Path(self._bundle.setups),
                setup,
                env={**os.environ, **read_secrets(Path(self._bundle.setup_secrets))},
                boots=allocation.boot_times(self.nodes),
            )
            if setup
            else None
        )
        self.report = SlurmReport(files, running, self.nodes, self.plan)
        folders = (mark.folder(self.plan) for mark in RankMark)
        for stale in (*folders, self.files.preflight_exits, self.files.setup_exits):
            shutil.rmtree(stale, ignore_errors=True)
            private_files.make_folder(stale)
        ending_mark(self.plan).unlink(missing_ok=True)
        for node in setup.nodes if setup else ():
            private_files.make_folder(Path(node.folder))
        if self._bundle.scratch:
            limit_bytes = self._bundle.scratch_limit_bytes
            ScratchCollection.request(self.files, limit_bytes=limit_bytes, number=self._running.number)
        self._write_plan()

    def _resolved(self, plan: Plan, nodes: Sequence[str], addresses: Sequence[str]) -> Plan:
        """The plan of the job on these nodes, with the variables and exits of this attempt."""
        plan = resolved(self._bundle, plan, self.files.root.name, nodes, addresses)
        return with_attempt_exits(plan, self.number, self.files.root)

    def _write_plan(self) -> None:
        """Writes the plan, and creates its files."""
        make_attempt_files(self.files, self.plan, self.reachable(self.plan).nodes)
        self.plan._replace(preparation=None).write(str(self.files.plan))  # each rank reads it

    def processes(
        self, plan: Plan, env: Mapping[str, str], *, are_independent: bool = False
    ) -> PlanProcesses:
        """The processes of a plan, not started yet; on several nodes, a failed one ends the others."""
        own_node = os.environ.get("SLURMD_NODENAME", plan.nodes[0].id)
        if {plan.node_of(process).id for process in plan.processes} <= {own_node}:
            return SingleNodeProcesses(plan, self.signal_pipe, env)
        return SrunProcesses(
            plan,
            self.signal_pipe,
            env,
            files=self.files,
            mpi=self._bundle.mpi,
            are_independent=are_independent,
        )

    def reachable(self, plan: Plan) -> Plan:
        """The plan without the nodes that have working directories on disks of their own."""
        return plan._replace(nodes=plan.nodes[:1]) if self._bundle.scratch else plan

    def smaller(self, plan: Plan, nodes: Sequence[int]) -> Plan:
        """The plan for some of its nodes, by number."""
        names = [self.nodes[number] for number in nodes]
        self.plan = self._resolved(plan, names, allocation.addresses(names))
        self._write_plan()
        return self.plan

    def close(self) -> None:
        """Ends everything that was started on this node, and collects the files on the nodes' own disks."""
        termination.kill()
        timeout_s = (
            COLLECT_AFTER_STOP_S if self.report.is_stopped else self.report.deadline.left_s + COLLECT_S
        )
        self.left_behind = ScratchCollection(self.files, self.plan).collect(timeout_s)


def resolved(
    bundle: JobBundle, plan: Plan, guid: str, nodes: Sequence[str], addresses: Sequence[str]
) -> Plan:
    """One of the bundle's plans, or a smaller one, for these nodes, with free ports of the current one."""
    base = scratch.base(bundle.scratch, guid, nodes[0])
    tmpdir = os.environ.get(TMPDIR) or ROOT

    def on_nodes(part: Plan) -> Plan:
        part = part._replace(nodes=tuple(node._replace(tmpdir=tmpdir) for node in part.nodes))
        if not part.containers.image:
            return part
        from batchai_magics.backends.node import containers  # few jobs need it

        return containers.in_containers(part, [Path(folder) for folder in (bundle.home, base) if folder])

    return plan.resolved(Bindings(nodes, addresses, free_ports(plan.port_count), base)).changed(on_nodes)


class SingleNodeProcesses(ChildProcesses):
    """The processes of a single node; one that is killed may have run out of memory."""

    def __init__(self, plan: Plan, signal_pipe: SignalPipe, env: Mapping[str, str]) -> None:
        super().__init__(plan, signal_pipe, env)
        self._kills = oom_kills()

    def outcome(self) -> Outcome:
        """The outcome that follows from the exits and from the kernel's count of OOM kills."""
        outcome = super().outcome()
        if outcome.exit_code == KILLED and oom_kills() > self._kills:
            return out_of_memory(outcome, kernel_reason(self.plan.nodes[0].id))
        return outcome


class SrunProcesses:
    """The processes of a multi-node plan as tasks of one srun, each with a supervising program.

    A failed task ends all the others, unless the tasks are independent.
    """

    def __init__(
        self,
        plan: Plan,
        signal_pipe: SignalPipe,
        env: Mapping[str, str],
        *,
        files: RunFiles,
        mpi: str,
        are_independent: bool,
    ) -> None:
        self._plan, self._signal_pipe, self._files = plan, signal_pipe, files
        self._are_independent = are_independent
        self._mpi = mpi if plan.launcher is LaunchMode.MPI else "none"
        self._host_file = files.root / "tasks"
        is_mpi = plan.launcher is LaunchMode.MPI
        self._env = env if is_mpi else {**env, "SLURM_HOSTFILE": str(self._host_file)}
        self._srun: subprocess.Popen[bytes] | None = None
        self._polled_s, self._ends = 0.0, list[ProcessExit]()
        self._was_ended = False

    @property
    def is_running(self) -> bool:
        """Whether srun is still running."""
        return self._srun is not None and self._srun.poll() is None

    @property
    def is_over(self) -> bool:
        """Whether only parameter servers run, or srun waits for a slurmstepd that has died.

        srun itself ends all tasks when one fails.
        """
        return self._plan.are_workers_done({end.rank for end in self.ends}) or bool(
            RankMark.ORPHAN.numbers(self._plan)
        )

    @property
    def ends(self) -> Collection[ProcessExit]:
        """The exits of the processes that have ended, from their files, read once a second."""
        if time.monotonic() - self._polled_s > POLL_S or not self.is_running:
            self._ends, self._polled_s = exits_in(Path(self._plan.exits)), time.monotonic()
        return self._ends

    @property
    def fault(self) -> Fault:
        """Why the output of ranks could not be written, if so."""
        return Fault(unwritable=write_error(RankMark.UNWRITTEN.numbers(self._plan)))

    def start(self) -> None:
        """Starts srun, which starts all processes."""
        hosts = "".join(f"{self._plan.node_of(process).id}\n" for process in self._plan.processes)
        self._host_file.write_text(hosts)
        plan_file = str(self._files.root / f"plan-of-{Path(self._plan.exits).name}.json")
        self._plan._replace(preparation=None).write(plan_file)  # each rank reads it
        program = start_words(self._plan.python, RANK, programs_folder())
        with self._files.batch_log.open("ab") as log:
            self._srun = subprocess.Popen(
                [*self._srun_args(), *program, str(self._files.root), plan_file],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=partial(become_own_group, signal.SIGTERM),
            )

    def _srun_args(self) -> list[str]:
        """The command that starts a task for each process on its node.

        MPI ranks fill one node before the next: only with that distribution does Slurm pass them the layout
        of their node. All others are placed by `SLURM_HOSTFILE`.
        """
        nodes = [process.node for process in self._plan.processes]
        distribution = ["--distribution=arbitrary"]
        names = ",".join(node.id for node in self._plan.nodes)
        if self._plan.launcher is LaunchMode.MPI:
            distribution = [
                "--distribution=block",
                f"--nodes={max(nodes) + 1}",
                f"--ntasks-per-node={nodes.count(0)}",
                f"--nodelist={names}",
            ]
        end = [f"--kill-on-bad-exit={int(not self._are_independent)}", "--wait=0"]
        tasks = [f"--ntasks={len(nodes)}", *distribution, "--overcommit", *end]
        return ["srun", *tasks, "--cpu-bind=none", f"--mpi={self._mpi}", "--export=ALL", "--input=none"]

    def poll(self, timeout_s: float) -> set[int]:
        """Waits up to `timeout_s` for a signal; returns the signals received."""
        select.select([self._signal_pipe], [], [], min(timeout_s, POLL_S))
        return self._signal_pipe.read()

    def warn(self, warning: EndWarning, reason: str) -> None:
        """Announces the end in the run's folder, which the program of each rank polls."""
        warning.give(reason, ())

    def end(self, *, patience_s: float, grace_s: float, is_hurried: Callable[[], bool]) -> None:
        """Makes the program of each task end it, which also reads `is_hurried`, then ends srun.

        A signal to srun ends the tasks at once.
        """
        if self.is_running and grace_s > LEFTOVER_S:
            ending_mark(self._plan).touch(mode=0o600)
            allocation.wake_tasks()
            self._wait_for_srun(grace_s + TASK_END_TIMEOUT_S)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._srun and self.is_running:
                self._was_ended = True
                self._srun.send_signal(number)
                self._wait_for_srun(SRUN_END_TIMEOUT_S)

    def _wait_for_srun(self, timeout_s: float) -> None:
        if self._srun:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._srun.wait(timeout_s)

    def outcome(self) -> Outcome:
        """The outcome that follows from the exits of the processes, their marks and srun's messages."""
        ended_on_their_own = {end.rank for end in self.ends} - {*RankMark.CUT_OFF.numbers(self._plan)}
        fault = self.fault
        failures = [end.ended or 0.0 for end in self.ends if end.exit_code and end.rank in ended_on_their_own]
        first = min(failures, default=0.0)
        outcome = ranks_outcome(
            [
                end if end.rank in ended_on_their_own else end._replace(ended=max(first, end.ended or 0.0))
                for end in self.ends
            ],
            self._plan,
            ended_on_their_own,
            fault,
        )
        if fault.unwritable:
            return outcome
        if orphans := RankMark.ORPHAN.numbers(self._plan):
            return with_orphans(outcome, self._plan, orphans)
        if self._srun and self._srun.returncode == -signal.SIGKILL and not self._was_ended:
            where = os.environ.get("SLURMD_NODENAME", self._plan.nodes[0].id)
            text = f"srun, which ran the job's processes from {where}, was killed: by a user, or as the node"
            ranks = tuple(rank._replace(exit_code=rank.exit_code and None) for rank in outcome.ranks)
            failed = failed_with("JobFailed", f"{text} was short of memory", KILLED)
            return failed._replace(ranks=ranks)
        log = self._files.batch_log
        outcome = with_kill_reason(outcome, self._plan, log, ended_on_their_own=ended_on_their_own)
        is_mpi = self._plan.launcher is LaunchMode.MPI
        return with_mpi_plugins(outcome, self._mpi, allocation.mpi_plugins) if is_mpi else outcome

    def close(self) -> None:
        """Ends all running processes."""
        self.end(patience_s=0.0, grace_s=LEFTOVER_S, is_hurried=lambda: False)


class SlurmReport(Report):
    """Reads stop requests from the job's folder and from Slurm, and writes to that folder.

    `is_stopped` is whether the attempt was asked to end.
    """

    engine = "Slurm"

    def __init__(self, files: RunFiles, running: RunningAttempt, nodes: Sequence[str], plan: Plan) -> None:
        self._files, self._running, self._nodes, self._python = files, running, nodes, plan.python
        self.deadline = allocation.deadline(plan.limits)
        self.is_stopped = False

    def notes(self, limits: Limits) -> Sequence[str]:
        """Notes on ends at which Slurm gives processes less time to save than the job does."""
        return allocation.short_graces(limits)

    def stop_request(self, *, is_signalled: bool) -> Outcome | None:
        """The outcome if the attempt has to end: for a request in its folder, or as Slurm takes its nodes."""
        outcome = self._request() or (self._lost_allocation() if is_signalled else None)
        self.is_stopped = self.is_stopped or outcome is not None
        return outcome

    def _request(self) -> Outcome | None:
        if end := self._files.outcome:  # Slurm has lost this node, and the end was recorded elsewhere
            return end
        stop = self._files.stop(self._running.submission)
        if stop and stop.reason == REQUEUE:
            self._running.reason = RESIZED
        if stop:
            return stop_outcome(stop.reason)
        return stop_outcome(REQUEUE) if self._running.is_superseded else None

    def _lost_allocation(self) -> Outcome:
        """The outcome when Slurm takes the nodes: final, or a requeue."""
        fields = allocation.own_fields()
        is_queued = int(fields.get("Restarts") or 0) > self._running.restarts
        if is_queued or (not fields and batch_log_text(self._files.batch_log) == "JOB REQUEUE"):
            self._running.record_end()  # immediately: Slurm gives little notice
            return stop_outcome(REQUEUE)
        state = "NODE_FAIL" if fields.get("Reason") == "NodeDown" else fields.get("JobState", "")
        ending = logged_end(self._files.batch_log) or end_state_of(state)
        if ending is None and allocation.is_preempted(fields):
            ending = EndState.PREEMPTED
        if ending is EndState.NODE_FAIL:
            return node_loss(allocation.lost_nodes(self._nodes, self._files.batch_log))
        return outcome_of(ending or EndState.CANCELLED)

    def was_ended(self, processes: PlanProcesses) -> bool:
        """Whether Slurm has ended the processes: its signal reaches them and this program in any order."""
        may_be_cut_off = is_cut_off(processes)
        signals = poll_for(processes, SIGNAL_DELAY_S, lambda: may_be_cut_off)
        return signal.SIGTERM in signals or (is_cut_off(processes) and allocation.is_ending())

    def is_hurried(self) -> bool:
        """Whether the processes are to be killed at once."""
        return self._files.kill_request.exists()

    def note_ending(self) -> None:
        """Records that the processes were asked to end."""
        if not self._running.is_superseded:
            with contextlib.suppress(OSError):  # the end of the run records it, too
                self._files.note_ending(self._running.submission)

    def warn(self, text: str) -> None:
        """Records that the run is no longer watched."""
        if not self._running.is_superseded:
            with contextlib.suppress(OSError):  # the end of the run records it, too
                self._files.note_unwatched(self._running.submission, text)

    def note_stop(self, reason: str) -> None:
        """Records that the watch program of the run requested its end."""
        self.is_stopped = True
        with contextlib.suppress(OSError):  # it ends without the record, too
            self._files.ask_to_stop(self._running.submission, AttemptNote(reason, time.time()))

    def watch_program(self) -> WatchProgram:
        """The program that watches the job; it reads the stacks of other nodes through srun."""
        # with this Python's packages: the user's expressions need RE2, some notifications apprise
        start = start_words(self._python, WATCH, programs_folder(), has_packages=True)
        dump = [self._python, stack_dumps.__file__, self._files.root.name]
        first, *others = self._nodes
        commands = [[*dump, first], *([*allocation.srun_beside([node]), *dump, node] for node in others)]
        return WatchProgram(start, self._files.batch_log, self._files.attempts(), commands)


def is_cut_off(processes: PlanProcesses) -> bool:
    """Whether processes may have been ended by Slurm."""
    return not processes.ends or any(end.exit_code in (TERMINATED, KILLED, None) for end in processes.ends)
