"""Resources as files: made once, changed one after the other, whoever does it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.folders.file_repository import LOCK_EXPIRY_S, FileRepository, try_lock
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.machines.machine import LocalMachine
from batchai_magics.backends.service.repository import Record
from batchai_magics.errors import NotFoundError
from batchai_magics.models.ids import Kind, ResourceId

WORKSPACE = ResourceId("s", "g", "w", Kind.WORKSPACE, "w")
EXPERIMENT = WORKSPACE.child(Kind.EXPERIMENT, "e")
JOB = EXPERIMENT.child(Kind.JOB, "Job")
COUNT_UP = """
import sys
from pathlib import Path
from batchai_magics.backends.machines.machine import LocalMachine
from batchai_magics.backends.folders.file_repository import FileRepository
from batchai_magics.backends.folders.layout import Layout
from tests.backends.folders.test_file_repository import WORKSPACE
records = FileRepository(Layout(Path(sys.argv[1])), LocalMachine())
for _ in range(20):
    with records.locked(WORKSPACE):
        file = Path(sys.argv[1]) / "count"
        file.write_text(str(int(file.read_text()) + 1))
"""


def record(id: ResourceId, guid: str = "1", created: float = 1.0) -> Record:
    return Record(str(id), guid, "{}", "", created)


@pytest.fixture
def records(tmp_path: Path) -> FileRepository:
    """A workspace with an experiment."""
    made = FileRepository(Layout(tmp_path), LocalMachine())
    made.insert(WORKSPACE, record(WORKSPACE))
    made.insert(EXPERIMENT, record(EXPERIMENT))
    return made


def test_who_comes_second_gets_what_the_first_has_written(records: FileRepository) -> None:
    assert records.insert(JOB, record(JOB, "first")) is None
    again = records.insert(JOB, record(JOB, "second"))
    assert again
    assert (again.guid, records.get(JOB).guid) == ("first", "first")


def test_of_many_at_once_one_is_first(records: FileRepository) -> None:
    with ThreadPoolExecutor(8) as pool:
        guids = [str(number) for number in range(8)]
        before = list(pool.map(lambda guid: records.insert(JOB, record(JOB, guid)), guids))
    assert before.count(None) == 1
    assert {each.guid for each in before if each} == {records.get(JOB).guid}


def test_names_are_found_in_any_letter_case_and_kept_as_they_are(records: FileRepository) -> None:
    records.insert(JOB, record(JOB))
    assert records.get(EXPERIMENT.child(Kind.JOB, "JOB")).resource_id.name == "Job"


def test_lists_are_in_the_order_of_creation(records: FileRepository) -> None:
    for name, created in (("c", 2.0), ("a", 3.0), ("b", 10.0)):
        id = EXPERIMENT.child(Kind.JOB, name)
        records.insert(id, record(id, created=created))
    assert records.names(EXPERIMENT, Kind.JOB) == ["c", "a", "b"]


def test_the_outermost_that_is_missing_is_named(records: FileRepository) -> None:
    with pytest.raises(NotFoundError, match="experiment nope"):
        records.get(WORKSPACE.child(Kind.EXPERIMENT, "nope").child(Kind.JOB, "x"))


def test_no_change_gets_lost(records: FileRepository) -> None:
    def count_up(_: int) -> None:
        records.change(WORKSPACE, lambda now: replace(now, more={"count": now.more.get("count", 0) + 1}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count_up, range(20)))
    assert records.get(WORKSPACE).more == {"count": 20}


@pytest.mark.slow
def test_two_processes_never_hold_one_lock(records: FileRepository, tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    line = [sys.executable, "-c", COUNT_UP, str(tmp_path)]
    others = [subprocess.Popen(line) for _ in range(2)]
    assert [other.wait() for other in others] == [0, 0]
    assert (tmp_path / "count").read_text() == "40"


def test_a_lock_whose_owner_has_died_goes(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert try_lock(lock)
    assert not try_lock(lock)
    long_ago = time.time() - LOCK_EXPIRY_S - 5
    os.utime(lock, (long_ago, long_ago))
    assert not try_lock(lock)
    assert try_lock(lock)


def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    made = FileRepository(Layout(tmp_path / "inner"), LocalMachine())
    odd = ResourceId("..", "..", "w", Kind.WORKSPACE, "w")
    made.insert(odd, record(odd))
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]
    made.delete(odd)
    assert made.find(odd) is None
