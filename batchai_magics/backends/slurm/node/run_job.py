"""The program that runs a job on the first node of its allocation.

Started as `ROOT ATTEMPT`. It records the start, prepares the nodes, runs the processes and records the
outcome, all in the job's folder.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from batchai_magics.backends.node import requirements, restarts
from batchai_magics.backends.node.outcome import REQUEUE, failed_with, not_run, of_preparation, stopped
from batchai_magics.backends.node.preflight import Preflight, PreflightRequest, SmallerPlans
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.leftovers import LEFTOVER_S
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.signed_records import LogSeal, seal_of, seal_record
from batchai_magics.backends.node.restarts import RESIZED, EndWarning, ExecutionLog
from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm.node import allocation, notification_sending
from batchai_magics.backends.slurm.node.allocation import TimeLimits
from batchai_magics.backends.slurm.node.attempt_ends import (
    EndState,
    RunningAttempt,
    batch_log_text,
    end_state_of,
    logged_end,
    lost,
    orphan_folder,
    out_of_memory_folder,
    outcome_of,
    started_folder,
)
from batchai_magics.backends.slurm.node.job_bundle import JobBundle
from batchai_magics.backends.slurm.node.launchers import RankLauncher, await_ends, is_cut_off, launcher_of
from batchai_magics.backends.slurm.node.node_setups import NodeSetups, of_nodes
from batchai_magics.backends.slurm.node.run_files import (
    RunFiles,
    cut_off_folder,
    ending_mark,
    unwritten_folder,
)
from batchai_magics.backends.slurm.node.run_rank import read_secrets
from batchai_magics.backends.slurm.node.run_watching import watched
from batchai_magics.backends.slurm.node.scratch import Collection, ScratchError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan

OUTPUT_TIMEOUT_S = 2.0  # how long a stopped job's last output may take to be written
COLLECT_AFTER_STOP_S = 15.0  # how long a stopped run may take to collect its working directories
COLLECT_S = 60.0  # the same for other runs, in addition to their time limit
POLL_S = 1.0  # interval for checking stop requests that arrive without a signal


def main() -> None:
    """Runs the job, and records its end."""
    files, signal_pipe = RunFiles(Path(sys.argv[1])), SignalPipe()
    termination.adopt_orphans()
    if files.end:  # it was already recorded as lost
        return
    attempt = RunningAttempt(files, int(sys.argv[2]))
    try:
        outcome = JobRun(files, attempt, signal_pipe).run()
    except ScratchError as error:
        outcome = failed_with("JobLaunchFailed", str(error))
    except Exception as error:  # noqa: BLE001 whatever it was, the job must not stay "running"
        outcome = not_run(error)
    if outcome.is_requeued or attempt.is_superseded:
        attempt.record_end()
        outcome = _requeued(outcome)
    if not (outcome.is_requeued or attempt.is_superseded):
        files.note_end(outcome._replace(ended=time.time()))
        notification_sending.send(files)
    sys.exit(0 if outcome.is_success or outcome.is_requeued else 1)


def _requeued(outcome: Outcome) -> Outcome:
    """The outcome after asking Slurm for another attempt: this one's if it refuses."""
    refusal = allocation.requeue() if outcome.reason else ""
    if not refusal:
        return outcome
    text = f"Slurm did not queue the job again: {refusal}"
    return outcome._replace(is_requeued=False).warned("JobNotRequeued", text)


