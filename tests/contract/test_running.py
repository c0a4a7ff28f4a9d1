"""What is known of a job's processes while they run, and what their numbers can end."""

from __future__ import annotations

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import NotFoundError
from batchai_magics.models.states import ExecutionState
from tests.contract.place import HOLD, Place
from tests.world import until

pytestmark = pytest.mark.slow


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


def ranks_in(record) -> set[int]:
    return {use.rank for sample in record.samples for use in sample.ranks}


@pytest.mark.sample
@pytest.mark.needs("telemetry")
def test_a_job_that_is_not_there_has_no_samples_to_tell(place: Place) -> None:
    with pytest.raises(NotFoundError):
        place.backend.telemetry.read(place.job("nobody"))


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


@pytest.mark.needs("mpi_check")
def test_ranks_that_join_no_mpi_are_warned_of_where_they_print_the_same(place: Place) -> None:
    settings = {"commandLine": "bash -c 'echo same'", "processCount": 2}
    job = place.run(customToolkitSettings=None, customMpiSettings=settings)
    assert (job.state, job.execution.exit_code) == (ExecutionState.SUCCEEDED, 0)
    (warning,) = job.execution.errors
    assert (warning.code, warning.is_warning) == ("MpiNotUsed", True)
    assert "The 2 processes ran independently" in warning.message


@pytest.mark.needs("stop_conditions")
def test_a_job_is_stopped_for_what_it_prints_with_the_reason(place: Place) -> None:
    command = """echo '{"step": 7, "loss": NaN}'; exec sleep 1000"""
    job = place.run(command, batchaiStopIf=["loss is nan"])
    (error,) = job.execution.errors
    assert job.word == "stopped"
    assert error.code == "JobStopConditionMet"
    assert error.message.removesuffix(" of rank 0") == 'stop-if "loss is nan": loss was nan at step 7'


@pytest.mark.needs("stop_conditions")
def test_jobs_are_stopped_for_idleness_and_a_standstill_despite_a_heartbeat(place: Place) -> None:
    command = """echo step 1 loss 0.5; while sleep 0.2; do echo waiting; done"""
    idle = place.start(command, "idle", batchaiStopIf=["cpu < 90% for 1s"])
    stuck = place.start(command, "stuck", batchaiStopIf=["no progress for 2s"])
    texts = [error.message for id in (idle, stuck) for error in place.wait(id).execution.errors]
    assert texts[0].startswith('stop-if "cpu < 90% for 1s": its processes used ')
    (reason,) = texts[1:]
    assert reason.startswith('stop-if "no progress for 2s": it made no progress (`batchai profile` shows')


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
