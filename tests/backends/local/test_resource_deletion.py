"""Deleting many at once: what it costs does not grow with them; and a cluster that a run still uses."""

from __future__ import annotations

import pytest

from batchai_magics.backends.local import process, scheduler, unmanaged_mounts
from tests.backends.local.still import Still
from tests.contract.place import manual


def statements_of_deletion(still: Still, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the store is asked and told while the experiment is deleted."""
    seen: list[str] = []
    with still.store.read() as db:
        db.set_trace_callback(seen.append)
        still.backend.delete(still.experiment)
        db.set_trace_callback(None)
    return seen


@pytest.mark.slow
def test_an_experiment_of_many_waiting_jobs_is_deleted_in_as_few_transactions_as_one_of_few(
    still: Still, monkeypatch: pytest.MonkeyPatch
) -> None:
    still.cluster(scale=manual(0))
    transactions = []
    for count in (2, 60):
        for number in range(count):
            still.job(f"j{number}")
        seen = statements_of_deletion(still, monkeypatch)
        transactions.append(seen.count("BEGIN IMMEDIATE"))
        assert not still.rows("SELECT 1 FROM job")
        still.create_experiment()
    assert transactions[0] == transactions[1] <= 3


@pytest.mark.slow
def test_jobs_that_never_began_are_deleted_without_a_look_at_all_processes(
    still: Still, monkeypatch: pytest.MonkeyPatch
) -> None:
    still.cluster(scale=manual(0))
    for number in range(20):
        still.job(f"j{number}")
    looks: list[str] = []
    monkeypatch.setattr(process, "marked", lambda guid: looks.append(guid) or [])
    still.backend.delete(still.experiment)
    assert not looks


def test_the_folder_of_a_deleted_cluster_goes_with_its_last_run(still: Still) -> None:
    cluster = still.cluster()
    still.prepare()
    jobs = [still.job("one"), still.job("two")]
    assert len(scheduler.assign_all(still.store)) == 2
    folder = still.layout.cluster(still.guid(cluster))
    still.backend.delete(cluster)
    for job in jobs:
        unmanaged_mounts.sweep(still.store, still.layout)
        assert folder.exists()
        still.fail(job)
    unmanaged_mounts.sweep(still.store, still.layout)
    assert not folder.exists()


def test_the_folder_of_a_cluster_that_is_being_created_stays(still: Still) -> None:
    folder = still.layout.cluster("of-no-record-yet")
    folder.mkdir(parents=True)
    unmanaged_mounts.sweep(still.store, still.layout)
    assert folder.exists()
