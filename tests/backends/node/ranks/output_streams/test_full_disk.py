"""A disk or another process that takes nothing: what was refused is written later, or counted as lost."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.node.outcome import unwritable
from batchai_magics.backends.node.ranks import output_streams
from batchai_magics.backends.node.ranks.output_streams import LogWriter
from batchai_magics.launch.plan import LogPaths
from tests.backends.node.ranks.output_streams.logs import seal_of, spans, stream, written


class Disk:
    """A disk with room for so many bytes, for what a writer does to it."""

    def __init__(self, monkeypatch, room: int) -> None:
        self.room = room
        monkeypatch.setattr(output_streams, "os", SimpleNamespace(**{**vars(os), "write": self._write}))

    def _write(self, file: int, data: bytes) -> int:
        if not self.room:
            raise OSError(28, "No space left on device")
        count = min(self.room, len(data))
        self.room -= count
        return os.write(file, data[:count])


@given(st.lists(st.tuples(st.integers(0, 1), st.binary(min_size=1, max_size=9)), max_size=6), st.data())
def test_what_a_full_disk_refused_is_written_whole_and_in_order(pieces, data) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch, tempfile.TemporaryDirectory() as folder:
        disk = Disk(monkeypatch, 0)
        writer = LogWriter(LogPaths(f"{folder}/out", f"{folder}/spans"))
        for rank, piece in pieces:
            disk.room = data.draw(st.integers(0, 30))
            writer.write(rank, piece)
        disk.room = 1 << 20
        writer.flush()
        writer.close()
        assert writer.stuck_since is None
        assert written(Path(folder)) == b"".join(piece for _, piece in pieces)
        found = spans(Path(folder))
        assert [(end - start, rank) for start, end, rank in found] == [(len(p), rank) for rank, p in pieces]


def test_a_writer_tells_since_when_the_disk_refuses_and_every_byte_taken_starts_that_anew(
    tmp_path: Path, monkeypatch
) -> None:
    now = {"s": 1.0}
    clock = SimpleNamespace(time=lambda: now["s"], monotonic=lambda: now["s"])
    monkeypatch.setattr(output_streams, "time", clock)
    disk = Disk(monkeypatch, 2)
    writer = LogWriter(LogPaths(str(tmp_path / "out")))
    writer.write(0, b"abcdef")
    assert writer.stuck_since == 1.0
    now["s"] = 2.0
    writer.flush()
    assert writer.stuck_since == 1.0
    disk.room = 1
    writer.flush()
    assert writer.stuck_since == 2.0
    assert writer.problem
    assert writer.problem.errno == 28


def test_a_log_that_another_process_keeps_locked_holds_nobody_up(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(output_streams, "LOCK_TIMEOUT_S", 0.0)
    writer = LogWriter(LogPaths(str(tmp_path / "out"), str(tmp_path / "spans")))
    with (tmp_path / "out").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for rank in (0, 1):
            writer.write(rank, b"line\n")
        assert writer.stuck_since is not None
        assert writer.problem
        assert unwritable(writer.problem).errors[0] == {
            "code": "OutputLost",
            "message": "The job's output could not be written: another process has out locked",
        }
        assert (written(tmp_path), writer.seal.lost) == (b"", 10)
    writer.flush()
    assert writer.stuck_since is None
    assert (written(tmp_path), spans(tmp_path)) == (b"line\n" * 2, [(0, 5, 0), (5, 10, 1)])
    with (tmp_path / "out").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it lets go of it as before


def test_what_a_full_disk_did_not_take_is_counted_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = stream(tmp_path)
    out.feed(b"kept\n")
    monkeypatch.setattr(output_streams, "os", no_room())
    out.feed(b"12345\n")
    out.feed(b"more\nrest")
    out.discard(100)  # that are still in the pipe
    assert out.writer.seal == seal_of(b"kept\n", len(b"12345\nmore\nrest") + 100)


def no_room() -> SimpleNamespace:
    """The system's calls, on a disk that takes nothing any more."""

    def write(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    return SimpleNamespace(write=write, lseek=os.lseek, SEEK_END=os.SEEK_END, ftruncate=os.ftruncate)
