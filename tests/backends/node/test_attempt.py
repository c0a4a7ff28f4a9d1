"""An attempt of a run on the nodes: what ends it while something else is about to."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

import pytest

from batchai_magics.backends.node.attempt import AttemptRunner
from batchai_magics.backends.node.child_processes import ChildLauncher
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.launcher import Deadline, Report
from batchai_magics.backends.node.outcome import stopped
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.watch_process import WatchProgram
from batchai_magics.launch.outcome import Outcome, RunAttempt
from batchai_magics.launch.plan import Limits, LogPaths, Output, Plan, PlanNode, Process

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
        return stopped("requeue", "its node leaves") if (self.folder / "up").exists() else None

    def watch_program(self) -> WatchProgram:
        words = [sys.executable, "-c", WATCHES.format(folder=str(self.folder), reason=REASON)]
        return WatchProgram(words, self.folder / "watch.log", [RunAttempt((), 0.0)])

    def note_stop(self, reason: str) -> None:
        (self.folder / "noted").write_text(reason)


def test_a_condition_that_is_met_in_the_notice_before_a_requeue_leaves_processes_time_to_save(
    tmp_path: Path,
) -> None:
    files = JobLayout(tmp_path)
    for folder in (files.records, tmp_path / "exits"):
        folder.mkdir()
    files.stop_if.write_text("{}")
    node = PlanNode(
        "node", str(tmp_path), str(tmp_path), {"BATCHAI_STOPPING_FILE": str(tmp_path / "stopping")}
    )
    limits = Limits(warn_s=60.0)
    plan = Plan(
        guid=uuid.uuid4().hex,
        nodes=(node,),
        processes=(Process(0, 0, TRAINS.format(folder=tmp_path)),),
        output=Output(LogPaths(str(tmp_path / "stdout")), LogPaths(str(tmp_path / "stderr"))),
        exits=str(tmp_path / "exits"),
        python=sys.executable,
        limits=limits,
    )
    launcher = ChildLauncher(files, SignalPipe(), dict(os.environ))
    AttemptRunner(plan, launcher, RequeueReport(tmp_path, limits)).run()
    assert (tmp_path / "noted").read_text() == REASON
    assert (tmp_path / "saved").exists()
