"""The preflight: nodes are checked before the first rank, and a job may run without those that are slow."""

from __future__ import annotations

import pytest

from batchai_magics.backends.base import RECORDS
from batchai_magics.errors import CapabilityError
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.preflight import FindingKind, PreflightReport
from batchai_magics.records.record_files import PREFLIGHT
from tests.contract.place import Place, manual
from tests.throttle import found_alone, program_of, throttled
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]


def report_of(place: Place, id: ResourceId) -> PreflightReport:
    (text,) = RECORDS.of(place.backend).read(id, [PREFLIGHT]).values()
    return PreflightReport.from_text(text)


def guid_of(place: Place, id: ResourceId) -> str:
    return place.backend.show(id).output_path_segment.rpartition("/")[2]


@pytest.mark.sample
@pytest.mark.needs("preflight")
def test_nodes_are_measured_alone_and_in_pairs_before_the_first_rank(place: Place) -> None:
    records = "ls $BATCHAI_ARTIFACT_DIR/../records/preflight.json > /dev/null && echo checked"
    job = place.run(records, nodeCount=2, batchaiPreflight="stop")
    report = report_of(place, job.id)
    assert (job.state, place.log(job.id), report.flagged) == (ExecutionState.SUCCEEDED, b"checked\n", ())
    assert all(node.processor_rate and node.memory_rate and node.disk_rate for node in report.nodes)
    assert all(node.python and node.disk_free_bytes and node.memory_bytes for node in report.nodes)
    assert [abs(node.clock_offset_s or 0.0) < 1.0 for node in report.nodes] == [True, True]
    (pair,) = report.pairs
    assert {pair.first, pair.second} == {node.node for node in report.nodes}
    assert pair.rate
    assert pair.allreduce_s


SUM = "from mpi4py import MPI; print(MPI.COMM_WORLD.allreduce(1), flush=True)"


@pytest.mark.decided_by("engine")
@pytest.mark.needs("preflight")
def test_the_ranks_of_a_job_are_one_world_without_the_first_node_which_is_slow(place: Place) -> None:
    three = place.make_cluster("three", scale=manual(3))
    command = {"commandLine": f"python -c '{SUM}'", "processCount": 6}
    fields = {"nodeCount": 3, "customToolkitSettings": None, "customMpiSettings": command}

    def run(number: int) -> tuple[JobResource, PreflightReport]:
        id = place.start(name=f"job{number}", batchaiPreflight="exclude", **fields, **place.on(three))
        with throttled(guid_of(place, id), 0):
            job = place.wait(id)
        return job, report_of(place, id)

    job, report = found_alone(0, run)
    slow, *good = [node.node for node in report.nodes]
    assert (report.flagged, report.excluded) == ((slow,), (slow,)), report.findings
    assert FindingKind.SLOW in [finding.kind for finding in report.findings]
    assert (job.state, place.log(job.id)) == (ExecutionState.SUCCEEDED, b"4\n" * 4)
    assert sorted(rank.node for rank in job.ranks) == sorted([*good, *good])


@pytest.mark.needs("preflight")
def test_a_node_that_cannot_be_checked_ends_the_job_before_its_first_rank(place: Place) -> None:
    id, known = place.start(nodeCount=2, batchaiPreflight="stop"), set[int]()
    until(lambda: program_of(guid_of(place, id), 1, known)).kill()
    job = place.wait(id)
    (error,) = job.execution.errors
    assert (job.state, error.code, place.log(id)) == (ExecutionState.FAILED, "JobPreflightFailed", b"")


@pytest.mark.sample
@pytest.mark.lacks("preflight")
def test_where_nodes_cannot_be_checked_a_job_that_asks_for_it_is_refused(place: Place) -> None:
    with pytest.raises(CapabilityError, match="batchaiPreflight"):
        place.start(batchaiPreflight="stop")
