"""Records of how a process ended and what logs were: whole or not there, whatever happens meanwhile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.node.ranks import signed_records
from batchai_magics.backends.node.ranks.signed_records import (
    ROOM,
    LogSeal,
    SignedRecord,
    exit_record,
    exits_in,
    seal_record,
    seals_in,
)
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


def test_a_record_of_logs_has_its_room_from_the_start_and_many_logs_more(tmp_path: Path) -> None:
    assert seals_in(tmp_path / "logs") is None
    record = seal_record(tmp_path / "logs")
    room = (tmp_path / "logs").stat()
    few = {"stdout.txt": LogSeal(7, "abc"), "stderr.txt": LogSeal(0, "def", 3)}
    many = {f"stdout-{rank}.txt": LogSeal(rank, "0" * 64) for rank in range(200)}
    for seals in (few, many):
        assert record.write(seals)
        assert seals_in(tmp_path / "logs") == seals
        if seals == few:
            now = (tmp_path / "logs").stat()
            assert (now.st_size, now.st_blocks) == (room.st_size, room.st_blocks)
            assert room.st_blocks > 0
