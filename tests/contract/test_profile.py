"""Where the time of the ranks of a running job goes."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from xml.etree import ElementTree

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import CapabilityError, ConflictError, UsageError
from batchai_magics.follow.stack_collector import profile_of
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.job_execution import ARTIFACTS
from batchai_magics.records.rank_profile import Activity
from tests.contract.place import Place
from tests.patience import PATIENCE_S
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]

# Rank 1 loads for 60 ms of a step and works for 40; the others work for 40 ms, and wait for it. What each
# part really takes on a busy machine, every rank measures itself.
TRAIN = """
import json, time
from mpi4py import MPI

comm, spent = MPI.COMM_WORLD, {"input": 0.0, "Python": 0.0, "communication": 0.0}

def load():
    time.sleep(0.06)

def work():
    end = time.monotonic() + 0.04
    while time.monotonic() < end:
        pass

def share():
    comm.allreduce(1)

def timed(name, part):
    begin = time.monotonic()
    part()
    spent[name] += time.monotonic() - begin

while True:
    if comm.rank == 1:
        timed("input", load)
    timed("Python", work)
    timed("communication", share)
    print(json.dumps([comm.rank, time.time(), spent]), flush=True)
"""
UP = "import time\nprint('up', flush=True)\nwhile True: time.sleep(0.01)\n"


def spent_by(job: Job, rank: int, begin: float, end: float) -> dict[str, float]:
    """What a rank has measured of itself between two times."""
    lines = [json.loads(line) for line in job.log().splitlines()]
    first, *_, last = (spent for number, time, spent in lines if number == rank and begin <= time <= end)
    return {name: last[name] - first[name] for name in last}


@pytest.mark.needs("node_commands")
def test_shares_are_those_that_the_program_measures_and_the_slow_rank_is_named(place: Place) -> None:
    job = place.submit("shares --nodes 2 --processes 3 --toolkit mpi", TRAIN)
    until(lambda: job.log().count("]") > 10)
    profile = profile_of(job.backend, job.show(), 10.0, rate_hz=110.0)
    assert profile.different == (1,)
    assert profile.sentence.startswith("Rank 1 waits ")
    assert "for its data loader, at cell line 9, the others 0 %" in profile.sentence
    assert sum(rank.count for rank in profile.ranks) >= 1000
    named = datetime.strptime(profile.files[0][9:25], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    end = named.timestamp()  # when the samples had been taken
    for rank in profile.ranks:
        took = spent_by(job, rank.rank, end - 10, end)
        shares = {name: rank.shares[Activity(name)] for name in took}
        assert shares == pytest.approx({name: took[name] / sum(took.values()) for name in took}, abs=0.05)
    job.cancel()
    job.wait(PATIENCE_S)


@pytest.mark.sample
@pytest.mark.needs("node_commands")
def test_a_profile_is_kept_with_the_run_and_needs_a_running_job(place: Place) -> None:
    job = place.submit("up --nodes 2 --processes 2 --toolkit custom", UP)
    until(lambda: job.log().count("up") == 2)
    profile = job.profile(1)
    assert [rank.count > 0 for rank in profile.ranks] == [True, True]
    assert profile.sentence.startswith("Each rank waits ")
    svg, scope = (job.backend.read(FileRef(job.id, path, ARTIFACTS)).data for path in profile.files)
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert len(json.loads(scope)["profiles"]) == 2
    assert not job.is_done
    again = job.profile(1)
    assert not set(again.files) & set(profile.files)
    job.cancel()
    job.wait(PATIENCE_S)
    with pytest.raises(ConflictError, match="only a running job can be profiled"):
        job.profile(1)
    assert {file.path for file in job.files(ARTIFACTS, "profiles")} >= {*profile.files, *again.files}


@pytest.mark.needs("node_commands")
@pytest.mark.needs("quick_commands")  # else the job has ended before
def test_a_job_that_ends_meanwhile_has_the_profile_of_its_time(place: Place) -> None:
    job = place.submit("short --toolkit custom", "import time\nprint('up', flush=True)\ntime.sleep(3)\n")
    until(lambda: "up" in job.log())
    profile = job.profile(120)
    assert sum(rank.count for rank in profile.ranks) > 0
    assert max(rank.seconds for rank in profile.ranks) < 120


@pytest.mark.sample
@pytest.mark.lacks("node_commands")
def test_a_backend_without_commands_on_nodes_refuses(place: Place) -> None:
    job = Job(place.backend, place.start("sleep 1000"))
    with pytest.raises(CapabilityError, match="commands on nodes"):
        job.profile()
    job.cancel()
    job.wait(PATIENCE_S)


@pytest.mark.needs("node_commands")
def test_a_queued_job_has_no_profile_and_its_time_is_bounded(place: Place) -> None:
    blocking = place.submit("blocking --nodes 2 --toolkit custom", UP)
    queued = place.submit("queued --nodes 2 --toolkit custom", UP)
    with pytest.raises(
        ConflictError, match=r"job queued is not running \(queued\); only a running job can be"
    ):
        queued.profile()
    with pytest.raises(UsageError, match=r"a profile takes 1 s to 10 minutes, not 0\.5 s"):
        blocking.profile(0.5)
    for job in (queued, blocking):
        job.cancel()
        job.wait(PATIENCE_S)
