"""The record of how a process ended: whole or not there, whatever happens while it is written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.node.ranks import signed_records
from batchai_magics.backends.node.ranks.signed_records import ROOM, SignedRecord, exit_record, exits_in
from batchai_magics.launch.plan import ProcessExit

END = ProcessExit(3, "node-0", 7, 1.5)


@pytest.fixture
def record(tmp_path: Path):
    made = exit_record(str(tmp_path), 3)
    yield made
    made.close()


def test_a_record_that_is_written_is_read(record: SignedRecord, tmp_path: Path) -> None:
    assert exits_in(tmp_path) == []
    assert record.write(END._asdict())
    assert exits_in(tmp_path) == [END]


def test_a_record_takes_no_room_when_it_is_written(record: SignedRecord, tmp_path: Path) -> None:
    before = (tmp_path / "3").stat()
    record.write(END._asdict())
    after = (tmp_path / "3").stat()
    assert (before.st_size, before.st_blocks) == (ROOM, after.st_blocks)
    assert after.st_size == ROOM
    assert before.st_blocks > 0


@given(st.integers(0, ROOM - 1))
def test_a_half_written_record_is_none(tmp_path_factory, size: int) -> None:
    folder = tmp_path_factory.mktemp("exits")
    record = exit_record(str(folder), 3)
    record.write(END._asdict())
    record.close()
    whole = (folder / "3").read_bytes()
    (folder / "3").write_bytes(whole[:size] + b" " * (ROOM - size))
    assert exits_in(folder) in ([], [END] if not whole[size:].strip() else [])


def test_a_disk_without_room_costs_the_room_alone(tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(signed_records, "os", SimpleNamespace(**{**vars(signed_records.os), "pwrite": refuse}))
        record = exit_record(str(tmp_path), 3)
        assert not record.write(END._asdict())
    assert exits_in(tmp_path) == []
    assert record.write(END._asdict())
    assert exits_in(tmp_path) == [END]
    record.close()
