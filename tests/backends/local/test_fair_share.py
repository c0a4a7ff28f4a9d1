"""Users share a queue: whoever has the fewest nodes is next, within limits per user."""

from __future__ import annotations

import random

import pytest

from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import job_table, node_table, run_status
from batchai_magics.errors import ConflictError
from batchai_magics.models.resource_ids import Kind
from tests.backends.local.still import Still
from tests.contract.place import manual


def assign(still: Still, count: int) -> list[str]:
    """Gives nodes to the next jobs, as many as that; their names in that order."""
    names = []
    with still.store.write() as db:
        cluster = next(iter(job_table.waiting_clusters(db)), "")
        while len(names) < count and (job := job_table.next_job(db, cluster)):
            if not node_table.assign(db, cluster, job):
                break
            job_table.assign(db, job, spawner="")
            names.append(job.key.rpartition("/")[2])
    return names


def ready(still: Still, count: int) -> None:
    """A cluster of so many idle nodes."""
    still.cluster(scale=manual(count))
    still.change("UPDATE node SET state = 'idle'")


def queue(still: Still) -> list[str]:
    """The order that users are told."""
    with still.store.read() as db:
        (cluster,) = {cluster for (cluster,) in db.execute("SELECT cluster FROM job")}
        return [key.rpartition("/")[2] for key in job_table.queue_of(db, cluster)]


def test_users_take_turns_however_many_jobs_one_has_queued_first(still: Still) -> None:
    ready(still, 5)
    for name in ("a1", "a2", "a3", "a4"):
        still.job(name, owner="ann")
    for name in ("b1", "b2"):
        still.job(name, owner="bob")
    assert assign(still, 9) == ["a1", "b1", "a2", "b2", "a3"]


def test_nodes_count_not_jobs(still: Still) -> None:
    ready(still, 6)
    still.job("a1", 3, owner="ann")
    for name in ("b1", "b2", "b3"):
        still.job(name, owner="bob")
    still.job("a2", owner="ann")
    assert assign(still, 9) == ["a1", "b1", "b2", "b3"]
    assert queue(still) == ["a2"]


def test_a_higher_priority_comes_before_a_fair_share(still: Still) -> None:
    ready(still, 3)
    for name in ("a1", "a2", "a3"):
        still.job(name, owner="ann", schedulingPriority="high")
    still.job("b1", owner="bob")
    assert assign(still, 9) == ["a1", "a2", "a3"]


def test_nodes_on_other_clusters_count_too(still: Still) -> None:
    still.cluster("other", scale=manual(1))
    still.change("UPDATE node SET state = 'idle'")
    still.job("elsewhere", owner="ann", cluster="other")
    assert assign(still, 1) == ["elsewhere"]
    ready(still, 1)
    still.job("a1", owner="ann")
    still.job("b1", owner="bob")
    assert assign(still, 9) == ["b1"]


def test_a_large_job_of_the_user_who_is_next_is_not_overtaken(still: Still) -> None:
    ready(still, 3)
    still.job("a1", owner="ann")
    assert assign(still, 1) == ["a1"]
    still.job("a2", owner="ann")
    still.job("b1", 3, owner="bob")
    assert assign(still, 9) == []
    assert queue(still) == ["b1", "a2"]


def test_who_runs_as_many_jobs_as_may_lets_others_pass(still: Still) -> None:
    ready(still, 4)
    limits = LocalSettings(max_running_jobs=1)
    for name in ("a1", "a2"):
        still.job(name, owner="ann", limits=limits, schedulingPriority="high")
    still.job("b1", owner="bob", limits=limits)
    assert assign(still, 9) == ["a1", "b1"]
    assert waiting(still) == {"a2": "1 of its user's jobs are running, as many as may run at a time"}
    still.fail(still.experiment.child(Kind.JOB, "a1"))
    assert assign(still, 9) == ["a2"]
    assert waiting(still) == {}


def waiting(still: Still) -> dict[str, str]:
    """Why jobs are queued, as far as a limit is the reason."""
    rows = still.rows("SELECT guid, key FROM job")
    with still.store.read() as db:
        statuses, _ = run_status.run_statuses(db, still.layout, [row["guid"] for row in rows])
    named = {row["key"].rpartition("/")[2]: each.waiting for row, each in zip(rows, statuses, strict=True)}
    return {name: text for name, text in named.items() if text}


def test_a_queue_has_a_limit_for_each_user(still: Still) -> None:
    ready(still, 1)
    limits = LocalSettings(max_queued_jobs=2)
    for name in ("a1", "a2"):
        still.job(name, owner="ann", limits=limits)
    with pytest.raises(ConflictError, match="ann has 2 queued job") as caught:
        still.job("a3", owner="ann", limits=limits)
    assert caught.value.code == "QueuedJobsLimit"
    still.job("b1", owner="bob", limits=limits)
    assert assign(still, 1) == ["a1"]
    still.job("a3", owner="ann", limits=limits)


@pytest.mark.parametrize("seed", range(5))
def test_jobs_start_in_the_order_that_users_are_told(still: Still, seed: int) -> None:
    choose = random.Random(seed)
    ready(still, 60)
    for number in range(15):
        owner, priority = choose.choice(["ann", "bob", "cid", ""]), choose.choice(["low", "normal"])
        still.job(f"j{number}", choose.randint(1, 3), owner=owner, schedulingPriority=priority)
    started = assign(still, 4)
    told = queue(still)
    assert len(started) + len(told) == 15
    assert assign(still, 99) == told
