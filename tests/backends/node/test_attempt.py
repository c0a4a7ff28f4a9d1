"""An attempt of a run on the nodes: what ends it while something else is about to."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from batchai_magics.backends.node.attempt import AttemptRunner
from batchai_magics.backends.node.child_processes import ChildLauncher
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.launcher import Deadline, Report
from batchai_magics.backends.node.outcome import stop_outcome
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.watch_process import WatchProgram
from batchai_magics.launch.outcome import Outcome, RunAttempt
from batchai_magics.launch.plan import Containers, Image, Limits, LogPaths, Output, Plan, PlanNode, Process

pytestmark = pytest.mark.slow
REASON = "The stop condition was met"
# It saves once the condition was noted, within the time that its notice gives it.
TRAINS = """
cd {folder}
trap ': > warned' USR1
: > up
until [ -e noted ]; do sleep 0.05; done
sleep 0.5
: > saved
"""
WATCHES = """
import json, os, time
from batchai_magics.backends.node.watch_process import end_signal
over = end_signal()
os.chdir({folder!r})
while not os.path.exists("warned"): time.sleep(0.05)
print("stop:", json.dumps({reason!r}), flush=True)
over.wait()
"""


class RequeueReport(Report):
    """Asks that a run be queued again once it is up."""

    gives_notice = True

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self.deadline = folder, Deadline(limits)

    def stop_request(self, *, is_signalled: bool) -> Outcome | None:
        return stop_outcome("requeue", "its node leaves") if (self.folder / "up").exists() else None

    def watch_program(self) -> WatchProgram:
        words = [sys.executable, "-c", WATCHES.format(folder=str(self.folder), reason=REASON)]
        return WatchProgram(words, self.folder / "watch.log", [RunAttempt((), 0.0)])

    def note_stop(self, reason: str) -> None:
        (self.folder / "noted").write_text(reason)


class PasswordLauncher(ChildLauncher):
    """Has the password of the registry of an image."""

    registry_password = "hush"


def run_attempt(folder: Path, containers: Containers | None = None) -> None:
    """Runs an attempt, at whose end everything ends that this process has started."""
    files = JobLayout(folder)
    for made in (files.records, folder / "exits"):
        made.mkdir()
    files.stop_if.write_text("{}")
    node = PlanNode("node", str(folder), str(folder), {"BATCHAI_STOPPING_FILE": str(folder / "stopping")})
    limits = Limits(warn_s=60.0)
    plan = Plan(
        guid=uuid.uuid4().hex,
        nodes=(node,),
        processes=(Process(0, 0, TRAINS.format(folder=folder)),),
        output=Output(LogPaths(str(folder / "stdout")), LogPaths(str(folder / "stderr"))),
        exits=str(folder / "exits"),
        python=sys.executable,
        limits=limits,
        containers=containers or Containers(),
    )
    launcher = PasswordLauncher(files, SignalPipe(), dict(os.environ))
    AttemptRunner(plan, launcher, RequeueReport(folder, limits)).run()


def pull(folder: Path) -> None:
    """Runs an attempt whose image an engine is to pull."""
    run_attempt(folder, Containers(Image("tf", username="me"), (str(folder / "engine"),)))


def run_alone(function: Callable[[Path], None], folder: Path) -> None:
    """Runs a function of this module in a process of its own."""
    name = function.__name__
    code = f"from pathlib import Path; from {__name__} import {name}; {name}(Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=True)


def test_an_image_is_pulled_with_the_password_of_its_registry(tmp_path):
    (tmp_path / "engine").write_text(f'#!/bin/sh\ncp "$REGISTRY_AUTH_FILE" {tmp_path}/signed-in; exit 1\n')
    (tmp_path / "engine").chmod(0o700)
    run_alone(pull, tmp_path)
    (entry,) = json.loads((tmp_path / "signed-in").read_text())["auths"].values()
    assert base64.b64decode(entry["auth"]) == b"me:hush"


def test_a_condition_that_is_met_in_the_notice_before_a_requeue_leaves_processes_time_to_save(tmp_path):
    run_alone(run_attempt, tmp_path)
    assert (tmp_path / "noted").read_text() == REASON
    assert (tmp_path / "saved").exists()
