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


def run_order(place: Place, names: list[str], **fields: object) -> list[str]:
    """The order in which jobs ran that were created while another one had both nodes."""
    first = place.start(HOLD, "first", nodeCount=2)
    jobs = [
        place.start(f"echo {name} >> {MOUNTED}/order", name, nodeCount=2, **fields.get(name, {}))
        for name in names
    ]
    place.backend.terminate(first)
    for job in jobs:
        place.wait(job)
    return place.stored("order").split()


@pytest.mark.needs("own_nodes")  # else the others start at once
def test_a_higher_priority_goes_first_and_of_one_priority_who_came_first(place: Place) -> None:
    names = ["low", "b", "a", "high"]
    fields = {name: {"schedulingPriority": name} for name in ("low", "high")}
    assert run_order(place, names, **fields) == ["high", "b", "a", "low"]


def test_two_jobs_share_a_cluster(place: Place) -> None:
    jobs = []
    for name in "ab":  # the first has the first node
        jobs.append(place.start(HOLD, name))
        place.is_up(jobs[-1])
    nodes = place.backend.nodes(place.cluster)
    assert [node.job for node in nodes] == jobs
    assert place.backend.nodes(jobs[1]) == [nodes[1]]


@pytest.mark.sample
@pytest.mark.needs("own_nodes")  # else the others start at once
def test_a_queued_job_knows_who_is_before_it_and_can_be_terminated(place: Place) -> None:
    place.is_up(place.start(HOLD, "first", nodeCount=2))
    low = place.start(HOLD, "low", nodeCount=2, schedulingPriority="low")
    second = place.start(HOLD, "second", nodeCount=2)
    assert list(place.backend.jobs_ahead_of(place.backend.show(second))) == []
    assert list(place.backend.jobs_ahead_of(place.backend.show(low))) == [second]
    place.backend.terminate(second)
    job = place.backend.show(second)
    assert (job.state, job.execution.started) == (ExecutionState.FAILED, job.execution.ended)


@pytest.mark.sample
@pytest.mark.needs("own_nodes")  # else it starts at once
def test_a_queued_job_says_why_in_every_output(place: Place) -> None:
    place.is_up(place.start(HOLD, "first", nodeCount=2))
    waiting = Job(place.backend, place.start(name="waiting", nodeCount=2))
    reason = until(lambda: summary_of(waiting).get("waiting"))
    assert "nodes" in reason
    assert "nodes" in short_overview(waiting).details["waits"]
    (listed,) = with_wait_reasons(place.backend, [waiting.show()])
    assert "nodes" in listed.waiting


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
    job = place.start("echo ran", nodeCount=2)
    assert place.backend.show(job).state is ExecutionState.QUEUED
    place.scale(place.cluster, manual(2))
    place.wait(job)
    assert place.log(job) == b"ran\n"


@pytest.mark.needs("strict_order")  # a scheduler that fills gaps has an order of its own
def test_a_job_that_does_not_fit_blocks_the_ones_behind_it(place: Place) -> None:
    one = place.start(HOLD, "one")
    big = place.start(HOLD, "big", nodeCount=2)
    small = place.start(name="small")
    place.has(place.cluster, running=1, idle=1)
    assert [place.backend.show(job).state for job in (big, small)] == [ExecutionState.QUEUED] * 2
    assert not place.backend.nodes(small)
    place.backend.terminate(one)
    until(lambda: len(place.backend.nodes(big)) == 2)
    assert place.backend.show(small).state is ExecutionState.QUEUED
