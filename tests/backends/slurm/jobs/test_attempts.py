"""One job over many attempts: Slurm queues it again, its log goes on, and it does not "run" meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.commands.handlers.job_wait import watch_job
from batchai_magics.commands.output.command_progress import Message
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.job_files import first_error, number
from tests.backends.slurm.real_slurm import RealSlurm, running
from tests.contract.place import MOUNTED, Place, PlaceOptions
from tests.contract.places import place_on
from tests.world import processes_of, until

pytestmark = pytest.mark.slow
AGAIN = {"batchaiSlurm": "--requeue"}
# Slurm begins a job again no sooner than its credentials are surely void: two minutes, unless told otherwise.
SOON = "\nAuthInfo=cred_expire=5"
LATER = "\nAuthInfo=cred_expire=1000"  # for who has to see that it waits, until it is told to begin
PREEMPTING = f"""{SOON}
PreemptType=preempt/partition_prio
PreemptMode={{mode}}
PartitionName=low Nodes=node[1-2] PriorityTier=1 PreemptMode={{mode}} MaxTime=INFINITE State=UP
PartitionName=high Nodes=node[1-2] PriorityTier=9 PreemptMode=off MaxTime=INFINITE State=UP"""
# Between SIGTERM to the processes and the end of the job, which is RUNNING meanwhile.
IN_GRACE = PREEMPTING.format(mode="cancel").replace("Tier=1 ", "Tier=1 GraceTime=20 ")
# The first time it waits for its end; the second time it is done at once.
SECOND = f"{MOUNTED}/second"
TWICE = f"echo up $SLURM_RESTART_COUNT; [ -e {SECOND} ] || {{ touch {SECOND}; exec sleep 1000; }}"
# It has both nodes until there is a file of that name.
OTHER = ["sbatch", "-phigh", "-N2", "--exclusive", "-o/dev/null"]
UNTIL = "--wrap=until [ -e {} ]; do sleep 0.1; done"


@pytest.fixture
def again_slurm(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RealSlurm]:
    """A Slurm of two nodes that begins jobs again soon."""
    more = getattr(request, "param", SOON)
    with running(RealSlurm, tmp_path / "slurm", count=2, silence_s=2, more=more) as slurm:
        yield slurm


@pytest.fixture
def again_place(again_slurm: RealSlurm, tmp_path: Path) -> Iterator[Place]:
    with place_on(again_slurm, tmp_path, PlaceOptions()) as place:
        yield place


def is_queued_again(place: Place, id) -> JobResource | None:
    job = place.backend.show(id)
    return job if job.state is ExecutionState.QUEUED and job.attempts else None


def lines(place: Place, id) -> list[str]:
    return place.log(id).decode().splitlines()


@pytest.mark.parametrize("again_slurm", [LATER], indirect=True)
def test_a_job_that_somebody_requeues_waits_and_goes_on_in_the_same_log(
    again_place: Place, again_slurm: RealSlurm
) -> None:
    place = again_place
    id = place.start(TWICE, **AGAIN)
    until(lambda: place.log(id).startswith(b"up"))
    again_slurm.ask("scontrol", "requeue", number(place, id))
    queued = until(lambda: is_queued_again(place, id))
    assert queued.attempts[0].reason == "somebody had Slurm queue it again"
    until(lambda: "has not come" in place.backend.show(id).waiting)
    assert place.backend.nodes(id) == []
    # Not at once: to slurmd, credentials of the same second are those of the attempt that was stopped.
    again_slurm.ask("scontrol", "update", f"jobid={number(place, id)}", "starttime=now+3seconds")
    job = place.wait(id)
    assert (job.state, job.execution.exit_code) == (ExecutionState.SUCCEEDED, 0)
    first, second = job.attempts
    assert (first.number, second.number, second.reason) == (1, 2, "")
    assert first.ended <= second.started
    marked = f"[batchai] attempt 2 begins on {second.nodes[0]}: somebody had Slurm queue it again"
    assert lines(place, id) == ["up", marked, "up 1"]
    assert marked.removeprefix("[batchai] ") in place.log(id, "execution.log").decode()
    assert len(job.ranks) == 1
    told = JobResource.from_wire(json.loads(json.dumps(job.to_wire()))).attempts
    assert [each.sentence for each in told] == [first.sentence, f"attempt 2 on {second.nodes[0]}"]
    said = [part.text for part in watch_job(place.backend, id) if isinstance(part, Message)]
    assert f"Job was restarted: {first.sentence}" in said


def test_a_job_whose_node_is_lost_is_begun_again_and_its_old_processes_end(
    again_place: Place, again_slurm: RealSlurm, tmp_path: Path
) -> None:
    place = again_place
    id = place.start(f"{TWICE}; sleep 2", **AGAIN)
    until(lambda: place.log(id).startswith(b"up"))
    (node,) = place.backend.nodes(id)
    again_slurm.kill(node.id)  # its processes live on: the new attempt has to make sure that they end
    job = place.wait(id)
    assert job.state is ExecutionState.SUCCEEDED
    first, second = job.attempts
    assert (first.nodes == (node.id,), second.nodes == first.nodes) == (True, False)
    assert [line for line in lines(place, id) if line.startswith("up")] == ["up", "up 1"]
    until(lambda: not processes_of(tmp_path / "home"))


def test_ranks_on_two_nodes_are_counted_once_an_attempt(again_place: Place, again_slurm: RealSlurm) -> None:
    place = again_place
    script = f"echo up; until [ -e {MOUNTED}/go ]; do sleep 0.1; done"
    command = {"commandLine": f"bash -c '{script}'", "processCount": 2}
    id = place.start(nodeCount=2, customToolkitSettings=None, customMpiSettings=command, **AGAIN)
    until(lambda: place.log(id).count(b"up") == 2)
    again_slurm.ask("scontrol", "requeue", number(place, id))
    until(lambda: place.log(id).count(b"up") == 4)
    place.backend.storage.upload(place.share, {"go": b""})
    job = place.wait(id)
    assert sorted((rank.rank, rank.exit_code) for rank in job.ranks) == [(0, 0), (1, 0)]
    assert job.execution.exit_code == 0


def test_a_job_that_waits_to_begin_again_is_cancelled_at_once(
    again_place: Place, again_slurm: RealSlurm
) -> None:
    place = again_place
    id = place.start(TWICE, **AGAIN)
    until(lambda: place.log(id).startswith(b"up"))
    again_slurm.ask("scontrol", "requeuehold", number(place, id))
    until(lambda: is_queued_again(place, id))
    until(lambda: "is held" in place.backend.show(id).waiting)
    place.backend.terminate(id)
    assert place.wait(id).is_cancelled


def test_a_job_that_did_not_ask_for_it_is_never_begun_again(
    again_place: Place, again_slurm: RealSlurm, tmp_path: Path
) -> None:
    place = again_place
    id = place.start(TWICE)
    until(lambda: place.log(id).startswith(b"up"))
    again_slurm.ask("scontrol", "requeue", number(place, id))
    (node,) = place.backend.nodes(id)
    again_slurm.kill(node.id)
    job = place.wait(id)
    assert (first_error(job).code, job.attempts) == ("JobNodeLost", ())
    until(lambda: not processes_of(tmp_path / "home"))
    assert place.backend.show(id).attempts == ()
    assert b"A node of the job was lost" in place.log(id, "execution.log")


@pytest.mark.parametrize("lost_s", [1.0, 1000.0], ids=["told by who looks", "told by its program"])
def test_a_lost_job_leaves_no_process_on_nodes_that_slurm_does_not_reach(
    again_place: Place, again_slurm: RealSlurm, tmp_path: Path, lost_s: float
) -> None:
    settings = replace(again_place.backend.settings, lost_s=lost_s)
    place = replace(again_place, backend=SlurmBackend(settings))
    command = {"commandLine": "bash -c 'echo up; exec sleep 1000'", "processCount": 2}
    id = place.start(nodeCount=2, customToolkitSettings=None, customMpiSettings=command)
    until(lambda: place.log(id).count(b"up") == 2)
    for node in place.backend.nodes(id):
        again_slurm.kill(node.id)
    job = place.wait(id)
    assert first_error(job).code == "JobNodeLost"
    until(lambda: not processes_of(tmp_path / "home"))
    assert place.backend.show(id).execution == job.execution


@pytest.mark.parametrize("again_slurm", [PREEMPTING.format(mode="requeue")], indirect=True)
def test_a_job_that_is_preempted_is_begun_again_if_it_asks_for_that(
    again_place: Place, again_slurm: RealSlurm, tmp_path: Path
) -> None:
    place, id = preempted(again_place, again_slurm, done := tmp_path / "done")
    queued = until(lambda: is_queued_again(place, id))
    assert queued.attempts[0].reason == "Slurm took its nodes for another job"
    done.touch()
    assert place.wait(id).state is ExecutionState.SUCCEEDED


@pytest.mark.parametrize("again_slurm", [PREEMPTING.format(mode="cancel")], indirect=True)
def test_a_job_that_is_preempted_for_good_says_so(
    again_place: Place, again_slurm: RealSlurm, tmp_path: Path
) -> None:
    place, id = preempted(again_place, again_slurm, done := tmp_path / "done")
    job = place.wait(id)
    done.touch()
    assert (job.state, first_error(job).code) == (ExecutionState.FAILED, "JobPreempted")


@pytest.mark.parametrize("again_slurm", [IN_GRACE], indirect=True)
@pytest.mark.parametrize(("signals", "restarts"), [("", None), ("trap : TERM; ", 1)], ids=["ends", "ignores"])
def test_ranks_that_are_preempted_with_a_grace_time_are_not_said_to_be_killed(
    again_place: Place, again_slurm: RealSlurm, tmp_path: Path, signals: str, restarts: int | None
) -> None:
    place, done = on_partition(again_place, "low"), tmp_path / "done"
    script = f"{signals}echo up; until [ -e {MOUNTED}/go ]; do sleep 0.1; done"
    command = {"commandLine": f"bash -c '{script}'", "processCount": 2}
    more = {"customToolkitSettings": None, "customMpiSettings": command, "batchaiMaxRestarts": restarts}
    id = place.start(nodeCount=2, **more)
    until(lambda: place.log(id).count(b"up") == 2)
    again_slurm.ask(*OTHER, UNTIL.format(done))
    if restarts:
        queued = until(lambda: is_queued_again(place, id))
        assert queued.attempts[0].reason == "its nodes were taken for another job"
        place.backend.storage.upload(place.share, {"go": b""})
        done.touch()
        assert place.wait(id).state is ExecutionState.SUCCEEDED
    else:
        assert first_error(place.wait(id)).code == "JobPreempted"
        done.touch()


def preempted(place: Place, slurm: RealSlurm, done: Path) -> tuple[Place, ResourceId]:
    """A job of the low partition that runs when another one takes its nodes, until `done` is there."""
    place = on_partition(place, "low")
    id = place.start(TWICE, **AGAIN)
    until(lambda: place.log(id).startswith(b"up"))
    slurm.ask(*OTHER, UNTIL.format(done))
    return place, id


def on_partition(place: Place, partition: str) -> Place:
    """The place with a cluster of a partition."""
    settings = replace(place.backend.settings, sizes=f"Standard_D3=-p {partition}")
    there = replace(place, backend=SlurmBackend(settings))
    cluster = there.make_cluster(vmSize="STANDARD_D3", scale={"manual": {"targetNodeCount": 2}})
    return replace(there, cluster=cluster.id)
