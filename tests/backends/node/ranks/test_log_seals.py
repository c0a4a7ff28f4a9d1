"""What logs were at their end, kept in a record that has its room from the start."""

from __future__ import annotations

from pathlib import Path

from batchai_magics.backends.node.ranks.signed_records import LogSeal, seal_record, seals_in

SEALS = {"stdout.txt": LogSeal(7, "abc"), "stderr.txt": LogSeal(0, "def", 3)}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    record = seal_record(tmp_path / "logs")
    assert record.write(SEALS)
    assert seals_in(tmp_path / "logs") == SEALS


def test_a_record_has_its_room_from_the_start_and_many_logs_more(tmp_path: Path) -> None:
    record = seal_record(tmp_path / "logs")
    room = (tmp_path / "logs").stat().st_size
    record.write(SEALS)
    assert (tmp_path / "logs").stat().st_size == room > 0
    many = {f"stdout-{rank}.txt": LogSeal(rank, "0" * 64) for rank in range(200)}
    assert record.write(many)
    assert seals_in(tmp_path / "logs") == many


def test_without_a_record_nothing_is_known(tmp_path: Path) -> None:
    assert seals_in(tmp_path / "logs") is None
