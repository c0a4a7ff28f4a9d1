"""Attempts: a run continues as the same run after its time limit or a preemption, with its checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.models.states import ExecutionState
from tests.contract.place import HOLD, Place
from tests.contract.resumable import RESUMED, said, started
from tests.patience import PATIENCE_S
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("engine"), pytest.mark.needs("restarts")]
SECOND_STEP_WITHIN = "PT12S"  # an attempt that waits at its second step has reached it, under any load


CHANGES_UPLOAD = """
import os, time
from pathlib import Path

print(Path("state.txt").read_text(), flush=True)
Path("state.txt").write_text("changed")
time.sleep(1000 if os.environ["BATCHAI_ATTEMPT"] == "1" else 0)
"""


@pytest.mark.decided_by("nodes")
@pytest.mark.needs("early_restart")
def test_a_run_that_reaches_its_time_limit_continues_where_it_stopped_with_its_uploads(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state.txt").write_text("sent")
    monkeypatch.chdir(tmp_path)
    changes = place.submit("j --upload state.txt --requeue 1 --max-time 12s --grace 1s", CHANGES_UPLOAD)
    limit = {"constraints": {"maxWallClockTime": SECOND_STEP_WITHIN}, "batchaiMaxRestarts": 1}
    job = place.wait(started(place, **limit))
    assert (job.state, said(place, job.id)) == (ExecutionState.SUCCEEDED, RESUMED)
    assert [each.reason for each in job.attempts] == ["it reached its time limit", ""]
    steps = [line for line in place.log(job.id).decode().splitlines() if line.startswith("{")]
    assert [f'"step": {number}' in line for number, line in enumerate(steps, 1)] == [True] * 4
    lines = changes.wait(PATIENCE_S).log().splitlines()
    assert [line for line in lines if not line.startswith("[batchai]")] == ["sent", "changed"]


@pytest.mark.decided_by("nodes")
@pytest.mark.needs("early_restart")
def test_a_run_that_stops_early_because_it_is_warned_continues(place: Place) -> None:
    fields = {"batchaiMaxRestarts": 1, "batchaiSignalBefore": "PT9M59S"}
    id = started(place, "polite", constraints={"maxWallClockTime": "PT10M"}, **fields)
    job = place.wait(id)
    assert said(place, job.id) == [RESUMED[0], "stops", *RESUMED[1:]]
    assert (job.state, len(job.attempts)) == (ExecutionState.SUCCEEDED, 2)


@pytest.mark.sample
@pytest.mark.needs("early_restart")
def test_a_run_has_so_many_restarts_as_it_asks_for(place: Place) -> None:
    limit = {"constraints": {"maxWallClockTime": "PT1S"}, "batchaiMaxRestarts": 1}
    job = place.run("exec sleep 1000", **limit)
    assert [error.code for error in job.execution.errors] == ["JobMaxWallClockTimeReached"]
    assert [each.number for each in job.attempts] == [1, 2]


@pytest.mark.decided_by("nodes")
def test_a_failing_run_is_not_restarted(place: Place) -> None:
    job = place.run("exit 3", batchaiMaxRestarts=5)
    assert (job.execution.exit_code, job.attempts) == (3, ())


@pytest.mark.needs("preemption")
def test_a_preempted_run_is_warned_and_continues(place: Place) -> None:
    cluster = place.make_cluster(vmPriority="lowpriority")
    id = started(place, "polite", batchaiSignalBefore="PT1M", **place.on(cluster))
    until(lambda: place.log(id).count(b'"step": 2'))
    (node,) = place.backend.nodes(cluster.id)
    place.backend.preemption.preempt(cluster.id, node.id)
    job = place.wait(id)
    assert said(place, id) == [RESUMED[0], "stops", *RESUMED[1:]]
    assert [each.reason for each in job.attempts] == [f"its node {node.id} was preempted", ""]


@pytest.mark.needs("preemption")
def test_a_run_that_is_preempted_too_often_fails(place: Place) -> None:
    cluster = place.make_cluster(vmPriority="lowpriority")
    id = place.start(HOLD, batchaiMaxRestarts=0, **place.on(cluster))
    place.is_up(id)
    (node,) = place.backend.nodes(cluster.id)
    place.backend.preemption.preempt(cluster.id, node.id)
    assert [error.code for error in place.wait(id).execution.errors] == ["JobPreempted"]
