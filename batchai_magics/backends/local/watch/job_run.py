"""One run of a job on its nodes: requirements, preparation, ranks, interruption and cleanup."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from types import MappingProxyType

from batchai_magics.backends.folders.layout import JobLayout
from batchai_magics.backends.local import unmanaged_mounts
from batchai_magics.backends.local.state.job_table import QUEUED_AGAIN
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.local.watch.detached_process import JobSecrets
from batchai_magics.backends.local.watch.outcome_writer import OutcomeWriter
from batchai_magics.backends.local.watch.run_watcher import watched
from batchai_magics.backends.node import mpi_launchers, requirements, restarts
from batchai_magics.backends.node.outcome import (
    NO_FAULT,
    REQUEUE,
    Fault,
    of_preparation,
    of_ranks,
    stopped,
    time_limit_reached,
    unwritable,
)
from batchai_magics.backends.node.ranks.leftovers import LEFTOVER_S, LiveProcess
from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.signed_records import LogSeal, seal_record
from batchai_magics.backends.node.ranks.temporary_folder import TemporaryFolder
from batchai_magics.backends.node.restarts import MAX_NOTICE_S, TIME_LIMIT, EndWarning, ExecutionLog
from batchai_magics.backends.node.watch_process import WatchProcess
from batchai_magics.backends.service import private_files
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Limits, Plan
from batchai_magics.untrusted_files import tail_of

POLL_S = 1.0  # how often the store is polled without a signal


class Interruption:
    """Stop requests and the time limit of one attempt.

    Requeues give as much notice as the job asks for, up to a limit; other requests take effect at once.
    """

    def __init__(self, writer: OutcomeWriter, limits: Limits) -> None:
        self._writer, self._notice_s = writer, limits.warn_s
        self._deadline = time.monotonic() + limits.wall_s
        self._end = time_limit_reached(limits)
        self._next_poll = 0.0

    @property
    def patience_s(self) -> float:
        """Seconds to wait at most before `outcome` is checked again."""
        now_s = time.monotonic()
        due_times_s = (self._deadline - self._notice_s, self._deadline)
        return min([POLL_S, *(due_s - now_s for due_s in due_times_s if due_s > now_s)])

    @property
    def is_requeue(self) -> bool:
        """Whether the run is to be queued again."""
        return self._end.is_requeued

    @property
    def warning(self) -> str:
        """Why the attempt will end, once its processes are to be warned; else empty."""
        is_due = self._notice_s and time.monotonic() >= self._deadline - self._notice_s
        return (self._end.reason or TIME_LIMIT) if is_due else ""

    def outcome(self, heard: Set[int]) -> Outcome | None:
        """The outcome if the job has to end now; reads the store on SIGTERM and once per interval."""
        now_s = time.monotonic()
        if signal.SIGTERM in heard or now_s >= self._next_poll:
            self._next_poll = now_s + POLL_S
            reason = self._writer.stop_reason()
            if reason and reason != REQUEUE:
                return stopped(reason)
            if reason and not self._end.is_requeued:
                self._end = stopped(reason, self._writer.requeue_reason)
                self._deadline = min(self._deadline, now_s + min(self._notice_s, MAX_NOTICE_S))
        return self._end if time.monotonic() >= self._deadline else None


LOOPBACK = "127.0.0.1"  # all nodes are on this machine
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
PAUSE_S = 0.02  # first polling interval while processes end; it doubles up to the longest one
LONGEST_PAUSE_S = 0.25
PATIENCE_S = 2.0  # how long to flush output of a stopped job to a full disk
KILLED = 128 + signal.SIGKILL
ENDING_S = 0.3  # grace for the other ranks after one has failed


class JobRun:
    """Runs one job from its assignment to its end."""

    def __init__(
        self, layout: JobLayout, writer: OutcomeWriter, secrets: JobSecrets, *, bell: SignalPipe
    ) -> None:
        self._layout = layout
        self._writer, self._attempts = writer, writer.attempts
        self._plan = self._read(layout.plan)
        self._end_warning = EndWarning(self._plan)
        self._env = {
            **os.environ,
            **json.loads(layout.environment.read_text(encoding="utf-8")),  # the submitter's
            **mpi_launchers.transport(self._plan),
            **secrets.variables,
        }
        self._password = secrets.registry_password
        self._log = ExecutionLog(self._plan.execution_logs)
        self._interruption = Interruption(writer, self._plan.limits)
        self._bell = bell
        self._temporary = TemporaryFolder()
        self._rank_pids: set[int] = set()
        self.may_leave_memory = False  # shared memory segments of MPI
        self._seals: dict[str, LogSeal] = {}

    def run(self) -> Outcome:
        """Prepares the nodes, runs the ranks, and ends all processes."""
        self._mark_attempt()
        try:
            outcome = self._meet_requirements() or self._check_nodes() or self._prepare() or self._run_ranks()
        finally:
            process.end(self._leftover_processes)
            self._remove_containers()
            process.kill(self._child_processes)
            if self._plan.mounts:
                unmanaged_mounts.unmount(self._layout.root)
            self._temporary.remove()
        outcome = restarts.continued(outcome, self._plan, self._number, self._end_warning)
        self._log.write(outcome.sentence)
        return outcome

    @property
    def _number(self) -> int:
        return max(1, len(self._attempts))

    def _read(self, file: Path) -> Plan:
        """A plan in the job's folder, with the variables of this attempt."""
        return restarts.with_attempt(Plan.read(str(file)), self._number, self._layout.root)

    def _mark_attempt(self) -> None:
        """Marks in the logs where a second or later attempt begins."""
        *before, now = self._attempts or ({},)
        if before:
            log, reason = Path(self._plan.output.stdout.path), before[-1].get("reason", QUEUED_AGAIN)
            self._log.write(restarts.mark_attempt(log, len(self._attempts), now["nodes"], reason))

    def _meet_requirements(self) -> Outcome | None:
        """Pulls images, mounts volumes and creates folders; the outcome if any of it fails."""
        job = self._layout
        tools = requirements.tools(
            self._plan, sign_in=job.registry, mounts=job.mounts, password=self._password
        )
        with contextlib.closing(tools):
            ends = (self._use(tool) for tool in tools)
            failed = next((end for end in ends if end), None)
        return failed or requirements.directories(self._plan)

    def _use(self, tool: requirements.Tool) -> Outcome | None:
        log = self._layout.tool_log
        with open(log, "wb", opener=private_files.opener) as output:
            child = subprocess.Popen(
                tool.argv,
                env={**os.environ, **tool.env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=process.die_with_starter,
            )
        interrupted = self._wait_for(child)
        if interrupted:
            process.kill(lambda: process.marked(requirements.mount_mark(self._plan.guid)))
            return interrupted
        words = tail_of(log)
        for line in words.splitlines():
            self._log.write(line)
        return tool.outcome(child.wait(), words)

    def _wait_for(self, child: subprocess.Popen[bytes]) -> Outcome | None:
        """Waits for a tool to exit; the outcome if the job was interrupted meanwhile."""
        while child.poll() is None:
            select.select([self._bell], [], [], self._interruption.patience_s)
            interrupted = self._interruption.outcome(self._bell.read())
            if interrupted:
                return interrupted
        return None

    def _check_nodes(self) -> Outcome | None:
        """Checks the nodes, if the job asks for it, and leaves out bad ones, if it may."""
        job = self._layout
        if not job.preflight.exists():
            return None
        from batchai_magics.backends.local.watch import plan_binding  # few jobs ask for it
        from batchai_magics.backends.node.preflight import Preflight, PreflightRequest

        request = PreflightRequest.read(job.preflight) or PreflightRequest()

        private_files.make_folder(job.preflight_exits)
        with contextlib.closing(Preflight(self._plan, LOOPBACK, job.preflight_exits)) as check:
            with self._started(check.plan, check.env) as ranks:
                interrupted = check.follow(ranks, self._interruption.outcome)
                self._end(ranks, PATIENCE_S, grace_s=LEFTOVER_S)
            if interrupted:
                return interrupted
            decided = check.conclude(request, job.records)
            self._log.write(check.sentence)
        if decided.smaller:
            plan_binding.bind_smaller(job, decided.smaller, decided.nodes)
            self._plan = self._read(job.plan)
        return decided.outcome

    def _prepare(self) -> Outcome | None:
        plan_file = self._layout.preparation
        if not plan_file.exists():
            return None
        self._log.write("job preparation started")
        with self._started(self._read(plan_file)) as ranks:
            interrupted = self._follow(ranks)
            if interrupted:
                self._interrupt(ranks, interrupted)
                return interrupted
            if ranks.unwritable:
                return unwritable(ranks.unwritable)
            return of_preparation([ranks.ends[rank].exit_code or 0 for rank in sorted(ranks.ends)])

    def _run_ranks(self) -> Outcome:
        self._announce()
        unchecked: list[str] = []
        logged: list[str] = []

        def note_unwatched(text: str) -> None:
            logged.append(text)
            self._warn([text])
            self._writer.warn(text)

        with self._started(self._plan) as ranks:
            with watched(self._layout, env=self._env, warn=unchecked.append, lost=note_unwatched) as watcher:
                interrupted = self._follow(ranks, watcher)
            by_themselves, trouble = set(ranks.ends), _trouble(ranks)
            if interrupted:
                self._interrupt(ranks, interrupted)
            else:
                self._end(ranks, float("inf"), grace_s=LEFTOVER_S)
            self._note_memory(ranks)
            self._warn(note for note in unchecked if note not in logged)
            self._warn(ranks.manager.unsupported if ranks.manager else ())
            if interrupted:
                return interrupted.with_ranks(ranks.ends.values(), self._plan)
            outcome = of_ranks(ranks.ends.values(), self._plan, by_themselves, trouble)
            outcome = outcome.with_watch_notes(unchecked)
            return (
                outcome.without_mpi(len(self._plan.processes)) if mpi_launchers.has_no_mpi(ranks) else outcome
            )

    def _note_memory(self, ranks: Ranks) -> None:
        """Notes whether shared memory may be left: not if all ranks exited with 0 and finalized MPI."""
        ends = ranks.ends.values()
        is_well = len(ends) == len(self._plan.processes) and not any(end.exit_code for end in ends)
        self.may_leave_memory = not is_well or bool(ranks.manager and ranks.manager.attached)

    def _announce(self) -> None:
        self._warn(self._plan.notes)
        count = len(self._plan.processes)
        self._log.write(f"starting {count} process(es) on {len(self._plan.nodes)} node(s)")

    def _warn(self, notes: Iterable[str]) -> None:
        for note in notes:
            self._log.write(f"warning: {note}")

    @contextlib.contextmanager
    def _started(self, plan: Plan, env: Mapping[str, str] = NO_VARIABLES) -> Iterator[Ranks]:
        """The ranks of a plan, with more variables; all have ended when the block exits."""
        env = {**self._env, **env}
        with (
            contextlib.closing(seal_record(self._layout.seals)) as record,
            contextlib.closing(Ranks(plan, self._bell, env=env, temporary=self._temporary)) as ranks,
        ):
            ranks.start()
            self._rank_pids = ranks.helper_pids
            try:
                yield ranks
            finally:
                self._seals |= ranks.seals
                record.write(self._seals)
        self._rank_pids = ranks.recorder_pids

    def _follow(self, ranks: Ranks, watcher: WatchProcess | None = None) -> Outcome | None:
        """Waits until the ranks have ended or one has failed; the outcome if the job was interrupted."""
        while ranks.is_running:
            heard = ranks.poll(self._interruption.patience_s)
            interrupted = self._interruption.outcome(heard)
            if interrupted:
                return interrupted
            self._warn_of_end()
            if watcher:
                watcher.check()
            if _is_over(ranks):
                deadline = time.monotonic() + ENDING_S
                while ranks.is_running and (left_s := deadline - time.monotonic()) > 0:
                    ranks.poll(left_s)
                return self._kill_request(ranks)
        return None

    def _kill_request(self, ranks: Ranks) -> Outcome | None:
        """The outcome if ranks were killed for a user, which may be known before the request is."""
        was_killed = any(end.exit_code == KILLED for end in ranks.ends.values())
        return self._interruption.outcome({signal.SIGTERM}) if was_killed else None

    def _warn_of_end(self) -> None:
        """Warns the processes when the attempt is about to end."""
        reason = self._interruption.warning
        if reason and not self._end_warning.reason:
            self._log.write(f"the processes are warned of the end: {reason}")
            self._end_warning.is_requeued = self._interruption.is_requeue
            self._end_warning.give(reason, self._leftover_processes())

    def _interrupt(self, ranks: Ranks, outcome: Outcome) -> None:
        """Ends the ranks of an attempt that has to end, after the time that they have to save."""
        if not outcome.is_requeued:
            self._writer.note_ending()
        self._end(ranks, PATIENCE_S, grace_s=self._plan.limits.grace_s)

    def _end(self, ranks: Ranks, patience_s: float, *, grace_s: float) -> None:
        """Sends SIGTERM, then SIGKILL, to the ranks and their children, and keeps their last output.

        Waits at most `patience_s` for a full disk to take that output.
        """
        process.send(self._leftover_processes(), signal.SIGTERM)
        pause_s, deadline = PAUSE_S, time.monotonic() + grace_s
        while (ranks.is_running or self._leftover_processes()) and time.monotonic() < deadline:
            ranks.poll(min(pause_s, max(0.0, deadline - time.monotonic())))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        process.kill(self._leftover_processes)
        deadline = time.monotonic() + patience_s
        while ranks.is_running and time.monotonic() < deadline:
            ranks.poll(POLL_S)
        ranks.abandon()

    def _leftover_processes(self) -> list[LiveProcess]:
        """Processes the job has started, also in containers; helpers of those exit with them."""
        if self._plan.containers.engine or not process.HAS_ORPHANS:
            return process.marked(self._plan.guid)
        return self._child_processes()

    def _child_processes(self) -> list[LiveProcess]:
        """All descendants of this process but the ranks and mount servers, which exit on unmount."""
        serving = process.marked(requirements.mount_mark(self._plan.guid)) if self._plan.mounts else []
        return [each for each in process.descendants(self._rank_pids) if each not in serving]

    def _remove_containers(self) -> None:
        if self._plan.containers.removals:
            from batchai_magics.backends.node import containers  # only loaded for container jobs

            containers.remove(self._plan.containers.removals, self._env)


def _is_over(ranks: Ranks) -> bool:
    """Whether a rank has failed, or only parameter servers are left."""
    has_failed = any(end.exit_code for end in ranks.ends.values())
    return has_failed or _trouble(ranks) != NO_FAULT or ranks.plan.are_workers_done(ranks.ends)


def _trouble(ranks: Ranks) -> Fault:
    abort = ranks.manager.abort if ranks.manager else None
    return Fault(abort, tuple(sorted(ranks.missed)), ranks.unwritable)
