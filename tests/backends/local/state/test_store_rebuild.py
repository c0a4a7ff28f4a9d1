"""A database that was lost is made again from the folders of jobs; what nobody knows is not made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batchai_magics.backends.folders.run_end import write_end
from batchai_magics.backends.local import process, supervisor
from batchai_magics.backends.local.state import store_rebuild
from batchai_magics.backends.local.state.sqlite_repository import SqliteRepository
from batchai_magics.backends.service.run_labels import RunRecords
from batchai_magics.errors import StorageError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import VERSION
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.runs.labels import LabelChange
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import Still, dead
from tests.contract.place import manual
from tests.patience import PATIENCE_S
from tests.world import World, until

HOLD = """
import os, time
print("up", flush=True)
while not os.path.exists(os.environ["AZ_BATCHAI_MOUNT_ROOT"] + "/autoafs/go"):
    time.sleep(0.05)
print("went on")
"""


def lose(home: Path) -> None:
    """The database goes, and all that belongs to it."""
    for file in home.glob("state.db*"):
        file.unlink()


def found_again(still: Still) -> None:
    """The first look at a home whose database is gone."""
    still.store.close()
    lose(still.layout.home)
    with pytest.warns(RuntimeWarning, match=r"was lost and was rebuilt with \d+ jobs"):
        still.rows("SELECT 1")


def codes(still: Still, job: ResourceId) -> list[str]:
    return [error["code"] for error in json.loads(still.state(job)["errors"])]


@pytest.mark.slow
def test_rebuilt_jobs_keep_their_states_and_running_ones_continue(world: World) -> None:
    ended = [world.run("a"), world.run("b", "raise SystemExit(3)"), world.run("c --nodes 2 --processes 2")]
    running = world.submit("d", HOLD)
    until(lambda: running.log() == "up\n")
    waiting = world.submit("e --nodes 2")
    before = [job.show() for job in ended]
    nodes = {node.id for node in world.backend.nodes(running.id)}
    world.backend.close()
    lose(world.home)
    world.backend.layout.database.touch()  # it is empty, as after a crash of the machine
    with pytest.warns(RuntimeWarning, match="5 jobs"):
        names = [item.id.name for item in world.backend.list(world.experiment, Kind.JOB)]
    assert names == ["a", "b", "c", "d", "e"]
    for job, earlier in zip(ended, before, strict=True):
        assert told(job.show()) == told(earlier)
    assert running.state is ExecutionState.RUNNING
    assert {node.id for node in world.backend.nodes(running.id)} == nodes
    assert waiting.show().execution.errors[0].code == "JobStateLost"
    world.backend.storage.upload("batchaishare", {"go": b""})
    assert running.wait(PATIENCE_S).log() == "up\nwent on\n"
    assert running.state is ExecutionState.SUCCEEDED
    assert world.run("f --nodes 2").state is ExecutionState.SUCCEEDED


def told(job: JobResource) -> tuple[object, ...]:
    """What of a job that has ended has to be as it was."""
    return job.id, job.spec, job.state, job.execution.exit_code, job.execution.errors, job.ranks


@pytest.mark.parametrize(
    "spoilt",
    ["", "[]", f'{{"version": {VERSION - 1}, "rows": {{}}}}', f'{{"version": {VERSION}, "rows": {{}}}}'],
)
def test_folder_without_a_readable_backup_is_skipped(still: Still, spoilt: str) -> None:
    still.cluster()
    good, bad = still.job("good"), still.job("bad")
    still.layout.job(still.state(bad)["guid"]).creation.write_text(spoilt)
    found_again(still)
    assert [row["key"] for row in still.rows("SELECT key FROM job")] == [good.key]


def test_a_job_whose_deletion_was_killed_stays_deleted(still: Still, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    still.cluster()
    kept, deleted = still.job("kept"), still.job("deleted")
    still.fail(deleted)
    monkeypatch.setattr(SqliteRepository, "remove_runs", killed)
    with pytest.raises(KeyboardInterrupt):
        still.backend.delete(deleted)
    found_again(still)
    assert [row["key"] for row in still.rows("SELECT key FROM job")] == [kept.key]


def test_resources_of_jobs_are_rebuilt_once_and_in_order(still: Still) -> None:
    still.cluster(scale=manual(1))
    jobs = [still.job(name) for name in "ba"]
    before = [tuple(row)[1:] for row in still.rows("SELECT * FROM resource ORDER BY seq")]
    found_again(still)
    assert [tuple(row)[1:] for row in still.rows("SELECT * FROM resource ORDER BY seq")] == before
    assert [row["key"] for row in still.rows("SELECT key FROM job ORDER BY rowid")] == [j.key for j in jobs]
    assert [group.name for group in still.backend.groups.list()] == ["g"]
    assert still.job("b") == jobs[0]  # the very same is found, not refused


def test_the_later_of_two_clusters_with_one_name_is_restored(still: Still) -> None:
    cluster = still.cluster()
    still.fail(still.job("a"))
    still.backend.delete(cluster)
    still.cluster(scale=manual(1))
    still.job("b")
    guid = still.guid(cluster)
    found_again(still)
    assert still.guid(cluster) == guid
    assert [row["guid"] for row in still.rows("SELECT guid FROM cluster")] == [guid]
    assert len(still.nodes(cluster)) == 1


def test_baseline_of_each_owner_is_restored(still: Still) -> None:
    still.cluster()
    jobs = [still.job(name, owner=name[0]) for name in ("a1", "b1", "a2")]
    for job in jobs:
        RunRecords(still.context()).relabel(job, LabelChange(("baseline",)))
    found_again(still)
    assert set(RunRecords(still.context()).labels(jobs)) == {job.key for job in jobs[1:]}


def test_the_baseline_is_the_run_that_was_pinned_last(still: Still) -> None:
    still.cluster()
    first, second, third = (still.job(name) for name in ("one", "two", "three"))
    for job in (first, third, second):
        RunRecords(still.context()).relabel(job, LabelChange(("baseline",)))
    RunRecords(still.context()).relabel(third, LabelChange(note="no longer"))
    found_again(still)
    assert RunRecords(still.context()).baseline(first.parent) == "two"


def test_removed_baseline_is_not_restored(still: Still) -> None:
    still.cluster()
    first = still.job("one")
    RunRecords(still.context()).relabel(first, LabelChange(("baseline",)))
    still.job("two")  # whose folder has a copy of the experiment with its baseline
    RunRecords(still.context()).relabel(first, LabelChange(remove=("baseline",)))
    found_again(still)
    assert RunRecords(still.context()).baseline(first.parent) == ""


def test_cluster_is_restored_with_the_size_in_the_newest_backup(still: Still) -> None:
    cluster = still.cluster(scale=manual(1))
    still.job("early")
    still.resize(cluster, 3)
    still.job("late")
    found_again(still)
    (row,) = still.rows("SELECT target FROM cluster")
    assert row["target"] == 3
    assert list(still.nodes(cluster).values()) == ["preparing"] * 3


def test_process_with_a_queued_jobs_secrets_keeps_them_after_a_rebuild(still: Still) -> None:
    still.cluster()
    job = still.job(secrets=[{"name": "TOKEN", "value": "hush"}])
    folder = still.layout.job(still.state(job)["guid"])
    folder.supervisor.write_text(process.own_identity())
    found_again(still)
    row = still.state(job)
    assert (row["state"], row["supervisor"], row["is_assigned"]) == ("queued", process.own_identity(), 0)
    assert "hush" not in folder.creation.read_text()


@pytest.mark.parametrize("is_alive", [True, False])
def test_job_whose_supervisor_is_about_to_bind_its_plan_is_lost_only_if_that_is_dead(
    still: Still, is_alive: bool
) -> None:
    still.cluster()
    job = still.job()
    folder = still.layout.job(still.state(job)["guid"])
    folder.supervisor.write_text(process.own_identity() if is_alive else dead())
    found_again(still)
    row = still.state(job)
    if not is_alive:
        assert codes(still, job) == ["JobStateLost"]
        return
    assert (row["state"], row["supervisor"], row["is_assigned"]) == ("running", process.own_identity(), 1)
    with pytest.raises(LookupError, match="which nodes the job has"):
        supervisor.bind(still.store, still.layout, row["guid"])
    assert not folder.plan.exists()


@pytest.mark.slow
@pytest.mark.parametrize("has_ended", [True, False])
def test_started_job_is_rebuilt_from_the_files_of_its_supervisor(still: Still, has_ended: bool) -> None:
    cluster = still.cluster()
    still.prepare()
    job = still.job(count=2)
    still.schedule()
    folder, nodes = still.layout.job(still.state(job)["guid"]), set(still.nodes(cluster))
    supervisor.bind(still.store, still.layout, still.state(job)["guid"])
    folder.supervisor.write_text(dead())
    if has_ended:
        write_end(folder.end, Outcome(0, ended=12.5))
    found_again(still)
    row = still.state(job)
    expected = ("succeeded", 12.5, 0, 0) if has_ended else ("running", None, None, 1)
    assert (row["state"], row["ended"], row["exit_code"], row["is_assigned"]) == expected
    assert row["started"] > 0
    if not has_ended:
        assert row["supervisor"] == dead()
        assert set(still.nodes(cluster)) == nodes


def test_columns_that_this_version_does_not_know_are_left_out(still: Still) -> None:
    still.cluster()
    job = still.job()
    made = still.layout.job(still.state(job)["guid"]).creation
    data = json.loads(made.read_text())
    data["rows"]["job"][0]["of_tomorrow"] = 1
    made.write_text(json.dumps(data))
    found_again(still)
    assert codes(still, job) == ["JobStateLost"]


def test_job_is_not_created_if_its_backup_cannot_be_written(still: Still, monkeypatch) -> None:
    still.cluster()

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_rebuild, "write_backup", full)
    with pytest.raises(StorageError, match="No space left"):
        still.job()
    assert not still.rows("SELECT 1 FROM job")
    assert not list(still.layout.jobs.glob("*"))
