"""Records that several threads and processes change at once, are killed over, or have no room for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from batchai_magics.backends.service.repository import Repository
from batchai_magics.errors import StorageError, is_disk_full
from tests.backends.local.namespace import scene, tell
from tests.backends.service.records.homes import (
    JOB,
    WORKSPACE,
    FileHome,
    Home,
    SqliteHome,
    another,
    filled,
    job_named,
    record,
)
from tests.small_disk import SmallDisk
from tests.world import until

COUNT_UP = """
for _ in range(20):
    records.change(WORKSPACE, lambda now: now.changed({"count": now.more.get("count", 0) + 1}))
"""
HELD = """
def changed(now):
    (home.folder / "held").touch()
    while not (home.folder / "go").exists():
        time.sleep(0.01)
    return now.changed({"by": "another"})
records.change(WORKSPACE, changed)
"""
KILLED = """
def killed(now):
    os.kill(os.getpid(), signal.SIGKILL)
records.change(WORKSPACE, killed)
"""


def test_one_of_concurrent_insertions_succeeds(records: Repository) -> None:
    with ThreadPoolExecutor(8) as pool:
        guids = [str(number) for number in range(8)]
        before = list(pool.map(lambda guid: records.insert(record(JOB, guid)), guids))
    assert before.count(None) == 1
    assert {each.guid for each in before if each} == {records.get(JOB).guid}


@pytest.mark.slow
def test_concurrent_changes_are_all_made(home: Home, records: Repository) -> None:
    others = [another(COUNT_UP, home) for _ in range(2)]
    assert [other.wait() for other in others] == [0, 0]
    assert records.get(WORKSPACE).more == {"count": 40}


@pytest.mark.slow
def test_record_can_be_read_while_another_process_changes_it(home: Home, records: Repository) -> None:
    other = another(HELD, home)
    until((home.folder / "held").exists)
    assert records.get(WORKSPACE).more == {}
    with ThreadPoolExecutor() as pool:
        ours = pool.submit(records.change, WORKSPACE, lambda now: now.changed({"ours": now.more["by"]}))
        (home.folder / "go").touch()
        assert ours.result().more == {"by": "another", "ours": "another"}
    assert other.wait() == 0


@pytest.mark.slow
def test_a_process_that_is_killed_within_a_change_changes_nothing(home: Home, records: Repository) -> None:
    assert another(KILLED, home).wait() == -9
    assert records.get(WORKSPACE).more == {}
    home.outlive_locks()
    assert records.change(WORKSPACE, lambda now: now.changed({"n": 1})).more == {"n": 1}


def a_full_disk_of(home: Home) -> None:
    """What can be done with records on a disk without a free byte, the reserve apart."""
    disk = SmallDisk(home.folder)
    home = type(home)(disk.folder / "state")
    records = filled(home)
    for name in "ab":
        records.insert(record(job_named(name)))
    disk.fill()
    with pytest.raises((StorageError, OSError)) as refused:
        records.insert(record(JOB, text="z" * 8_000_000))
    assert is_disk_full(refused.value) or refused.value.code == "DiskFull"
    tell([each.name for each in records.subtree(WORKSPACE)])
    records.delete(job_named("a"))
    tell([each.name for each in home.opened().subtree(WORKSPACE)])
    disk.free()
    records.insert(record(JOB))
    tell(home.opened().get(JOB).name)


def full_disk_of_files(folder: Path) -> None:
    a_full_disk_of(FileHome(folder / "disk"))


def full_disk_of_sqlite(folder: Path) -> None:
    a_full_disk_of(SqliteHome(folder / "disk"))


@pytest.mark.slow
@pytest.mark.parametrize("play", [full_disk_of_files, full_disk_of_sqlite])
def test_on_a_full_disk_nothing_is_half_written_and_records_are_deleted(play, tmp_path: Path) -> None:
    before, after, again = scene(play, tmp_path)
    assert sorted(before) == ["a", "b", "c", "e", "w"]
    assert sorted(after) == ["b", "c", "e", "w"]
    assert again == "Job"
