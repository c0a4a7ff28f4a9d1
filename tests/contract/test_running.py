"""What is known of a job's processes while they run, and what their numbers can end."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import NotFoundError
from tests.contract.place import HOLD, Place
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("engine")]


@pytest.mark.decided_by("nodes")
@pytest.mark.sample
@pytest.mark.needs("telemetry")
def test_samples_of_each_rank_are_told_once_and_in_order(place: Place) -> None:
    id = place.start_ranks(HOLD, count=4)
    until(lambda: len(place.backend.telemetry.read(id).samples) > 2)
    until(lambda: ranks_in(place.backend.telemetry.read(id)) == {0, 1, 2, 3})
    place.backend.terminate(id)
    place.wait(id)
    record = place.backend.telemetry.read(id)
    times = [sample.time for sample in record.samples]
    assert times == sorted(times)
    assert set(record.nodes) == {0, 1, 2, 3}
    assert set(record.nodes.values()) == {rank.node for rank in place.backend.show(id).ranks}
    assert ranks_in(record) == {0, 1, 2, 3}
    middle = times[len(times) // 2]
    later = place.backend.telemetry.read(id, after=middle)
    assert later.samples == tuple(sample for sample in record.samples if sample.time > middle)
    with pytest.raises(NotFoundError):
        place.backend.telemetry.read(place.job("nobody"))


def ranks_in(record) -> set[int]:
    return {use.rank for sample in record.samples for use in sample.ranks}


@pytest.mark.decided_by("nodes")
def test_a_job_of_the_custom_toolkit_is_one_process_on_the_first_node(place: Place) -> None:
    job = place.run("echo one", nodeCount=2)
    assert [rank.rank for rank in job.ranks] == [0]


@pytest.mark.needs("custom_processes")
def test_processes_of_the_custom_toolkit_are_spread_over_the_nodes_and_know_their_index(place: Place) -> None:
    settings = {"commandLine": "echo at $AZ_BATCHAI_TASK_INDEX", "batchaiProcessCount": 4}
    job = place.run(nodeCount=2, customToolkitSettings=settings)
    assert job.spec.custom_toolkit_settings.batchai_process_count == 4
    nodes = [rank.node for rank in sorted(job.ranks, key=lambda rank: rank.rank)]
    assert (nodes[0], nodes[2]) == (nodes[1], nodes[3])
    assert len(set(nodes)) == 2
    log = place.backend.read(FileRef(job.id, "stdout.txt")).data
    assert sorted(log.splitlines()) == [b"at %d" % index for index in range(4)]


def stopped_for(place: Place, conditions: Mapping[str, str]) -> list[str]:
    """What is said of jobs, each of which runs a command until it meets its condition."""
    jobs = [
        place.start(command, f"job{number}", batchaiStopIf=[condition])
        for number, (condition, command) in enumerate(conditions.items())
    ]
    ended = [place.wait(id) for id in jobs]
    errors = [error for job in ended for error in job.execution.errors]
    assert [(job.word, error.code) for job, error in zip(ended, errors, strict=True)] == [
        ("stopped", "JobStopConditionMet")
    ] * len(jobs)
    return [error.message for error in errors]


@pytest.mark.decided_by("engine")
@pytest.mark.needs("stop_conditions")
def test_a_job_is_stopped_for_what_it_prints_with_the_reason(place: Place) -> None:
    prints = """echo '{"step": 7, "loss": NaN}'; exec sleep 1000"""
    (message,) = stopped_for(place, {"loss is nan": prints})
    assert message.startswith('stop-if "loss is nan": loss was nan at step 7')


@pytest.mark.decided_by("nodes")
@pytest.mark.needs("stop_conditions")
def test_a_job_is_stopped_for_idleness_or_a_standstill_with_the_reason(place: Place) -> None:
    beats = """echo step 1 loss 0.5; while sleep 0.2; do echo waiting; done"""
    idle, still = stopped_for(place, dict.fromkeys(("cpu < 90% for 1s", "no progress for 2s"), beats))
    assert idle.startswith('stop-if "cpu < 90% for 1s": its processes used ')
    assert still.startswith('stop-if "no progress for 2s": it made no progress (`batchai profile` shows')


@pytest.mark.sample
@pytest.mark.needs("own_prices")
@pytest.mark.needs("stop_conditions")
def test_a_job_is_stopped_for_its_cost_and_shows_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place.backend.prices is None  # it has none of its own
    prices = f"{place.backend.show(place.cluster).spec.vm_size}=36000"  # 10 a second
    monkeypatch.setenv("BATCHAI_PRICES", prices)
    job = place.run_cell('dear --stop-if "cost > 5"', "import time\ntime.sleep(600)", prices=prices)
    (error,) = job.show().execution.errors
    assert error.message.startswith('stop-if "cost > 5": it had cost ')
    execution = job.show().execution
    assert job.cost.amount == pytest.approx(10 * (execution.ended - execution.started).total_seconds())
