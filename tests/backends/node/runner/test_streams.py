"""What a rank's output becomes on its way to the job's files: whole lines, who wrote them, when, secrets."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.node.outcome import unwritable
from batchai_magics.backends.node.runner import streams
from batchai_magics.backends.node.runner.log_seals import LogSeal
from batchai_magics.backends.node.runner.printed_secrets import PLACE
from batchai_magics.backends.node.runner.streams import SPAN, STAMP, LogWriter, Stream
from batchai_magics.launch.plan import LogFile


def stream(folder: Path, number: int = 0, *, is_shared: bool = True) -> Stream:
    log = LogFile(str(folder / "out"), str(folder / "spans") if is_shared else "", str(folder / "times"))
    return Stream(LogWriter(log), number)


def written(folder: Path) -> bytes:
    return (folder / "out").read_bytes()


def spans(folder: Path) -> list[tuple[int, int, int]]:
    return list(SPAN.iter_unpack((folder / "spans").read_bytes()))


# -- whole lines ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "expected"), [(b"abc", b"abc\n"), (b"abc\n", b"abc\n"), (b"10%\r", b"10%\r"), (b"", b"")]
)
def test_a_shared_ranks_last_unended_line_is_ended(tmp_path: Path, last: bytes, expected: bytes) -> None:
    out = stream(tmp_path)
    out.feed(last)
    out.finish()
    assert written(tmp_path) == expected
    assert spans(tmp_path) == ([(0, len(expected), 0)] if expected else [])


def test_a_line_that_came_in_pieces_is_ended_once(tmp_path: Path) -> None:
    out = stream(tmp_path)
    for piece in (b"a\nb", b"c", b"d\ne"):
        out.feed(piece)
    assert written(tmp_path) == b"a\nbcd\n"
    out.finish()
    assert written(tmp_path) == b"a\nbcd\ne\n"


def test_a_lone_processs_output_stays_as_it_is(tmp_path: Path) -> None:
    out = stream(tmp_path, is_shared=False)
    out.feed(b"a\nno end")
    out.finish()
    assert written(tmp_path) == b"a\nno end"
    assert not (tmp_path / "spans").exists()


def test_a_shared_rank_shows_its_progress_and_keeps_what_follows(tmp_path: Path) -> None:
    out = stream(tmp_path)
    out.feed(b"10%\r20%\r30")
    assert written(tmp_path) == b""
    out.show()
    assert written(tmp_path) == b"10%\r20%\r"
    out.feed(b"% done\n")
    assert written(tmp_path) == b"10%\r20%\r30% done\n"


def test_a_lone_process_shows_its_unfinished_line(tmp_path: Path) -> None:
    out = stream(tmp_path, is_shared=False)
    out.feed(b"password: ")
    assert written(tmp_path) == b""
    out.show()
    assert written(tmp_path) == b"password: "


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_bar_that_is_drawn_without_a_pause_is_due_soon(tmp_path: Path, monkeypatch, is_shared) -> None:
    now = {"s": 100.0}
    clock = SimpleNamespace(time=lambda: now["s"], monotonic=lambda: now["s"])
    monkeypatch.setattr(streams, "time", clock)
    out = stream(tmp_path, is_shared=is_shared)
    assert out.due_s is None
    for _ in range(10):
        out.feed(b"10%\r")
        now["s"] += 0.1
    assert out.due_s == 100.0 + streams.IDLE_S
    out.show()
    assert out.due_s is None


def test_what_is_kept_of_a_quiet_rank_still_counts_against_the_longest_line(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(streams, "LONGEST_LINE", 8)
    out = stream(tmp_path)
    out.feed(b"\r12345")
    out.show()
    out.feed(b"6789")
    assert written(tmp_path) == b"\r123456789\n"


def test_a_line_too_long_to_keep_is_cut_in_whole_lines(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(streams, "LONGEST_LINE", 8)
    out = stream(tmp_path)
    out.feed(b"12345678")
    assert written(tmp_path) == b""
    out.feed(b"9")
    assert written(tmp_path) == b"123456789\n"
    out.feed(b"rest\n")
    assert written(tmp_path) == b"123456789\nrest\n"


# -- who wrote what, when ------------------------------------------------------


def test_each_ranks_bytes_are_its_own_span(tmp_path: Path) -> None:
    first, second = stream(tmp_path, 3), stream(tmp_path, 5)
    first.feed(b"one\n")
    second.feed(b"second\n")
    first.feed(b"three\n")
    assert spans(tmp_path) == [(0, 4, 3), (4, 11, 5), (11, 17, 3)]


def watched(monkeypatch, folder: Path, see) -> list[object]:
    """What `see` gives before each piece that is written."""
    seen: list[object] = []

    def write(file: int, data: bytes) -> int:
        seen.append(see(data))
        return os.write(file, data)

    monkeypatch.setattr(streams, "os", SimpleNamespace(**{**vars(os), "write": write}))
    return seen


def test_nobody_else_writes_while_a_rank_notes_what_it_wrote(tmp_path: Path, monkeypatch) -> None:
    """Another rank, and even a reader with a shared lock, is kept out until the span is noted."""

    def is_held(_: bytes) -> bool:
        with (tmp_path / "out").open("rb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    held = watched(monkeypatch, tmp_path, is_held)
    stream(tmp_path).feed(b"line\n")
    assert held == [True, True, True]  # the time, the line, the span
    with (tmp_path / "out").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # and let go of again


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_time_is_noted_before_its_line_and_not_for_every_line(tmp_path, monkeypatch, is_shared) -> None:
    now = {"s": 100.0}
    clock = SimpleNamespace(time=lambda: now["s"], monotonic=lambda: now["s"], sleep=lambda _: None)
    monkeypatch.setattr(streams, "time", clock)
    order = watched(monkeypatch, tmp_path, len)
    out = stream(tmp_path, is_shared=is_shared)
    for moment in (100.0, 100.0625, 100.125, 50.0):  # a clock set back counts too
        now["s"] = moment
        out.feed(b"line\n")
    found = list(STAMP.iter_unpack((tmp_path / "times").read_bytes()))
    assert found == [(0, 100.0), (10, 100.125), (15, 50.0)]
    assert order[:2] == [STAMP.size, 5]


def test_the_time_of_each_change_between_two_logs_is_noted(tmp_path, monkeypatch) -> None:
    now = {"s": 100.0}
    clock = SimpleNamespace(time=lambda: now["s"], monotonic=lambda: now["s"])
    monkeypatch.setattr(streams, "time", clock)
    turns = streams.Turns()
    logs = [LogFile(str(tmp_path / name), "", str(tmp_path / f"{name}.times")) for name in ("out", "err")]
    out, err = (Stream(LogWriter(log, (), turns), 0) for log in logs)
    for each in (out, out, err, out):
        now["s"] += 1 / 64
        each.feed(b"line\n")
    times = [list(STAMP.iter_unpack(Path(log.times).read_bytes())) for log in logs]
    assert times == [[(0, 100 + 1 / 64), (10, 100 + 4 / 64)], [(0, 100 + 3 / 64)]]


def test_without_a_file_of_times_none_is_noted(tmp_path: Path) -> None:
    out = Stream(LogWriter(LogFile(str(tmp_path / "out"))), 0)
    out.feed(b"line\n")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# -- secrets -------------------------------------------------------------------


def secretive(folder: Path, number: int = 0, *, is_shared: bool = True) -> Stream:
    spans = str(folder / "spans") if is_shared else ""
    log = LogFile(str(folder / "out"), spans, hidden=str(folder / "hidden"))
    return Stream(LogWriter(log, (b"hunter2",)), number)


def hidden(folder: Path) -> list[tuple[int, int]]:
    return list(PLACE.iter_unpack((folder / "hidden").read_bytes()))


def test_where_a_secret_is_printed_is_noted(tmp_path: Path) -> None:
    first, second = secretive(tmp_path, 0), secretive(tmp_path, 1)
    first.feed(b"none here\nit is hun")
    second.feed(b"hunter2 of another\n")
    first.feed(b"ter2!\n")
    first.finish()
    assert written(tmp_path) == b"none here\nhunter2 of another\nit is hunter2!\n"
    assert hidden(tmp_path) == [(10, 17), (35, 42)]


def test_a_secret_is_noted_before_anybody_can_read_it(tmp_path: Path, monkeypatch) -> None:
    out = secretive(tmp_path)
    seen = watched(monkeypatch, tmp_path, lambda _: (tmp_path / "out").stat().st_size)
    out.feed(b"hunter2\n")
    assert seen == [0, 0, 8]  # the place, then the line, then whose it is


def test_a_pause_within_a_secret_does_not_show_its_beginning(tmp_path: Path) -> None:
    out = secretive(tmp_path, is_shared=False)
    out.feed(b"token: hun")
    out.show()
    assert written(tmp_path) == b"token: "
    out.feed(b"ter2")
    out.show()
    assert written(tmp_path) == b"token: hunter2"
    assert hidden(tmp_path) == [(7, 14)]


def test_what_only_looked_like_a_secret_is_written_at_the_end(tmp_path: Path) -> None:
    out = secretive(tmp_path, is_shared=False)
    out.feed(b"token: hun")
    out.show()
    out.finish()
    assert written(tmp_path) == b"token: hun"
    assert hidden(tmp_path) == []


# -- a full disk ---------------------------------------------------------------


class Disk:
    """A disk with room for so many bytes, for what a writer does to it."""

    def __init__(self, monkeypatch, room: int) -> None:
        self.room = room
        monkeypatch.setattr(streams, "os", SimpleNamespace(**{**vars(os), "write": self._write}))

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
        writer = LogWriter(LogFile(f"{folder}/out", f"{folder}/spans"))
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
    monkeypatch.setattr(streams, "time", clock)
    disk = Disk(monkeypatch, 2)
    writer = LogWriter(LogFile(str(tmp_path / "out")))
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
    monkeypatch.setattr(streams, "LOCK_S", 0.0)
    writer = LogWriter(LogFile(str(tmp_path / "out"), str(tmp_path / "spans")))
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


def test_a_log_that_cannot_be_locked_at_all_is_said_to_be_so(tmp_path: Path, monkeypatch) -> None:
    def refuse(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(streams.fcntl, "flock", refuse)
    writer = LogWriter(LogFile(str(tmp_path / "out"), str(tmp_path / "spans")))
    writer.write(0, b"line\n")
    assert writer.problem
    assert writer.problem.strerror == "No locks available"


# -- a file of one's own -------------------------------------------------------


def test_what_one_process_writes_is_in_its_own_file_too(tmp_path: Path) -> None:
    shared = LogWriter(LogFile(str(tmp_path / "out"), str(tmp_path / "spans")))
    for number in (0, 1):
        out = Stream(shared, number, LogWriter(LogFile(str(tmp_path / f"out-{number}"))))
        out.feed(b"first of %d\nlast" % number)
        out.finish()
    assert written(tmp_path) == b"first of 0\nlast\nfirst of 1\nlast\n"
    assert [(tmp_path / f"out-{n}").read_bytes() for n in (0, 1)] == [
        b"first of 0\nlast",
        b"first of 1\nlast",
    ]


def test_a_secret_in_a_file_of_ones_own_is_noted_by_its_place_there(tmp_path: Path) -> None:
    own = LogFile(str(tmp_path / "own"), hidden=str(tmp_path / "hidden"))
    log = LogFile(str(tmp_path / "out"), str(tmp_path / "spans"))
    stream(tmp_path, 1).feed(b"another's\n")
    Stream(LogWriter(log), 0, LogWriter(own, (b"hunter2",))).feed(b"hunter2\n")
    assert hidden(tmp_path) == [(0, 7)]


# -- what the whole of it was --------------------------------------------------


def seal_of(data: bytes, lost: int = 0) -> LogSeal:
    return LogSeal(len(data), hashlib.sha256(data).hexdigest(), lost)


def test_a_log_knows_all_that_was_written_to_it(tmp_path: Path) -> None:
    out = stream(tmp_path)
    for piece in (b"a\nb", b"c\n", b"end"):
        out.feed(piece)
    out.finish()
    assert out.writer.seal == seal_of(b"a\nbc\nend\n") == seal_of(written(tmp_path))


def test_what_a_full_disk_did_not_take_is_counted_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = stream(tmp_path)
    out.feed(b"kept\n")
    monkeypatch.setattr(streams, "os", no_room())
    out.feed(b"12345\n")
    out.feed(b"more\nrest")
    out.lose(100)  # that are still in the pipe
    assert out.writer.seal == seal_of(b"kept\n", len(b"12345\nmore\nrest") + 100)


def no_room() -> SimpleNamespace:
    """The system's calls, on a disk that takes nothing any more."""

    def write(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    return SimpleNamespace(write=write, lseek=os.lseek, SEEK_END=os.SEEK_END, ftruncate=os.ftruncate)


def test_a_log_that_others_write_to_is_known_as_it_is_found(tmp_path: Path) -> None:
    out = stream(tmp_path)
    out.feed(b"one\n")
    with (tmp_path / "out").open("ab") as file:
        file.write(b"somebody else\n")
    out.feed(b"two\n")
    assert out.writer.seal == seal_of(b"one\nsomebody else\ntwo\n")


def test_records_begin_anew_with_a_log_that_was_cut(tmp_path: Path) -> None:
    first = stream(tmp_path, 0)
    second = Stream(first.writer, 1)
    first.feed(b"long before it is cut\n")
    os.truncate(tmp_path / "out", 0)
    second.feed(b"anew\n")
    assert spans(tmp_path) == [(0, 5, 1)]
    assert [start for start, _ in STAMP.iter_unpack((tmp_path / "times").read_bytes())] == [0]
    assert first.writer.seal == seal_of(b"anew\n")