class JobRun:
    """One attempt of a job on its nodes."""

    def __init__(self, files: RunFiles, attempt: RunningAttempt, signal_pipe: SignalPipe) -> None:
        self._files, self._attempt, self._signal_pipe = files, attempt, signal_pipe
        self._bundle = JobBundle.read(files.bundle)
        self._nodes = allocation.nodes()
        plan, self._preparation, self._setup = self._bundle.resolved(
            files.root.name, self._nodes, allocation.addresses(self._nodes)
        )
        self._plan = attempt.with_own_exits(plan)
        self._preparation = self._preparation and attempt.with_variables(self._preparation)
        self._env = {**os.environ, **read_secrets(files.secrets)}
        self._time = TimeLimits(self._plan.limits)
        self._warning = EndWarning(self._plan)
        self._next_poll_s = 0.0
        self._is_stopped = False

    def run(self) -> Outcome:
        """Prepares the nodes, runs the processes, and ends all of them."""
        self._make_folders()
        self._plan.write(str(self._files.layout.plan))
        self._attempt.start(self._nodes)
        if self._plan.limits.max_restarts == self._attempt.number - 1:
            allocation.forbid_requeue()
        self._log = ExecutionLog(self._plan.execution_logs)
        if sentence := self._attempt.mark(Path(self._plan.output.stdout.path), self._nodes):
            self._log.write(sentence)
        record = seal_record(self._files.layout.seals)
        try:
            outcome = (
                self._interruption(set()) or self._set_up() or requirements.directories(self._first_node_plan)
            )
            outcome = outcome or self._check_nodes() or self._prepare() or self._run_processes()
        finally:
            termination.kill()
            left = Collection(self._files, self._plan).collect(self._collect_timeout_s)
            record.write(self._seals())
            record.close()
        outcome = restarts.continued(outcome, self._plan, self._attempt.number, self._warning)
        self._attempt.reason = outcome.reason or self._attempt.reason
        outcome = outcome.warned("FilesLeftBehind", *left)
        self._log.write(outcome.sentence)
        return outcome

    def _make_folders(self) -> None:
        job = self._files.layout
        own = (cut_off_folder, unwritten_folder, started_folder, out_of_memory_folder, orphan_folder)
        folders = (Path(self._plan.exits), *(folder(self._plan) for folder in own))
        for stale in (*folders, job.preparation_exits, job.preflight_exits, self._files.setup_exits):
            shutil.rmtree(stale, ignore_errors=True)
            private_files.make_folder(stale)
        ending_mark(self._plan).unlink(missing_ok=True)
        for kept in (job.checkpoints, job.artifacts):
            private_files.make_folder(kept)
        for node in (*self._first_node_plan.nodes, *(self._setup.nodes if self._setup else ())):
            private_files.make_folder(Path(node.folder))
        if self._bundle.scratch:
            limit_bytes = self._bundle.scratch_limit_bytes
            Collection.request(self._files, limit_bytes=limit_bytes, number=self._attempt.number)
        self._make_logs()

    def _make_logs(self) -> None:
        """Creates the log files and the host file of the plan."""
        for log in (*(stream.path for stream in self._plan.output), *self._plan.execution_logs):
            os.close(private_files.opener(log, os.O_RDWR | os.O_CREAT))
        hosts = "".join(f"{node.id}\n" for node in self._plan.nodes)
        self._files.layout.host_file.write_text(hosts, encoding="utf-8")

    @property
    def _first_node_plan(self) -> Plan:
        """The plan reduced to the nodes whose working directories this program can create."""
        return self._plan._replace(nodes=self._plan.nodes[:1]) if self._bundle.scratch else self._plan

    @property
    def _collect_timeout_s(self) -> float:
        """Time to collect working directories; short after a stop request: Slurm kills soon."""
        return COLLECT_AFTER_STOP_S if self._is_stopped else self._time.left_s + COLLECT_S

    def _set_up(self) -> Outcome | None:
        """Runs the cluster's setup task on the nodes that have not been set up."""
        if self._setup is None:
            return None
        setups = NodeSetups(Path(self._bundle.setups), allocation.boot_times(self._nodes))
        while missing := setups.missing(self._nodes):
            with setups.claimed(missing) as claimed:
                outcome = (
                    self._run_setup(of_nodes(self._setup, claimed), setups)
                    if claimed
                    else self._wait_for_setup()
                )
            if outcome:
                return outcome
        return None

    def _run_setup(self, plan: Plan, setups: NodeSetups) -> Outcome | None:
        if self._bundle.is_setup_elevated:
            plan = requirements.run_elevated(plan)
        notes = [f"warning: {note}" for note in plan.notes]
        names = ", ".join(plan.node_of(process).id for process in plan.processes)
        for text in (*notes, f"setup task of the cluster started on {names}"):
            self._log.write(text)
        secrets = read_secrets(Path(self._bundle.setup_secrets))
        with self._running(plan, {**os.environ, **secrets}, are_independent=True) as launcher:
            interrupted = self._follow(launcher, setups.renew)
            launcher.end(patience_s=OUTPUT_TIMEOUT_S)
            return interrupted or setups.note(plan, launcher.ends)

    def _wait_for_setup(self) -> Outcome | None:
        """Waits a moment while another job sets these nodes up."""
        select.select([self._signal_pipe], [], [], POLL_S)
        return self._interruption(self._signal_pipe.read())

    def _check_nodes(self) -> Outcome | None:
        """Checks the nodes, if the job asks for it, and leaves out bad ones, if it may."""
        request, job = PreflightRequest.read(self._files.layout.preflight), self._files.layout
        if request is None:
            return None
        address = allocation.addresses(self._nodes)[0]
        with contextlib.closing(Preflight(self._plan, address, job.preflight_exits)) as check:
            env = {**self._env, **check.env}
            with self._running(check.plan, env, are_independent=True) as launcher:
                interrupted = check.follow(launcher, self._interruption)
                launcher.end(patience_s=OUTPUT_TIMEOUT_S)
            if interrupted:
                return interrupted
            decided = check.conclude(request, job.records)
            self._log.write(check.sentence)
        if decided.smaller:
            self._leave_out_nodes(decided.smaller, [self._nodes[number] for number in decided.nodes])
        return decided.outcome

    def _leave_out_nodes(self, plans: SmallerPlans, nodes: Sequence[str]) -> None:
        """Replaces the plans by those for some of the nodes."""
        bundle, addresses = self._bundle.smaller(plans), allocation.addresses(nodes)
        plan, preparation, _ = bundle.resolved(self._files.root.name, nodes, addresses)
        self._plan = self._attempt.with_own_exits(plan)
        self._preparation = preparation and self._attempt.with_variables(preparation)
        self._plan.write(str(self._files.layout.plan))
        self._make_logs()

    def _prepare(self) -> Outcome | None:
        if self._preparation is None:
            return None
        self._log.write("job preparation started")
        with self._running(self._preparation) as launcher:
            interrupted = self._follow(launcher)
            self._end(launcher, interrupted, patience_s=OUTPUT_TIMEOUT_S)
            if interrupted:
                return interrupted
            codes = {end.rank: end.exit_code or 0 for end in launcher.ends}
            missing = [1] * (len(self._preparation.processes) - len(codes))
            return of_preparation([*(codes[rank] for rank in sorted(codes)), *missing])

    def _run_processes(self) -> Outcome:
        for note in (*self._plan.notes, *allocation.short_graces(self._plan.limits)):
            self._log.write(f"warning: {note}")
        count = len(self._plan.processes)
        self._log.write(f"starting {count} process(es) on {len(self._plan.nodes)} node(s)")
        unchecked: list[str] = []
        with self._running(self._plan) as launcher:
            with watched(
                self._files,
                self._attempt.submission,
                self._plan,
                env=self._env,
                warn=unchecked.append,
                lost=self._note_unwatched,
            ) as watcher:
                interrupted = self._follow(launcher, watcher.check if watcher else None)
            self._end(launcher, interrupted, patience_s=OUTPUT_TIMEOUT_S if interrupted else float("inf"))
            outcome = launcher.outcome()
            if interrupted:
                outcome = interrupted.with_ranks(launcher.ends, self._plan)
        return outcome.with_watch_notes(unchecked)

    def _end(self, launcher: RankLauncher, interrupted: Outcome | None, *, patience_s: float) -> None:
        """Ends the processes of a plan; those of an interrupted attempt have time to save."""
        if interrupted and not interrupted.is_requeued and not self._attempt.is_superseded:
            with contextlib.suppress(OSError):  # the end of the run says it too
                self._files.note_ending(self._attempt.submission)
        grace_s = self._plan.limits.grace_s if interrupted else LEFTOVER_S
        launcher.end(patience_s=patience_s, grace_s=grace_s, is_hurried=self._files.kill_request.exists)

    def _note_unwatched(self, text: str) -> None:
        self._log.write(f"warning: {text}")
        if not self._attempt.is_superseded:
            with contextlib.suppress(OSError):  # the end of the run has it too
                self._files.note_unwatched(self._attempt.submission, text)

    @contextlib.contextmanager
    def _running(
        self, plan: Plan, env: Mapping[str, str] | None = None, *, are_independent: bool = False
    ) -> Iterator[RankLauncher]:
        """The running processes of a plan; all have ended when the context exits."""
        files, mpi = self._files, self._bundle.mpi
        launcher = launcher_of(
            plan, self._signal_pipe, env or self._env, files=files, mpi=mpi, are_independent=are_independent
        )
        with contextlib.closing(launcher):
            launcher.start()
            yield launcher

    def _follow(self, launcher: RankLauncher, on_poll: Callable[[], None] | None = None) -> Outcome | None:
        """Waits until the processes have ended or must end; returns the reason why they must."""
        while launcher.is_running and not launcher.is_over:
            if on_poll:
                on_poll()
            signals = launcher.poll(min(POLL_S, self._time.left_s))
            if interrupted := self._interruption(signals):
                return interrupted
            if signal.SIGUSR1 in signals or self._time.is_warning_due:
                self._warn(launcher)
        is_told = signal.SIGTERM in await_ends(launcher)
        if is_told or (is_cut_off(launcher) and allocation.is_taken()):
            return self._interruption({signal.SIGTERM})
        return None

    def _warn(self, launcher: RankLauncher) -> None:
        """Warns the processes, once, that the attempt is about to end."""
        if self._warning.reason or not self._warning.notice_s:
            return
        reason = restarts.TIME_LIMIT if self._time.is_warning_due else "Slurm announced its end"
        self._log.write(f"the processes are warned of the end: {reason}")
        launcher.warn(self._warning, reason)

    def _interruption(self, signals: set[int]) -> Outcome | None:
        """Why the job has to stop now: a stop request, Slurm's signal, or its time limit."""
        now_s = time.monotonic()
        if signal.SIGTERM in signals or now_s >= self._next_poll_s:
            self._next_poll_s = now_s + POLL_S
            if outcome := self._stop_request():
                self._is_stopped = True
                return outcome
        if signal.SIGTERM in signals:
            self._is_stopped = True
            return self._lost_allocation()
        return self._time.outcome

    def _stop_request(self) -> Outcome | None:
        """The stop request in the job's folder; None without one."""
        if end := self._files.end:  # Slurm has lost this node, and the end was recorded elsewhere
            return end
        stop = self._files.stop(self._attempt.submission)
        if stop and stop.reason == REQUEUE:
            self._attempt.reason = RESIZED
        if stop:
            return stopped(stop.reason)
        return stopped(REQUEUE) if self._attempt.is_superseded else None

    def _lost_allocation(self) -> Outcome:
        """The outcome when Slurm takes the nodes: final, or a requeue."""
        fields = allocation.own_fields()
        is_queued = int(fields.get("Restarts") or 0) > self._attempt.restarts
        if is_queued or (not fields and batch_log_text(self._files.batch_log) == "JOB REQUEUE"):
            self._attempt.record_end()  # immediately: Slurm gives little notice
            return stopped(REQUEUE)
        state = "NODE_FAIL" if fields.get("Reason") == "NodeDown" else fields.get("JobState", "")
        ending = logged_end(self._files.batch_log) or end_state_of(state)
        if ending is None and allocation.is_preempted(fields):
            ending = EndState.PREEMPTED
        if ending is EndState.NODE_FAIL:
            return lost(allocation.lost_nodes(self._nodes, self._files.batch_log))
        return outcome_of(ending or EndState.CANCELLED)

    def _seals(self) -> dict[str, LogSeal]:
        """The logs' seals, now that nothing writes to them any more."""
        folder = Path(self._plan.output.stdout.path).parent
        logs = [file for file in folder.glob("std*.txt") if file.is_file() and not file.is_symlink()]
        return {file.name: seal_of(file) for file in logs}


if __name__ == "__main__":
    main()
