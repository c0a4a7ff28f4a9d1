"""Records as files: their locks, and where they are."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service.file_repository import FileRepository
from batchai_magics.backends.service.row_files import LOCK_EXPIRY_S, try_lock
from batchai_magics.errors import StorageError
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.backends.service.records.homes import EXPERIMENT, JOB, WORKSPACE, FileHome, filled, record


def test_expired_lock_is_removed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert try_lock(lock)
    assert not try_lock(lock)
    long_ago = time.time() - LOCK_EXPIRY_S - 5
    os.utime(lock, (long_ago, long_ago))
    assert not try_lock(lock)
    assert try_lock(lock)


def test_no_resource_name_escapes_the_folder(tmp_path: Path) -> None:
    made = FileRepository(Layout(tmp_path / "inner"))
    odd = ResourceId("..", "..", "w", Kind.WORKSPACE, "w")
    made.insert(record(odd))
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]
    made.delete(odd)
    assert made.find(odd) is None


def test_interrupted_deletion_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = filled(FileHome(tmp_path))
    records.insert(record(JOB))
    unlink, gone = Path.unlink, []

    def unlinked(path: Path, missing_ok: bool = False) -> None:
        if gone:
            raise InterruptedError
        gone.append(path)
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlinked)
        with pytest.raises(InterruptedError):
            records.delete(WORKSPACE)
    assert (records.find(JOB), records.get(EXPERIMENT).name) == (None, "e")
    records.delete(WORKSPACE)
    assert records.find_all([WORKSPACE, EXPERIMENT]) == []


@pytest.mark.parametrize("text", ["", "[" * 100_000, '{"id": 1, "odd": 2}'], ids=["empty", "deep", "odd"])
def test_damaged_record_is_skipped_in_lists_and_named_when_read(tmp_path: Path, text: str) -> None:
    records = filled(FileHome(tmp_path))
    other = JOB.parent.child(Kind.JOB, "damaged")
    records.insert(record(JOB))
    records.insert(record(other))
    (file,) = tmp_path.rglob("=damaged.json")
    file.write_text(text)
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert [each.name for each in records.find_all([JOB, other])] == [JOB.name]
    with pytest.raises(StorageError, match=r"=damaged\.json is damaged"):
        records.find(other)
