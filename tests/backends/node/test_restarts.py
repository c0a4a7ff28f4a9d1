"""How an attempt begins, which ends begin another one, and whom the warning before an end reaches."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from batchai_magics.backends.node import restarts
from batchai_magics.backends.node.launcher import Deadline
from batchai_magics.backends.node.outcome import REQUEUE, failed_with, stop_outcome
from batchai_magics.backends.node.ranks import leftovers
from batchai_magics.backends.node.ranks.output_streams import TIME, LogWriter
from batchai_magics.backends.node.restarts import (
    RESIZED,
    SEEN,
    EndWarning,
    with_attempt,
    with_attempt_exits,
    with_restart,
)
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Limits, LogPaths, Plan
from tests.backends.node.test_outcome import plan as plan_of

TIME_UP, LOST = failed_with("JobMaxWallClockTimeReached", "late"), failed_with("JobNodeLost", "gone")
FAILED = failed_with("JobFailed", "it failed")
PREEMPTED = stop_outcome(REQUEUE, "its node n1 was preempted")


def with_restarts(count: int | None, root: Path = Path("/run")) -> Plan:
    return with_attempt(plan_of("rank")._replace(limits=Limits(max_restarts=count, warn_s=5.0)), 1, root)


@pytest.mark.parametrize("before", ["", "step 1\n", "step 1\nste"])
def test_an_attempt_begins_with_a_line_of_its_own(tmp_path, before):
    log = tmp_path / "stdout.txt"
    log.write_text(before)
    sentence = restarts.mark_attempt(LogPaths(str(log)), 2, ["node1", "node2"], "its node was lost")
    assert log.read_text().splitlines() == [*before.splitlines(), f"[batchai] {sentence}"]
    assert sentence == "attempt 2 begins on node1, node2: its node was lost"


def test_the_line_of_an_attempt_has_the_time_at_which_it_was_written(tmp_path):
    log = LogPaths(str(tmp_path / "stdout.txt"), times=str(tmp_path / "stdout.times"))
    writer = LogWriter(log)
    writer.write(0, b"Epoch 1: loss=0.5\n")
    begin = time.time()
    restarts.mark_attempt(log, 2, ["node1"], "its node was lost")
    (_, first), (start, written) = TIME.iter_unpack(Path(log.times).read_bytes())
    assert first <= begin <= written <= time.time()
    assert start == len(b"Epoch 1: loss=0.5\n")
    writer.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_loses_the_line_of_an_attempt_alone():
    sentence = restarts.mark_attempt(LogPaths("/dev/full"), 2, ["node1"], "its node was lost")
    assert sentence == "attempt 2 begins on node1: its node was lost"


@pytest.mark.parametrize(("number", "exits"), [(1, "/exits"), (2, "/exits-2")])
def test_each_attempt_has_its_number_and_a_folder_of_its_own_for_exits(number, exits):
    plan = with_attempt_exits(plan_of("rank")._replace(exits="/exits"), number, Path("/run"))
    env = plan.nodes[0].env
    assert (plan.exits, env["BATCHAI_ATTEMPT"]) == (exits, str(number))
    assert env["BATCHAI_STOPPING_FILE"] == f"/run/stopping-{number}"


def test_a_deadline_that_is_shortened_tells_what_shortened_it():
    deadline = Deadline(Limits(wall_s=100.0, warn_s=10.0))
    assert (deadline.outcome, deadline.is_warning_due) == (None, False)
    for left_s in (5.0, 1000.0):
        deadline.shorten(left_s, PREEMPTED)
        assert (deadline.outcome, deadline.is_warning_due) == (None, True)
    deadline.shorten(0.0, PREEMPTED)
    assert deadline.outcome == PREEMPTED


def test_a_deadline_is_not_waited_for_longer_than_until_its_warning_or_the_next_look():
    assert Deadline(Limits(wall_s=10.0, warn_s=9.9)).patience_s <= 0.1
    assert Deadline(Limits(wall_s=0.1)).patience_s <= 0.1
    assert Deadline(Limits(wall_s=10.0)).patience_s <= 1.0


@pytest.mark.parametrize(
    ("outcome", "limit", "number", "reason"),
    [
        (TIME_UP, 1, 1, "it reached its time limit"),
        (TIME_UP, 1, 2, None),
        (TIME_UP, None, 1, None),
        (LOST, 2, 2, "a node of it was lost"),
        (FAILED, 2, 1, None),
        (Outcome(0), 2, 1, None),
        (Outcome(75), 2, 1, None),
        (PREEMPTED, None, 9, PREEMPTED.reason),
        (PREEMPTED, 1, 1, PREEMPTED.reason),
    ],
)
def test_an_end_begins_another_attempt(outcome, limit, number, reason):
    end = with_restart(outcome, with_restarts(limit), number)
    assert (end.reason, end.is_requeued) == ((reason, True) if reason else ("", False))


@pytest.mark.parametrize(("code", "reason"), [(137, "a container of it was killed"), (139, "")])
def test_run_continues_if_one_of_its_containers_is_killed(code, reason):
    plan = with_restarts(1)
    plan = plan._replace(containers=plan.containers._replace(removals=(("docker", "rm", "c"),)))
    assert with_restart(FAILED._replace(exit_code=code), plan, 1).reason == reason


def test_a_run_whose_nodes_leave_its_cluster_always_continues():
    assert with_restart(stop_outcome(REQUEUE, RESIZED), with_restarts(0), 5).is_requeued


@pytest.mark.parametrize(
    ("code", "is_seen", "is_restarted"), [(0, True, 1), (0, False, 0), (75, False, 1), (3, True, 0)]
)
def test_a_warned_run_that_ends_early_continues_if_it_is_not_done(tmp_path, code, is_seen, is_restarted):
    warning = EndWarning(plan := with_restarts(1, tmp_path))
    warning.give("it ends", ())
    (tmp_path / f"stopping-1{SEEN}").touch() if is_seen else None
    outcome = Outcome(code) if code == 0 else FAILED._replace(exit_code=code)
    end = with_restart(outcome, plan, 1, warning)
    assert (end.is_requeued, end.reason) == (bool(is_restarted), "it ends" * is_restarted)


@pytest.mark.parametrize(
    ("limit", "code"), [(0, "JobMaxWallClockTimeReached"), (None, "")], ids=["used up", "none wanted"]
)
def test_a_run_that_stops_early_for_the_last_time_is_not_done(tmp_path, limit, code):
    warning = EndWarning(plan := with_restarts(limit, tmp_path))
    warning.give(restarts.TIME_LIMIT, ())
    (tmp_path / f"stopping-1{SEEN}").touch()
    assert "".join(error["code"] for error in with_restart(Outcome(0), plan, 1, warning).errors) == code


def started(script: str) -> subprocess.Popen[bytes]:
    """A Python process."""
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="which signals a process handles is read from /proc")
def test_only_processes_that_handle_the_signal_receive_it():
    handle = "import os, signal; signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b'warned\\n'))"
    with (
        started(f"{handle}\nprint('up', flush=True); input()") as one,
        started("print('up', flush=True); input()") as two,
    ):
        assert (one.stdout.readline(), two.stdout.readline()) == (b"up\n", b"up\n")
        restarts.send_sigusr1(map(leftovers.find, (one.pid, two.pid)))
        assert one.stdout.readline() == b"warned\n"
        for child in (one, two):
            child.communicate(b"\n")
    assert (one.returncode, two.returncode) == (0, 0)


@pytest.mark.slow
def test_nothing_stops_outside_a_job(monkeypatch):
    monkeypatch.delenv("BATCHAI_STOPPING_FILE", raising=False)
    with started("from batchai_magics import stopping; print(stopping())") as child:
        assert child.stdout.read() == b"False\n"
