"""Who gets nodes when: whole gangs, priority first, then first come, first served."""

from __future__ import annotations

import pytest

from batchai_magics.commands.output.job_summary import summary_of
from batchai_magics.follow.wait_reason import with_wait_reasons
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_overview import short_overview
from batchai_magics.models.states import ExecutionState
from tests.contract.place import HOLD, MOUNTED, Place, manual
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("engine")]


@pytest.mark.needs("own_nodes")  # else the others start at once
def test_a_higher_priority_goes_first_and_of_one_priority_who_came_first(place: Place) -> None:
    place.scale(place.cluster, manual(1))
    place.is_up(first := place.start(HOLD, "first"))
    names = {"low": "low", "b": "normal", "a": "normal", "high": "high"}
    jobs = [
        place.start(f"echo {name} >> {MOUNTED}/order", name, schedulingPriority=priority)
        for name, priority in names.items()
    ]
    place.backend.terminate(first)
    for job in jobs:
        place.wait(job)
    assert place.stored("order").split() == ["high", "b", "a", "low"]


@pytest.mark.sample
@pytest.mark.needs("own_nodes")  # else the others start at once
def test_a_queued_job_says_why_in_every_output_knows_who_is_before_it_and_can_be_terminated(
    place: Place,
) -> None:
    place.is_up(place.start(HOLD, "first", nodeCount=2))
    low = place.start(HOLD, "low", nodeCount=2, schedulingPriority="low")
    second = place.start(HOLD, "second", nodeCount=2)
    assert list(place.backend.jobs_ahead_of(place.backend.show(second))) == []
    assert list(place.backend.jobs_ahead_of(place.backend.show(low))) == [second]
    waiting = Job(place.backend, second)
    reason = until(lambda: summary_of(waiting).get("waiting"))
    assert "nodes" in reason
    assert "nodes" in short_overview(waiting).details["waits"]
    (listed,) = with_wait_reasons(place.backend, [waiting.show()])
    assert "nodes" in listed.waiting
    place.backend.terminate(second)
    job = place.backend.show(second)
    assert (job.state, job.execution.started) == (ExecutionState.FAILED, job.execution.ended)


@pytest.mark.decided_by("service")
@pytest.mark.needs("own_nodes")  # else the other one starts at once
def test_a_job_is_shown_with_its_own_nodes_and_none_while_it_waits(place: Place) -> None:
    first = place.start(HOLD, "first")
    place.is_up(first)
    waiting = Job(place.backend, place.start(name="waiting", nodeCount=2))
    until(lambda: summary_of(waiting).get("waiting"))
    assert short_overview(Job(place.backend, first)).details["nodes"] == "1 running"
    assert "nodes" not in short_overview(waiting).details


@pytest.mark.needs("own_nodes")  # else the others start at once
def test_jobs_of_a_deleted_cluster_end_with_the_reason(place: Place) -> None:
    running, waiting = place.start(HOLD, "running", nodeCount=2), place.start(name="waiting")
    place.is_up(running)
    place.backend.delete(place.cluster)
    for job in (waiting, running):
        assert "was deleted" in place.wait(job).execution.errors[0].message


@pytest.mark.sample
@pytest.mark.needs("empty_clusters")
def test_an_empty_cluster_keeps_jobs_until_it_grows(place: Place) -> None:
    place.scale(place.cluster, manual(0))
    job = place.start("echo ran")
    assert place.backend.show(job).state is ExecutionState.QUEUED
    place.scale(place.cluster, manual(1))
    place.wait(job)
    assert place.log(job) == b"ran\n"
