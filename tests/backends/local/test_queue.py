"""Users share a queue: whoever has the fewest nodes is next; their jobs share a node, and never a GPU."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from batchai_magics.backends.local import scheduler
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import job_table, node_table, run_status
from batchai_magics.errors import ConflictError, SpecError
from batchai_magics.follow.wait_reason import with_wait_reason, with_wait_reasons
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import Still, has_devices
from tests.contract.place import manual
from tests.world import World, until


def assign(still: Still) -> list[str]:
    """Gives nodes to as many jobs as possible; their names in that order."""
    return [job.key.rpartition("/")[2] for job in scheduler.assign_all(still.store)]


def ready(still: Still, count: int) -> None:
    """A cluster of so many idle nodes."""
    still.cluster(scale=manual(count))
    still.change("UPDATE node SET state = 'idle'")


def queue(still: Still) -> list[str]:
    """The order that users are told."""
    with still.store.read() as db:
        (cluster,) = {cluster for (cluster,) in db.execute("SELECT cluster FROM job")}
        return [key.rpartition("/")[2] for key in job_table.queue_of(db, cluster)]


@pytest.mark.parametrize(
    ("nodes", "jobs", "order", "left"),
    [
        (5, ("a1", "a2", "a3", "a4", "b1", "b2"), ["a1", "b1", "a2", "b2", "a3"], ["a4"]),
        (6, ("a1 on three nodes", "b1", "b2", "b3", "a2"), ["a1", "b1", "b2", "b3"], ["a2"]),
    ],
)
def test_users_take_turns_by_their_nodes_however_many_jobs_one_has_queued_first(
    still: Still, nodes: int, jobs: Sequence[str], order: list[str], left: list[str]
) -> None:
    ready(still, nodes)
    for job in jobs:
        still.job(job[:2], 3 if "three" in job else 1, owner=job[0])
    assert (assign(still), queue(still)) == (order, left)


def test_nodes_on_other_clusters_count_for_fair_share(still: Still) -> None:
    still.cluster("other", scale=manual(1))
    still.change("UPDATE node SET state = 'idle'")
    still.job("elsewhere", owner="ann", cluster="other")
    assert assign(still) == ["elsewhere"]
    ready(still, 1)
    still.job("a1", owner="ann")
    still.job("b1", owner="bob")
    assert assign(still) == ["b1"]


def test_user_at_the_running_limit_does_not_block_other_users(still: Still) -> None:
    ready(still, 4)
    limits = LocalSettings(max_running_jobs=1)
    for name in ("a1", "a2"):
        still.job(name, owner="ann", limits=limits, schedulingPriority="high")
    still.job("b1", owner="bob", limits=limits)
    assert assign(still) == ["a1", "b1"]
    assert waiting(still) == {"a2": "1 of its user's jobs are running, as many as may run at a time"}
    still.fail(still.experiment.child(Kind.JOB, "a1"))
    assert assign(still) == ["a2"]
    assert waiting(still) == {}


def waiting(still: Still) -> dict[str, str]:
    """Why jobs are queued, as far as a limit is the reason."""
    rows = still.rows("SELECT guid, key FROM job")
    with still.store.read() as db:
        statuses, _ = run_status.run_statuses(db, still.layout, [row["guid"] for row in rows])
    named = {row["key"].rpartition("/")[2]: each.waiting for row, each in zip(rows, statuses, strict=True)}
    return {name: text for name, text in named.items() if text}


def test_job_with_nodes_has_no_jobs_ahead(still: Still) -> None:
    ready(still, 2)
    jobs = [still.job(name) for name in ("a", "b", "c")]
    assert assign(still) == ["a", "b"]
    shown = [with_wait_reason(still.backend, Job(still.backend, job).show()) for job in jobs]
    assert [job.state for job in shown] == [ExecutionState.QUEUED] * 3
    assert [job.waiting for job in shown] == ["", "", "a and b are using its nodes"]


def test_up_to_three_jobs_ahead_are_named_and_more_are_counted(still: Still) -> None:
    ready(still, 1)
    still.job("now")
    assert assign(still) == ["now"]
    jobs = [Job(still.backend, still.job(name)).show() for name in ("a", "b", "c", "d", "e")]
    *_, fourth, fifth = [job.waiting for job in with_wait_reasons(still.backend, jobs)]
    assert fourth == "now is using its nodes; a, b and c are ahead in the queue"
    assert fifth == "now is using its nodes; 4 jobs are ahead in the queue"


def test_list_shows_wait_reasons_of_the_first_twenty_queued_jobs(still: Still) -> None:
    ready(still, 1)
    still.job("now")
    assert assign(still) == ["now"]
    jobs = [Job(still.backend, still.job(f"job{number}")).show() for number in range(22)]
    listed = with_wait_reasons(still.backend, jobs)
    assert [bool(job.waiting) for job in listed] == [True] * 20 + [False] * 2


def test_predecessor_named_twice_counts_once_and_must_succeed(
    still: Still,
) -> None:
    still.cluster()
    first = still.job("first")
    twice = still.job("twice", batchaiAfter=[str(first)], batchaiAfterAny=[str(first).upper()])
    assert len(json.loads(still.state(twice)["after"])) == 1
    still.fail(first)
    assert still.state(twice)["state"] == "failed"
    late = still.job("late", batchaiAfterAny=[str(first)])
    assert (still.state(late)["state"], still.state(late)["after"]) == ("queued", "[]")


def test_a_queue_has_a_limit_for_each_user(still: Still) -> None:
    ready(still, 1)
    limits = LocalSettings(max_queued_jobs=2)
    for name in ("a1", "a2"):
        still.job(name, owner="ann", limits=limits)
    with pytest.raises(ConflictError, match="ann has 2 queued job") as caught:
        still.job("a3", owner="ann", limits=limits)
    assert caught.value.code == "QueuedJobsLimit"
    still.job("b1", owner="bob", limits=limits)
    assert assign(still) == ["a1"]
    still.job("a3", owner="ann", limits=limits)


@pytest.mark.parametrize("seed", range(5))
def test_jobs_start_in_the_displayed_order(still: Still, seed: int) -> None:
    choose = random.Random(seed)
    ready(still, 60)
    still.change("UPDATE node SET state = 'preparing' WHERE ordinal >= 9")
    for number in range(15):
        owner, priority = choose.choice(["ann", "bob", "cid", ""]), choose.choice(["low", "normal"])
        still.job(f"j{number}", choose.randint(1, 3), owner=owner, schedulingPriority=priority)
    started = assign(still)
    told = queue(still)
    assert len(started) + len(told) == 15
    still.change("UPDATE node SET state = 'idle' WHERE state = 'preparing'")
    assert assign(still) == told


# -- GPUs


SEEN = "import os, time\nprint(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\ntime.sleep(1000)"


@pytest.fixture(autouse=True)
def _four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    has_devices(monkeypatch, 8, "0123")


@pytest.fixture
def shared(still: Still) -> Still:
    """A home with a cluster of two nodes, each with two GPUs."""
    still.cluster(scale=manual(2))
    still.change("UPDATE node SET state = 'idle'")
    return still


def held(still: Still) -> dict[str, list[tuple[int, str]]]:
    """The nodes (by position) and GPUs of each job."""
    found: dict[str, list[tuple[int, str]]] = {}
    with still.store.read() as db:
        for row in db.execute("SELECT key, guid FROM job WHERE is_assigned = 1").fetchall():
            nodes = node_table.job_nodes(db, row["guid"])
            found[row["key"].rpartition("/")[2]] = [(node.position, node.gpus) for node in nodes]
    return found


def states(still: Still) -> list[str]:
    return [state for (state,) in still.rows("SELECT state FROM node ORDER BY ordinal")]


def test_job_of_whole_nodes_waits_for_shared_nodes(shared: Still) -> None:
    shared.job("a", batchaiGpus=1)
    assert assign(shared) == ["a"]
    shared.job("whole", 2)
    shared.job("b", batchaiGpus=1)
    assert assign(shared) == []  # nor does a later job overtake it
    shared.fail(shared.experiment.child(Kind.JOB, "a"))
    assert states(shared) == ["idle", "idle"]
    assert assign(shared) == ["whole"]
    assert held(shared) == {"whole": [(0, ""), (1, "")]}


def test_a_gpu_is_free_again_when_its_job_has_ended(shared: Still) -> None:
    for name in ("a", "b"):
        shared.job(name, batchaiGpus=1)
    assert assign(shared) == ["a", "b"]
    shared.fail(shared.experiment.child(Kind.JOB, "a"))
    assert states(shared) == ["running", "idle"]  # another job is on the first
    shared.job("c", batchaiGpus=1)
    assert assign(shared) == ["c"]
    assert held(shared) == {"b": [(0, "2")], "c": [(0, "0")]}


def test_a_job_on_two_nodes_has_gpus_of_both(shared: Still) -> None:
    shared.job("a", 2, batchaiGpus=1)
    shared.job("b", batchaiGpus=2)
    assert assign(shared) == ["a"]
    assert held(shared) == {"a": [(0, "0"), (1, "1")]}


def test_all_jobs_of_a_node_are_stopped_when_it_leaves(shared: Still) -> None:
    for name in ("a", "b", "c"):
        shared.job(name, batchaiGpus=1)
    assert assign(shared) == ["a", "b", "c"]
    shared.resize(shared.workspace.child(Kind.CLUSTER, "c"), 0)
    assert states(shared) == ["leaving", "leaving"]
    assert [row["stop"] for row in shared.rows("SELECT stop FROM job")] == ["requeue"] * 3
    for name in ("a", "b", "c"):
        shared.fail(shared.experiment.child(Kind.JOB, name))
    assert (states(shared), shared.rows("SELECT * FROM gpu_share")) == ([], [])


def test_a_smaller_cluster_is_advised_if_its_nodes_have_enough_gpus(shared: Still) -> None:
    with pytest.raises(SpecError) as refusal:
        shared.job("a", batchaiGpus=3)
    assert "a node of c has 2 GPUs: its 2 nodes share this machine's 4" in str(refusal.value)
    assert "batchai cluster resize -n c --target 1" in str(refusal.value)
    with pytest.raises(SpecError, match=r"--gpus 5: a node of c has 2 GPUs \(ask for fewer"):
        shared.job("a", batchaiGpus=5)


@pytest.fixture
def one_node(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home")
    made.resize(made.cluster, 1)
    yield made
    made.close()


def seen(job: Job) -> str:
    """The GPUs that a job's process sees, once it runs."""
    return until(job.log).strip()


@pytest.mark.slow
def test_processes_of_jobs_on_one_node_see_different_gpus(one_node: World) -> None:
    lines = ("a --gpus 2 --processes 1", "b --gpus 1", "c --gpus 1")
    assert [seen(one_node.submit(line, SEEN)) for line in lines] == ["0,1", "2", "3"]
    waiting = one_node.submit("d --gpus 1", SEEN)
    assert waiting.state is ExecutionState.QUEUED
    Job(one_node.backend, one_node.job_id("b")).cancel()
    assert seen(waiting) == "2"
