"""One attempt of a run on its nodes, on every engine: from its mark in the log to the seals of its logs.

An engine supplies a `Launcher`, which starts the processes of a plan on its nodes, and a `Report`, which
delivers requests to stop and records warnings and events.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from batchai_magics.backends.node import requirements, restarts
from batchai_magics.backends.node.launcher import POLL_S, ClusterSetup, Launcher, PlanProcesses, Report
from batchai_magics.backends.node.outcome import preparation_outcome, stop_outcome, write_failure
from batchai_magics.backends.node.ranks.leftovers import LEFTOVER_S, mount_mark
from batchai_magics.backends.node.ranks.rank import die_with_parent
from batchai_magics.backends.node.ranks.signed_records import SignedRecord, seal_record
from batchai_magics.backends.node.restarts import MAX_NOTICE_S, TIME_LIMIT, EndWarning, ExecutionLog
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan
from batchai_magics.records.record_files import WATCH
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, opener, read_json, tail_of

if TYPE_CHECKING:
    from batchai_magics.backends.node.watch_process import WatchProcess

OUTPUT_TIMEOUT_S = 2.0  # how long the last output of a stopped job may take to be written to a full disk
ENDING_S = 0.3  # how long the other processes may take to end on their own after one has failed


class AttemptRunner:
    """Runs one attempt of a job from its first step to its end."""

    def __init__(self, plan: Plan, launcher: Launcher, report: Report) -> None:
        self._plan, self._launcher, self._report = plan, launcher, report
        self._files, self._deadline = launcher.files, report.deadline
        self._log = ExecutionLog(plan.execution_logs)
        self._warning = EndWarning(plan)
        self._next_poll_s = 0.0
        self._record: SignedRecord | None = None  # of the seals, from the start of the first process

    def run(self) -> Outcome:
        """Prepares the nodes, runs the processes, and ends everything that was started."""
        number, reason = self._launcher.number, self._launcher.previous_end
        if number > 1:
            log, names = self._plan.output.stdout, [node.id for node in self._plan.nodes]
            self._log.write(restarts.mark_attempt(log, number, names, reason))
        try:
            outcome = (
                self._interruption(set())
                or self._use_tools()
                or self._set_up()
                or requirements.directories(self._launcher.reachable(self._plan))
                or self._check_nodes()
                or self._prepare()
                or self._run_processes()
            )
        finally:
            self._launcher.close()
            seals = self._launcher.seals(self._plan)
            if self._record or seals:
                with contextlib.closing(self._open_record()) as record:
                    record.write(seals)
        outcome = restarts.with_restart(outcome, self._plan, self._launcher.number, self._warning)
        outcome = outcome.warned("FilesLeftBehind", *self._launcher.left_behind)
        self._log.write(outcome.sentence)
        return outcome

    def _open_record(self) -> SignedRecord:
        """The record of the seals, blank until the end: logs of a killed attempt count as incomplete."""
        self._record = self._record or seal_record(self._files.seals)
        return self._record

    def _use_tools(self) -> Outcome | None:
        """Pulls the image and mounts volumes; the outcome if any of it fails."""
        files, password = self._files, self._launcher.registry_password
        tools = requirements.tools(self._plan, sign_in=files.registry, mounts=files.mounts, password=password)
        with contextlib.closing(tools):
            for tool in tools:
                with open(files.tool_log, "wb", opener=opener) as stream:
                    child = subprocess.Popen(
                        tool.argv,
                        env={**os.environ, **tool.env},
                        stdin=subprocess.DEVNULL,
                        stdout=stream,
                        stderr=stream,
                        preexec_fn=partial(die_with_parent, signal.SIGKILL),
                    )
                while child.poll() is None:
                    if interrupted := self._wait():
                        self._launcher.kill_marked(mount_mark(self._plan.guid))
                        return interrupted
                output = tail_of(files.tool_log)
                for line in output.splitlines():
                    self._log.write(line)
                if outcome := tool.outcome(child.wait(), output):
                    return outcome
        return None

    def _wait(self) -> Outcome | None:
        """Waits for a signal, at most until the next poll; the outcome if the attempt has to end."""
        pipe = self._launcher.signal_pipe
        select.select([pipe], [], [], self._deadline.patience_s)
        return self._interruption(pipe.read())

    def _set_up(self) -> Outcome | None:
        """Runs the cluster's setup task on the nodes that have not been set up."""
        setup = self._launcher.setup
        while setup and (missing := setup.missing()):
            with setup.claimed(missing) as names:  # none while another job sets them up
                outcome = self._run_setup(setup, names) if names else self._wait()
            if outcome:
                return outcome
        return None

    def _run_setup(self, setup: ClusterSetup, names: Sequence[str]) -> Outcome | None:
        plan = setup.plan_of(names)
        self._warn(plan.notes)
        self._log.write(f"setup task of the cluster started on {', '.join(names)}")
        with self._started(plan, setup.env, are_independent=True) as processes:
            interrupted = self._follow(processes, setup.renew)
            self._end(processes, OUTPUT_TIMEOUT_S)
            return interrupted or setup.note(plan, processes.ends)

    def _check_nodes(self) -> Outcome | None:
        """Checks the nodes, if the job asks for it, and leaves out bad ones, if it may."""
        files = self._files
        if not files.preflight.exists():
            return None
        from batchai_magics.backends.node.preflight import Preflight  # few jobs ask for it

        files.preflight_exits.mkdir(mode=0o700, exist_ok=True)
        preflight = Preflight(self._plan, self._launcher.address, files.preflight_exits)
        with contextlib.closing(preflight) as check:
            env = {**self._launcher.env, **check.env}
            with self._started(check.plan, env, are_independent=True) as processes:
                interrupted = check.follow(processes, self._interruption)
                self._end(processes, OUTPUT_TIMEOUT_S)
            if interrupted:
                return interrupted
            conclusion = check.conclude(read_json(files.preflight, MAX_PLAN_BYTES), files.records)
            self._log.write(check.sentence)
        if conclusion.smaller:
            self._plan = self._launcher.smaller(Plan.from_json(conclusion.smaller), conclusion.nodes)
        return conclusion.outcome

    def _prepare(self) -> Outcome | None:
        """Runs the job's preparation on each node."""
        plan = self._plan.preparation
        if plan is None:
            return None
        self._log.write("job preparation started")
        with self._started(plan) as processes:
            if interrupted := self._follow(processes):
                self._interrupt(processes, interrupted)
                return interrupted
            if problem := processes.fault.unwritable:
                return write_failure(problem, plan)
            codes = [end.exit_code or 0 for end in sorted(processes.ends, key=lambda end: end.rank)]
            return preparation_outcome([*codes, *[1] * (len(plan.processes) - len(codes))])

    def _run_processes(self) -> Outcome:
        plan, watch_notes = self._plan, list[str]()
        self._warn((*plan.notes, *self._report.notes(plan.limits)))
        self._log.write(f"starting {len(plan.processes)} process(es) on {len(plan.nodes)} node(s)")
        with self._started(plan) as processes:
            with self._watched(watch_notes) as watcher:
                interrupted = self._follow(processes, partial(self._check, watcher) if watcher else None)
            if interrupted:
                self._interrupt(processes, interrupted)
            else:
                self._end(processes, float("inf"))
            outcome = interrupted.with_ranks(processes.ends, plan) if interrupted else processes.outcome()
        return outcome.with_watch_notes(watch_notes)

    @contextlib.contextmanager
    def _watched(self, watch_notes: list[str]) -> Iterator[WatchProcess | None]:
        """Runs the program that watches the run, if it needs one; adds the notes about its failures."""
        files = self._files
        is_needed = files.stop_if.exists() or (files.records / WATCH).exists()
        if not (is_needed and (program := self._report.watch_program())):
            yield None
            return
        from batchai_magics.backends.node.watch_process import WatchProcess  # few jobs need it

        watcher = WatchProcess(program, files, self._launcher.env, lost=self._note_unwatched)
        try:
            yield watcher
        finally:
            watch_notes += watcher.close()

    def _check(self, watcher: WatchProcess) -> None:
        """Ends the attempt if the watch program requests it: the deadline is now."""
        if (reason := watcher.check()) and self._deadline.left_s:
            self._report.note_stop(reason)
            if not self._deadline.end.is_requeued:  # else its processes were warned; the next attempt ends
                self._deadline.shorten(0.0, stop_outcome(reason))

    @contextlib.contextmanager
    def _started(
        self, plan: Plan, env: Mapping[str, str] | None = None, *, are_independent: bool = False
    ) -> Iterator[PlanProcesses]:
        """The running processes of a plan; all have ended when the context exits."""
        env = self._launcher.env if env is None else env
        processes = self._launcher.processes(plan, env, are_independent=are_independent)
        self._open_record()
        with contextlib.closing(processes):
            processes.start()
            yield processes

    def _follow(self, processes: PlanProcesses, on_poll: Callable[[], None] | None = None) -> Outcome | None:
        """Waits until the processes have ended or one has failed; returns the outcome of an interruption."""
        while processes.is_running and not processes.is_over:
            signals = processes.poll(self._deadline.patience_s)
            if on_poll:
                on_poll()
            if interrupted := self._interruption(signals):
                return interrupted
            self._warn_of_end(processes, signals)
        signals = poll_for(processes, ENDING_S, lambda: processes.is_running)
        if signal.SIGTERM in signals or self._report.was_ended(processes):
            return self._interruption({signal.SIGTERM})
        return None

    def _interruption(self, signals: set[int]) -> Outcome | None:
        """The outcome if the attempt has to end now; reads requests on SIGTERM and once per `POLL_S`."""
        now_s, is_signalled = time.monotonic(), signal.SIGTERM in signals
        if is_signalled or now_s >= self._next_poll_s:
            self._next_poll_s = now_s + POLL_S
            request = self._report.stop_request(is_signalled=is_signalled)
            if request and not request.is_requeued:
                return request
            if request and not self._deadline.end.is_requeued:
                notice_s = min(self._warning.notice_s, MAX_NOTICE_S) if self._report.gives_notice else 0.0
                self._deadline.shorten(notice_s, request)
        return self._deadline.outcome

    def _warn_of_end(self, processes: PlanProcesses, signals: set[int]) -> None:
        """Warns the processes, once, that the attempt is about to end, if the job asks for a warning."""
        is_due = self._deadline.is_warning_due
        if self._warning.reason or not self._warning.notice_s or not (is_due or signal.SIGUSR1 in signals):
            return
        end = self._deadline.end
        reason = (end.reason or TIME_LIMIT) if is_due else f"{self._report.engine} announced its end"
        self._log.write(f"the processes are warned of the end: {reason}")
        self._warning.is_requeued = end.is_requeued
        processes.warn(self._warning, reason)

    def _interrupt(self, processes: PlanProcesses, outcome: Outcome) -> None:
        """Ends the processes of an interrupted attempt; they have the job's grace period to save."""
        if not outcome.is_requeued:
            self._report.note_ending()
        self._end(processes, OUTPUT_TIMEOUT_S, grace_s=self._plan.limits.grace_s)

    def _end(self, processes: PlanProcesses, patience_s: float, *, grace_s: float = LEFTOVER_S) -> None:
        processes.end(patience_s=patience_s, grace_s=grace_s, is_hurried=self._report.is_hurried)

    def _note_unwatched(self, text: str) -> None:
        self._warn([text])
        self._report.warn(text)

    def _warn(self, notes: Iterable[str]) -> None:
        for note in notes:
            self._log.write(f"warning: {note}")


def poll_for(processes: PlanProcesses, span_s: float, is_wanted: Callable[[], bool]) -> set[int]:
    """Polls processes for up to `span_s`, or until SIGTERM; returns the signals received."""
    deadline_s, signals = time.monotonic() + span_s, set[int]()
    while is_wanted() and signal.SIGTERM not in signals and (left_s := deadline_s - time.monotonic()) > 0:
        signals |= processes.poll(left_s)
    return signals
