"""The program that runs a job on the first node of its allocation, from its beginning to its end.

Started as `ROOT ATTEMPT`. It tells the job's folder that the job runs, makes what it needs, prepares the
nodes, runs the processes, and tells how they ended. Nothing but that folder knows of it.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from batchai_magics.backends.folders.run_end import RunEnd
from batchai_magics.backends.node import elevation, requirements
from batchai_magics.backends.node.execution_log import RESIZED, ExecutionLog
from batchai_magics.backends.node.outcome import (
    REQUEUE,
    Outcome,
    failed_with,
    not_run,
    of_preparation,
    stopped,
    too_long,
)
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.log_seals import LogSeal, seal_of, seal_record
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm.node import allocation
from batchai_magics.backends.slurm.node.attempt import Attempt, batch_log_text, logged_end
from batchai_magics.backends.slurm.node.collection import Collection
from batchai_magics.backends.slurm.node.end_states import EndState, end_state_of, lost, outcome_of
from batchai_magics.backends.slurm.node.job_bundle import JobBundle
from batchai_magics.backends.slurm.node.launchers import RankLauncher, is_cut_off, launcher_of, let_end
from batchai_magics.backends.slurm.node.node_setups import NodeSetups, of_nodes
from batchai_magics.backends.slurm.node.oom_kills import out_of_memory_folder, started_folder
from batchai_magics.backends.slurm.node.run_files import RunFiles, cut_off_folder, unkept_folder
from batchai_magics.backends.slurm.node.run_rank import read_secrets
from batchai_magics.backends.slurm.node.scratch import ScratchError
from batchai_magics.backends.slurm.node.stop_watching import watched
from batchai_magics.launch.plan import Plan

PATIENCE_S = 2.0  # what a disk gets to take the last output of a job that was told to end
STOPPED_S = 15.0  # what the working directories of a run that was told to end get to be collected
LATE_S = 60.0  # the same beyond its own limit, of what Slurm gives it there
LOOK_S = 1.0  # between looks at whether somebody wants the job to end, without a signal


def main() -> None:
    """Runs the job, and records its end."""
    files, attempt, bell = RunFiles(Path(sys.argv[1])), int(sys.argv[2]), SignalPipe()
    termination.adopt_orphans()
    if files.end:  # it was given up meanwhile
        return
    beginning = Attempt(files, attempt)
    try:
        outcome = JobRun(files, beginning, bell).run()
    except ScratchError as error:
        outcome = failed_with("JobLaunchFailed", str(error))
    except Exception as error:  # noqa: BLE001 whatever it was, the job must not stay "running"
        outcome = not_run(error)
    if outcome.is_requeued or beginning.is_superseded:
        beginning.leave()
    else:
        files.note_end(RunEnd(outcome, time.time()))
    sys.exit(0 if outcome.is_success or outcome.is_requeued else 1)


class JobRun:
    """One attempt at a job, on the nodes that it has got."""

    def __init__(self, files: RunFiles, beginning: Attempt, bell: SignalPipe) -> None:
        self._files, self._beginning, self._bell = files, beginning, bell
        self._order = JobBundle.read(files.bundle)
        self._nodes = allocation.nodes()
        plan, self._preparation, self._setup = self._order.resolved(
            files.root.name, self._nodes, allocation.addresses(self._nodes)
        )
        self._plan = beginning.of_its_own(plan)
        self._env = {**os.environ, **read_secrets(files.secrets)}
        self._deadline = time.monotonic() + self._plan.limits.wall_s
        self._next_look = 0.0
        self._is_stopped = False

    def run(self) -> Outcome:
        """Prepares the nodes, runs the processes, and leaves none of them behind."""
        self._make_folders()
        self._plan.write(str(self._files.layout.plan))
        self._beginning.begin(self._nodes)
        self._log = ExecutionLog(self._plan.execution_logs)
        if sentence := self._beginning.mark(Path(self._plan.output.stdout.path), self._nodes):
            self._log.write(sentence)
        record = seal_record(self._files.layout.seals)
        try:
            outcome = (
                self._interruption(set()) or self._set_up() or requirements.directories(self._first_node_plan)
            )
            outcome = outcome or self._prepare() or self._run_processes()
        finally:
            termination.kill()
            left = Collection(self._files, self._plan).collect(self._collecting_s)
            record.write(self._seals())
            record.close()
        outcome = outcome.warned("FilesLeftBehind", *left)
        self._log.write(outcome.sentence)
        return outcome

    def _make_folders(self) -> None:
        job = self._files.layout
        own = (cut_off_folder, unkept_folder, started_folder, out_of_memory_folder)
        folders = (Path(self._plan.exits), *(folder(self._plan) for folder in own))
        for stale in (*folders, job.preparation_exits, self._files.setup_exits):
            shutil.rmtree(stale, ignore_errors=True)
            private_files.make_folder(stale)
        for node in (*self._first_node_plan.nodes, *(self._setup.nodes if self._setup else ())):
            private_files.make_folder(Path(node.folder))
        if self._order.scratch:
            limit_bytes = self._order.scratch_limit_bytes
            Collection.order(self._files, limit_bytes=limit_bytes, number=self._beginning.number)
        for log in (*(stream.path for stream in self._plan.output), *self._plan.execution_logs):
            os.close(private_files.opener(log, os.O_RDWR | os.O_CREAT))
        hosts = "".join(f"{name}\n" for name in self._nodes)
        self._files.layout.host_file.write_text(hosts, encoding="utf-8")

    @property
    def _first_node_plan(self) -> Plan:
        """The plan with those nodes alone whose working directories this program can make."""
        return self._plan._replace(nodes=self._plan.nodes[:1]) if self._order.scratch else self._plan

    @property
    def _collecting_s(self) -> float:
        """What there is to collect working directories: somebody may wait, or Slurm soon kill."""
        return STOPPED_S if self._is_stopped else self._left_s + LATE_S

    def _set_up(self) -> Outcome | None:
        """Runs the cluster's setup task on the job's nodes, those left out where it has been run before."""
        if self._setup is None:
            return None
        setups = NodeSetups(Path(self._order.setups), allocation.boot_times(self._nodes))
        while missing := setups.missing(self._nodes):
            with setups.claimed(missing) as ours:
                outcome = self._run_setup(of_nodes(self._setup, ours), setups) if ours else self._rest()
            if outcome:
                return outcome
        return None

    def _run_setup(self, plan: Plan, setups: NodeSetups) -> Outcome | None:
        if self._order.is_setup_elevated:
            plan = elevation.run_elevated(plan)
        notes = [f"warning: {note}" for note in plan.notes]
        names = ", ".join(plan.node_of(process).id for process in plan.processes)
        for text in (*notes, f"setup task of the cluster started on {names}"):
            self._log.write(text)
        secrets = read_secrets(Path(self._order.setup_secrets))
        with self._started(plan, {**os.environ, **secrets}, is_each_alone=True) as started:
            interrupted = self._follow(started, setups.renew)
            started.end(patience_s=PATIENCE_S)
            return interrupted or setups.note(plan, started.ends)

    def _rest(self) -> Outcome | None:
        """Waits a moment: another job sets these nodes up."""
        select.select([self._bell], [], [], LOOK_S)
        return self._interruption(self._bell.read())

    def _prepare(self) -> Outcome | None:
        if self._preparation is None:
            return None
        self._log.write("job preparation started")
        with self._started(self._preparation) as started:
            interrupted = self._follow(started)
            started.end(patience_s=PATIENCE_S)
            if interrupted:
                return interrupted
            codes = {end.rank: end.exit_code or 0 for end in started.ends}
            missing = [1] * (len(self._preparation.processes) - len(codes))
            return of_preparation([*(codes[rank] for rank in sorted(codes)), *missing])

    def _run_processes(self) -> Outcome:
        for note in self._plan.notes:
            self._log.write(f"warning: {note}")
        count = len(self._plan.processes)
        self._log.write(f"starting {count} process(es) on {len(self._plan.nodes)} node(s)")
        unchecked: list[str] = []
        with self._started(self._plan) as started:
            with watched(self._files, self._beginning.attempt, self._plan, warn=unchecked.append):
                interrupted = self._follow(started)
            started.end(patience_s=PATIENCE_S if interrupted else float("inf"))
            outcome = started.outcome()
            if interrupted:
                outcome = interrupted.with_ranks(started.ends, self._plan)
        return outcome.warned("StopConditionNotChecked", *unchecked)

    @contextlib.contextmanager
    def _started(
        self, plan: Plan, env: Mapping[str, str] | None = None, *, is_each_alone: bool = False
    ) -> Iterator[RankLauncher]:
        """The processes of a plan; none of them runs on behind it."""
        files, mpi = self._files, self._order.mpi
        made = launcher_of(
            plan, self._bell, env or self._env, files=files, mpi=mpi, is_each_alone=is_each_alone
        )
        with contextlib.closing(made):
            made.start()
            yield made

    def _follow(
        self, started: RankLauncher, at_each_turn: Callable[[], None] | None = None
    ) -> Outcome | None:
        """Waits until the processes have ended, or have to; tells why when that is not their own doing."""
        while started.is_running and not started.is_over:
            if at_each_turn:
                at_each_turn()
            interrupted = self._interruption(started.turn(min(LOOK_S, self._left_s)))
            if interrupted:
                return interrupted
        is_told = signal.SIGTERM in let_end(started)
        if is_told or (is_cut_off(started) and allocation.is_taken()):
            return self._interruption({signal.SIGTERM})
        return None

    @property
    def _left_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _interruption(self, heard: set[int]) -> Outcome | None:
        """Why the job has to stop now: somebody wants it, Slurm takes its nodes, or its time is over."""
        now_s = time.monotonic()
        if signal.SIGTERM in heard or now_s >= self._next_look:
            self._next_look = now_s + LOOK_S
            if outcome := self._told_to_end():
                self._is_stopped = True
                return outcome
        if signal.SIGTERM in heard:
            self._is_stopped = True
            return self._taken()
        return too_long(self._plan.limits) if now_s >= self._deadline else None

    def _told_to_end(self) -> Outcome | None:
        """Why the job's folder says that it has to stop; None while it does not."""
        if end := self._files.end:  # Slurm has lost this node, and somebody has seen that
            return end.outcome
        stop = self._files.stop(self._beginning.attempt)
        if stop and stop.reason == REQUEUE:
            self._beginning.reason = RESIZED
        if stop:
            return stopped(stop.reason)
        return stopped(REQUEUE) if self._beginning.is_superseded else None

    def _taken(self) -> Outcome:
        """How it ends now that Slurm takes its nodes: for good, or to be begun again."""
        told = allocation.own_fields()
        is_queued = int(told.get("Restarts") or 0) > self._beginning.restarts
        if is_queued or (not told and batch_log_text(self._files.batch_log) == "JOB REQUEUE"):
            self._beginning.leave()  # now: Slurm gives no long notice
            return stopped(REQUEUE)
        state = "NODE_FAIL" if told.get("Reason") == "NodeDown" else told.get("JobState", "")
        how = logged_end(self._files.batch_log) or end_state_of(state)
        if how is EndState.NODE_FAIL:
            return lost(allocation.lost_nodes(self._nodes, self._files.batch_log))
        return outcome_of(how or EndState.CANCELLED)

    def _seals(self) -> dict[str, LogSeal]:
        """The logs as they are, now that nobody writes to them any more."""
        folder = Path(self._plan.output.stdout.path).parent
        logs = [file for file in folder.glob("std*.txt") if file.is_file() and not file.is_symlink()]
        return {file.name: seal_of(file) for file in logs}


if __name__ == "__main__":
    main()
