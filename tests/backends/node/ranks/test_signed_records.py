"""Records of how a process ended and what logs were: whole or not there, whatever happens meanwhile."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.local.process import PACKAGE_ROOT
from batchai_magics.backends.node.ranks import signed_records
from batchai_magics.backends.node.ranks.signed_records import (
    ROOM,
    SMALL_LOG_BYTES,
    GrowingSeal,
    LogSeal,
    exit_record,
    exits_in,
    seal_record,
    seals_in,
    seals_of_logs,
)
from batchai_magics.launch.plan import ProcessExit

END = ProcessExit(3, "node-0", 7, 1.5)


@pytest.fixture
def record(tmp_path: Path):
    made = exit_record(str(tmp_path), 3)
    yield made
    made.close()


def test_a_record_that_is_written_is_read(record, tmp_path):
    assert exits_in(tmp_path) == []
    assert record.write(END._asdict())
    assert exits_in(tmp_path) == [END]


@given(st.integers(0, ROOM - 1))
def test_a_half_written_record_is_none(tmp_path_factory, size):
    folder = tmp_path_factory.mktemp("exits")
    record = exit_record(str(folder), 3)
    record.write(END._asdict())
    record.close()
    whole = (folder / "3").read_bytes()
    (folder / "3").write_bytes(whole[:size] + b" " * (ROOM - size))
    assert exits_in(folder) in ([], [END] if not whole[size:].strip() else [])


def test_a_disk_without_room_costs_the_room_alone(tmp_path, monkeypatch):
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


def test_a_record_of_logs_has_its_room_from_the_start_and_many_logs_more(tmp_path):
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


@pytest.mark.parametrize("size", [0, 1, SMALL_LOG_BYTES, SMALL_LOG_BYTES + 1, 5 * SMALL_LOG_BYTES // 2])
def test_a_seal_has_the_digest_of_a_log_of_any_size(tmp_path, size):
    data, growing = bytes(range(251)) * (size // 251 + 1), GrowingSeal("")
    for start in range(0, size, 1000):
        growing.add(memoryview(data)[start : min(size, start + 1000)])
    expected = LogSeal(size, hashlib.sha256(data[:size]).hexdigest())
    assert growing.seal(0) == growing.seal(0) == expected
    (tmp_path / "stdout.txt").write_bytes(data[:size])
    assert seals_of_logs(tmp_path) == {"stdout.txt": expected}


@pytest.mark.slow
@pytest.mark.parametrize(("size", "is_loaded"), [(SMALL_LOG_BYTES, False), (SMALL_LOG_BYTES + 1, True)])
def test_only_a_large_log_loads_openssl(size, is_loaded):
    program = f"""import sys; sys.path.insert(0, {PACKAGE_ROOT!r})
from batchai_magics.backends.node.ranks.signed_records import GrowingSeal
growing = GrowingSeal(""); growing.add(bytes({size})); growing.seal(0)
print("_hashlib" in sys.modules)"""
    shown = subprocess.check_output([sys.executable, "-I", "-S", "-c", program], text=True)
    assert shown == f"{is_loaded}\n"
