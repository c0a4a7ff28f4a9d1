"""One job over many attempts: Slurm queues it again, its log goes on, and it does not "run" meanwhile."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.commands.handlers.job_wait import watch_job
from batchai_magics.commands.output.command_progress import Message
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.conftest import impatient
from tests.backends.slurm.job_files import first_error, number
from tests.backends.slurm.real_slurm import SOON
from tests.contract.place import MOUNTED, Place
from tests.world import processes_of, until

pytestmark = pytest.mark.slow
AGAIN = {"batchaiSlurm": "--requeue"}
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


def is_queued_again(place: Place, id) -> JobResource | None:
    job = place.backend.show(id)
    return job if job.state is ExecutionState.QUEUED and job.attempts else None


@pytest.mark.parametrize("again_slurm", [LATER], indirect=True)
def test_ranks_that_somebody_requeues_wait_go_on_in_the_same_log_and_are_counted_once(
    again_place, again_slurm
):
    place, mark = again_place, f"{SECOND}-$PMI_RANK"
    twice = f"echo up; [ -e {mark} ] || {{ touch {mark}; exec sleep 1000; }}"
    id = place.start_ranks(twice, count=2, **AGAIN)
    until(lambda: place.log(id) == b"up\nup\n")
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
    marked = f"attempt 2 begins on {', '.join(second.nodes)}: somebody had Slurm queue it again"
    lines = place.log(id).decode().splitlines()
    assert lines == ["up", "up", f"[batchai] {marked}", "up", "up"]
    logs = [file.name for file in place.backend.files(id) if file.name.startswith("execution")]
    assert any(marked in place.log(id, name).decode() for name in logs)
    assert sorted((rank.rank, rank.exit_code) for rank in job.ranks) == [(0, 0), (1, 0)]
    told = JobResource.from_wire(json.loads(json.dumps(job.to_wire()))).attempts
    assert [each.sentence for each in told] == [each.sentence for each in job.attempts]
    said = [part.text for part in watch_job(place.backend, id) if isinstance(part, Message)]
    assert f"Job was restarted: {first.sentence}" in said


def test_a_job_that_waits_to_begin_again_is_cancelled_at_once(again_place, again_slurm):
    place = again_place
    id = place.start(TWICE, **AGAIN)
    until(lambda: place.log(id).startswith(b"up"))
    again_slurm.ask("scontrol", "requeuehold", number(place, id))
    until(lambda: is_queued_again(place, id))
    until(lambda: "is held" in place.backend.show(id).waiting)
    place.backend.terminate(id)
    assert place.wait(id).is_cancelled


@impatient
@pytest.mark.parametrize("lost_s", [1.0, 1000.0], ids=["told by who looks", "told by its program"])
def test_a_lost_job_leaves_no_process_on_nodes_that_slurm_does_not_reach(
    own_place, own_slurm, tmp_path, lost_s
):
    settings = replace(own_place.backend.settings, lost_s=lost_s)
    place = replace(own_place, backend=SlurmBackend(settings))
    id = place.start_ranks("echo up; exec sleep 1000", count=2)
    until(lambda: place.log(id).count(b"up") == 2)
    for node in place.backend.nodes(id):
        own_slurm.kill(node.id)
    job = place.wait(id)
    assert first_error(job).code == "JobNodeLost"
    until(lambda: not processes_of(tmp_path / "home"))
    assert place.backend.show(id).execution == job.execution
    logs = [file.name for file in place.backend.files(id) if file.name.startswith("execution")]
    assert any(b"A node of the job was lost" in place.log(id, name) for name in logs)


@pytest.mark.parametrize("again_slurm", [IN_GRACE], indirect=True)
def test_ranks_that_are_preempted_with_a_grace_time_are_not_said_to_be_killed(
    again_place, again_slurm, tmp_path
):
    place, done = on_partition(again_place, "low"), tmp_path / "done"
    id = place.start_ranks("echo up; exec sleep 1000", count=2)
    until(lambda: place.log(id).count(b"up") == 2)
    again_slurm.ask(*OTHER, UNTIL.format(done))
    assert first_error(place.wait(id)).code == "JobPreempted"
    done.touch()


def on_partition(place: Place, partition: str) -> Place:
    """The place with a cluster of a partition."""
    settings = replace(place.backend.settings, sizes=f"Standard_D3=-p {partition}")
    there = replace(place, backend=SlurmBackend(settings))
    cluster = there.make_cluster(vmSize="STANDARD_D3", scale={"manual": {"targetNodeCount": 2}})
    return replace(there, cluster=cluster.id)
