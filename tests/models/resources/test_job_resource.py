"""What a service shows of jobs is read, also where it says more or less than we do."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from batchai_magics.errors import ServiceError
from batchai_magics.models.job_execution import ExecutionInfo, RankExit
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resources import JobResource
from tests.models.resources.sample_resources import job


def test_a_queued_job_has_no_execution_and_a_running_one_no_end():
    assert JobResource.from_wire(job(executionState="queued", executionInfo=None)).execution is None
    running = JobResource.from_wire(
        job(executionState="running", executionInfo={"startTime": "2018-06-06T21:00:00.5Z"})
    )
    begun = datetime(2018, 6, 6, 21, 0, 0, 500_000, timezone.utc)
    assert running.execution == ExecutionInfo(begun)


def test_what_later_services_say_more_is_left_out():
    later = job(
        constraints={"maxWallClockTime": "P150D", "maxAttempts": 1},
        maxJobDurationSeconds=2592000,
        cleanupNodeBeforeRun=False,
        executionInfo={"startTime": "2020-01-01T00:00:00.1234567Z", "totalJobNodeHours": 0.1},
    )
    read = JobResource.from_wire(later)
    assert read.spec.constraints.max_wall_clock_time == "P150D"
    assert read.execution.started.microsecond == 123_456


def test_keys_and_words_are_read_in_any_letter_case():
    def upper(value):
        if isinstance(value, dict):
            return {key.upper(): upper(inner) for key, inner in value.items()}
        return [upper(item) for item in value] if isinstance(value, list) else value

    data = job(executionState="Failed", schedulingPriority="High")
    assert JobResource.from_wire(upper(data)) == JobResource.from_wire(data)


def test_null_is_as_good_as_nothing():
    data = job()
    data["properties"].update(jobPreparation=None, batchaiRanks=None, executionInfo=None)
    assert JobResource.from_wire(data).execution is None


def test_the_cluster_of_a_job_may_be_named_as_in_2017():
    old = "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/clusters/c"
    assert JobResource.from_wire(job(cluster={"id": old})).spec.cluster.id == old


def test_how_every_rank_ended_survives_the_wire_the_first_failure_first():
    ended = datetime(2018, 6, 6, 21, 9, 59, 250_000, timezone.utc)
    ranks = (RankExit(2, "tvm-2", 137, ended), RankExit(0, "tvm-1", 0), RankExit(1, "tvm-1", None, ended))
    before = JobResource.from_wire(job())
    wire = JobResource(**{**vars(before), "ranks": ranks}).to_wire()
    assert wire["properties"]["batchaiRanks"] == [
        {"rank": 2, "nodeId": "tvm-2", "exitCode": 137, "endTime": "2018-06-06T21:09:59.25Z"},
        {"rank": 0, "nodeId": "tvm-1", "exitCode": 0},
        {"rank": 1, "nodeId": "tvm-1", "endTime": "2018-06-06T21:09:59.25Z"},
    ]
    assert JobResource.from_wire(json.loads(json.dumps(wire))).ranks == ranks


def test_a_job_without_ranks_is_shown_as_the_service_did():
    wire = JobResource.from_wire(job()).to_wire()
    assert not [key for key in wire["properties"] if key.startswith("batchai")]


def test_a_job_that_shows_its_ranks_can_be_given_back_as_a_description():
    data = job(batchaiRanks=[{"rank": 0, "nodeId": "n", "exitCode": 1}])
    assert JobSpec.from_wire(data) == JobResource.from_wire(data).spec


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"executionState": None}, "the job.properties.executionState: it is missing"),
        ({"executionState": "resting"}, "'resting' is no ExecutionState"),
        ({"creationTime": "yesterday"}, "properties.creationTime: 'yesterday' is not a time"),
        ({"nodeCount": "many"}, "the job.properties.nodeCount: expected a whole number"),
        ({"horovodSettings": None}, "no settings of a toolkit"),
        ({"executionInfo": 3}, "the job.properties.executionInfo: expected an object, got int"),
        ({"executionInfo": {"exitCode": 1}}, "executionInfo.startTime: it is missing"),
        ({"batchaiRanks": {"rank": 1}}, "the job.properties.batchaiRanks: expected a list, got dict"),
        ({"batchaiRanks": [{"rank": True, "nodeId": "n"}]}, "the rank.rank: True is not a whole number"),
    ],
)
def test_what_cannot_be_read_is_named(changes, says):
    with pytest.raises(ServiceError) as caught:
        JobResource.from_wire(job(**changes))
    assert says in caught.value.message
    assert caught.value.code == "InvalidAnswer"


@pytest.mark.parametrize(
    ("code", "peak", "meaning"),
    [
        (0, 10**9, ""),
        (1, 10**9, ""),
        (None, None, ""),
        (127, 10**9, "the command was not found"),
        (137, None, "killed (SIGKILL): by a user, or by the system because memory ran out"),
        (
            137,
            24_000_000_000,
            "killed (SIGKILL): by a user, or by the system because memory ran out; "
            "its largest process had 24 GB of memory at its peak",
        ),
        (
            139,
            12_300_000_000,
            "segmentation fault (SIGSEGV): invalid memory access; "
            "its largest process had 12 GB of memory at its peak",
        ),
        (134, 15_400_000, "aborted (SIGABRT); its largest process had 15 MB of memory at its peak"),
    ],
)
def test_an_exit_code_that_is_no_programs_own_is_said_in_words(code, peak, meaning):
    assert RankExit(0, "node-0", code, None, peak).meaning == meaning
