"""What is removed from this machine: that and nothing else, at a cost that does not grow."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from batchai_magics.backends.local import scheduler, unmanaged_mounts
from batchai_magics.models.resource_ids import Kind
from tests.backends.local.still import Still
from tests.contract.place import manual
from tests.default_resources import ensure_defaults
from tests.world import World

pytestmark = pytest.mark.slow


def size_bytes(world: World, part: str) -> int:
    return {each.name: each.size_bytes for each in world.backend.cleaning.stored_items()}[part]


def test_a_link_to_itself_hides_no_file_beside_it(world: World) -> None:
    shares = world.home / "shares"
    for number in range(20):
        (shares / f"{number}").write_bytes(bytes(10_000))
        (shares / f"link-{number}").symlink_to(f"link-{number}")
    assert size_bytes(world, "file shares") >= 200_000


def test_cleaning_counts_and_removes_all_but_foreign_files(world: World) -> None:
    job = world.run("one", "import os; print(os.getcwd())")
    folder = Path(job.log().strip())
    assert folder == world.home / "jobs" / world.guid(job) / "workdir" / job.ranks()[0].node
    before = size_bytes(world, "jobs")
    (folder / "model.pt").write_bytes(bytes(1 << 20))
    assert size_bytes(world, "jobs") - before == 1 << 20
    (world.home / "mine.txt").write_text("of no concern")
    (world.home / "shares" / "link").symlink_to(world.home / "mine.txt")
    world.backend.cleaning.clean()
    assert [path.name for path in world.home.iterdir()] == ["mine.txt"]
    assert not world.backend.list(world.workspace, Kind.WORKSPACE)
    ensure_defaults(world.backend, world.settings)  # it is a home as good as new
    assert world.run("two").log() == "hello\n"


def test_folders_that_are_deeper_than_a_recursion_or_a_path_are_counted_and_deleted_with_their_job(
    world: World,
) -> None:
    name = "d" * 60
    job = world.run("deep", f"import os\nfor _ in range(1500): os.mkdir('{name}'); os.chdir('{name}')")
    folder = world.home / "jobs" / world.guid(job)
    try:
        assert size_bytes(world, "jobs")
        job.delete()
        assert not folder.exists()
    finally:  # pytest itself could not remove it
        subprocess.run(["rm", "-rf", folder], check=True)


def test_an_experiment_of_many_waiting_jobs_is_deleted_in_as_few_transactions_as_one_of_few(
    still: Still,
) -> None:
    still.cluster(scale=manual(0))
    transactions = []
    for count in (2, 60):
        for number in range(count):
            still.job(f"j{number}")
        seen: list[str] = []
        with still.store.read() as db:
            db.set_trace_callback(seen.append)
            still.backend.delete(still.experiment)
            db.set_trace_callback(None)
        transactions.append(seen.count("BEGIN IMMEDIATE"))
        assert not still.rows("SELECT 1 FROM job")
        still.create_experiment()
    assert transactions[0] == transactions[1] <= 3


def test_folder_of_a_deleted_cluster_is_removed_with_its_last_run(still: Still) -> None:
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
