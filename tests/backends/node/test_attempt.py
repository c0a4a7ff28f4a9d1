"""An attempt of a run with real processes on this machine, and a scripted engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.folders.layout import JobLayout
from batchai_magics.backends.node.attempt import AttemptRunner
from batchai_magics.backends.node.child_processes import ChildLauncher
from batchai_magics.backends.node.launcher import Deadline, Report
from batchai_magics.backends.node.outcome import stopped
from batchai_magics.backends.node.ranks import leftovers, termination
from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.restarts import with_attempt
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Limits, LogFile, Output, Plan, PlanNode, Process

UNLIMITED = Limits()
SAVES = "trap 'echo saved; exit 0' TERM USR1; touch started; while :; do sleep 0.02; done"


def plan_of(folder: Path, command: str, limits: Limits = UNLIMITED, exits: str = "exits") -> Plan:
    """A plan of one process on one node, whose folders are there."""
    (folder / exits).mkdir(exist_ok=True)
    log = LogFile(str(folder / "stdout.txt"))
    node = PlanNode("n0", str(folder), str(folder), {})
    plan = Plan(
        *(
            str(folder),
            (node,),
            (Process(0, 0, command),),
            Output(log, log),
            str(folder / exits),
            sys.executable,
        ),
        limits=limits,
        execution_logs=(str(folder / "execution.log"),),
    )
    return with_attempt(plan, 1, folder)


class Here(ChildLauncher):
    """Launches plans on this machine; its processes have the folder as their mark."""

    def __init__(self, folder: Path, signal_pipe: SignalPipe) -> None:
        def find(ranks: Ranks) -> list[leftovers.LiveProcess]:
            """Its own processes alone: those of other tests are below this one, too."""
            ours = leftovers.marked(str(folder))
            return [process for process in termination.processes_of(ranks) if process in ours]

        super().__init__(JobLayout(folder), signal_pipe, dict(os.environ), find=find)

    def close(self) -> None:
        """Kills nothing, for the same reason."""


class Scripted(Report):
    """Asks to stop once a file is there."""

    gives_notice = True

    def __init__(self, plan: Plan, file: Path, request: Outcome) -> None:
        self.deadline, self._file, self._request = Deadline(plan.limits), file, request
        self.is_ending = False

    def stop_request(self, *, is_signalled: bool) -> Outcome | None:
        return self._request if self._file.exists() else None

    def note_ending(self) -> None:
        self.is_ending = True


@pytest.fixture
def signal_pipe() -> Iterator[SignalPipe]:
    """A signal pipe; the handlers of before return afterwards."""
    numbers = (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in numbers}
    yield SignalPipe()
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.slow
def test_no_process_starts_after_a_failed_preparation(tmp_path: Path, signal_pipe: SignalPipe) -> None:
    plan = plan_of(tmp_path, "echo ran")
    preparation = plan_of(tmp_path, "exit 4", exits="preparation-exits")
    report = Scripted(plan, tmp_path / "never", stopped("terminate"))
    outcome = AttemptRunner(plan._replace(preparation=preparation), Here(tmp_path, signal_pipe), report).run()
    assert (outcome.exit_code, outcome.errors[0]["code"]) == (4, "JobPreparationFailed")
    assert b"ran" not in (tmp_path / "stdout.txt").read_bytes()


@pytest.mark.slow
def test_processes_of_a_stopped_run_have_time_to_save(tmp_path: Path, signal_pipe: SignalPipe) -> None:
    plan = plan_of(tmp_path, SAVES)
    report = Scripted(plan, tmp_path / "started", stopped("terminate"))
    outcome = AttemptRunner(plan, Here(tmp_path, signal_pipe), report).run()
    assert outcome.errors[0]["code"] == "JobTerminated"
    assert [(end.rank, end.exit_code) for end in outcome.ranks] == [(0, 0)]
    assert (report.is_ending, (tmp_path / "stdout.txt").read_text()) == (True, "saved\n")


@pytest.mark.slow
def test_processes_are_warned_before_their_run_is_queued_again(
    tmp_path: Path, signal_pipe: SignalPipe
) -> None:
    plan = plan_of(tmp_path, SAVES.replace("exit 0", "exit 75"), Limits(warn_s=20.0))
    report = Scripted(plan, tmp_path / "started", stopped("requeue", "its nodes left the cluster"))
    outcome = AttemptRunner(plan, Here(tmp_path, signal_pipe), report).run()
    assert (outcome.is_requeued, outcome.reason) == (True, "its nodes left the cluster")
    assert not report.is_ending
    assert "warned of the end: its nodes left the cluster" in (tmp_path / "execution.log").read_text()


def test_a_deadline_that_is_shortened_tells_what_shortened_it() -> None:
    deadline = Deadline(Limits(wall_s=100.0, warn_s=10.0))
    assert (deadline.outcome, deadline.is_warning_due) == (None, False)
    deadline.shorten(5.0, stopped("requeue", "preempted"))
    assert (deadline.outcome, deadline.is_warning_due) == (None, True)
    deadline.shorten(0.0, stopped("requeue", "preempted"))
    assert deadline.outcome == stopped("requeue", "preempted")


def test_a_deadline_waits_no_longer_than_until_the_warning() -> None:
    assert Deadline(Limits(wall_s=10.0, warn_s=9.9)).patience_s <= 0.1
    assert Deadline(Limits(wall_s=10.0)).patience_s <= 1.0


@pytest.mark.slow
def test_processes_of_other_tests_are_left_alone(tmp_path: Path, signal_pipe: SignalPipe) -> None:
    with subprocess.Popen(["sleep", "1000"]) as other:
        try:
            plan = plan_of(tmp_path, SAVES)
            report = Scripted(plan, tmp_path / "started", stopped("terminate"))
            AttemptRunner(plan, Here(tmp_path, signal_pipe), report).run()
            assert other.poll() is None
        finally:
            other.kill()
