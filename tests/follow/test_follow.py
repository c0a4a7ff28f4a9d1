"""The loop that waits: it tells everything, in order, and ends by itself."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from batchai_magics.backends.base import Backend
from batchai_magics.follow import (
    Follower,
    LogBytes,
    MetricsAdded,
    NodesChanged,
    QueueChanged,
    StateChanged,
)
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.metrics.log_text import step_lines
from tests.world import World, until, world

__all__ = ["world"]

pytestmark = pytest.mark.slow

HOLDS = "import os, time\nwhile not os.path.exists('{go}'): time.sleep(0.01)"
STEP = "images/sec: 10.0 +/- 0.1 (jitter = 0.2)\\t2.500"


def stdout(seen) -> bytes:
    return b"".join(e.chunk.data for e in seen if isinstance(e, LogBytes) and e.file.path == "stdout.txt")


def test_events_tell_the_whole_story_and_end_with_the_final_state(world: World) -> None:
    job = world.submit(
        "j", f"import time\nprint(0)\nprint('1\\t{STEP}', flush=True)\ntime.sleep(0.2)\nprint(2)"
    )
    seen = list(job.events())
    states = [e.job.state for e in seen if isinstance(e, StateChanged)]
    assert states[-1] is ExecutionState.SUCCEEDED
    assert states.count(ExecutionState.SUCCEEDED) == 1
    assert stdout(seen) == stdout(job.events()) == job.log().encode()
    assert job.log().startswith("0\n1\t")
    records = [r for e in seen if isinstance(e, MetricsAdded) for r in e.records]
    assert [(r.step, r.rank, r.loss) for r in step_lines(records)] == [(1, 0, 2.5)]
    assert isinstance(seen[-1], StateChanged)


def test_events_have_the_jobs_own_nodes_not_its_clusters(world: World, tmp_path: Path) -> None:
    other = world.submit("other --nodes 1", "import time; time.sleep(1000)")
    until(lambda: other.state is ExecutionState.RUNNING)
    go = tmp_path / "go"
    seen = []
    for event in world.submit("j --nodes 1", HOLDS.format(go=go)).events():
        if isinstance(event, NodesChanged):
            seen.append(event)
            if (event.counts.running_node_count, event.cluster.running_node_count) == (1, 2):
                go.touch()  # a cluster's nodes may be told a look before the job that begins on them
    assert {e.counts.total for e in seen} == {0, 1}
    assert (seen[-1].counts.total, seen[-1].cluster.idle_node_count) == (0, 1)  # it has given them back


def test_a_queued_job_is_told_of_the_jobs_before_it_in_other_experiments(world: World) -> None:
    first = world.submit("first --nodes 2", "import time; time.sleep(1000)")
    until(lambda: first.state is ExecutionState.RUNNING)
    theirs = world.submit("theirs --nodes 1 --experiment other")
    world.submit("second --nodes 1")
    last = world.submit("last --nodes 1")
    before = [theirs.id, last.id.parent.child(Kind.JOB, "second")]
    shown = last.show()
    assert (
        list(world.backend.jobs_ahead_of(shown))
        == list(Backend.jobs_ahead_of(world.backend, shown))
        == before
    )
    (seen,) = [e for e in Follower(world.backend, last.id).poll() if isinstance(e, QueueChanged)]
    assert seen.before == ("other/theirs", "second")
    theirs.cancel()


def test_stopping_ends_the_loop_and_not_the_job(world: World) -> None:
    job = world.submit("j", "import time; time.sleep(1000)")
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    list(job.events(stop))
    assert not job.is_done
