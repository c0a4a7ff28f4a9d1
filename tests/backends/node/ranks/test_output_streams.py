"""What a rank's output becomes: whole lines, whose and of when they are, which are secret, which are lost."""

from __future__ import annotations

import base64
import errno
import fcntl
import hashlib
import json
import os
import re
import tempfile
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.node.ranks import output_streams
from batchai_magics.backends.node.ranks.output_streams import (
    MIN_LENGTH,
    SECRET,
    SPAN,
    TIME,
    LogWriter,
    ProcessStream,
    find_spans,
    partial_match_length,
    search_patterns,
)
from batchai_magics.backends.node.ranks.signed_records import LogSeal
from batchai_magics.launch.plan import LogPaths


def stream(folder: Path, number: int = 0, *, is_shared: bool = True, write=os.write) -> ProcessStream:
    log = LogPaths(str(folder / "out"), str(folder / "spans") if is_shared else "", str(folder / "times"))
    return ProcessStream(LogWriter(log, write=write), number)


def written(folder: Path) -> bytes:
    return (folder / "out").read_bytes()


def spans(folder: Path) -> list[tuple[int, int, int]]:
    return list(SPAN.iter_unpack((folder / "spans").read_bytes()))


def noting(seen: list[object], see) -> Callable[[int, bytes], int]:
    """Writes, and notes what `see` gives before each piece."""

    def write(file: int, data: bytes) -> int:
        seen.append(see(data))
        return os.write(file, data)

    return write


def hidden(folder: Path) -> list[tuple[int, int]]:
    return list(SECRET.iter_unpack((folder / "hidden").read_bytes()))


def seal_of(data: bytes, lost: int = 0) -> LogSeal:
    return LogSeal(len(data), hashlib.sha256(data).hexdigest(), lost)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time `s`, which stands still until a test moves it."""
    now = SimpleNamespace(s=100.0)
    still = SimpleNamespace(time=lambda: now.s, monotonic=lambda: now.s, sleep=lambda _: None)
    monkeypatch.setattr(output_streams, "time", still)
    return now


# -- lines


@pytest.mark.parametrize(
    ("last", "expected"), [(b"abc", b"abc\n"), (b"abc\n", b"abc\n"), (b"10%\r", b"10%\r"), (b"", b"")]
)
def test_a_shared_ranks_last_unended_line_is_ended(tmp_path, last, expected):
    out = stream(tmp_path)
    out.feed(last)
    out.finish()
    assert written(tmp_path) == expected
    assert spans(tmp_path) == ([(0, len(expected), 0)] if expected else [])


def test_a_shared_rank_shows_its_progress_and_keeps_what_follows(tmp_path):
    out = stream(tmp_path)
    out.feed(b"10%\r20%\r30")
    assert written(tmp_path) == b""
    out.write_unfinished()
    assert written(tmp_path) == b"10%\r20%\r"
    out.feed(b"% done\n")
    assert written(tmp_path) == b"10%\r20%\r30% done\n"


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_bar_that_is_drawn_without_a_pause_is_due_soon(tmp_path, clock, is_shared):
    out = stream(tmp_path, is_shared=is_shared)
    assert out.due_s is None
    for _ in range(10):
        out.feed(b"10%\r")
        clock.s += 0.1
    assert out.due_s == 100.0 + output_streams.IDLE_S
    out.write_unfinished()
    assert out.due_s is None


def test_a_lone_process_shows_its_unfinished_line_soon(tmp_path, clock):
    out = stream(tmp_path, is_shared=False)
    out.feed(b"password: ")
    assert (out.due_s, written(tmp_path)) == (100.0 + output_streams.IDLE_S, b"")
    out.write_unfinished()
    assert written(tmp_path) == b"password: "


def test_unfinished_output_counts_towards_the_longest_line(tmp_path):
    out, begun = stream(tmp_path), b"x" * output_streams.MAX_LINE
    out.feed(b"\r" + begun[:-1])
    out.write_unfinished()
    out.feed(b"12")
    assert written(tmp_path) == b"\r" + begun[:-1] + b"12\n"


def test_a_line_too_long_to_keep_is_cut_in_whole_lines(tmp_path):
    out, longest = stream(tmp_path), b"x" * output_streams.MAX_LINE
    out.feed(longest)
    assert written(tmp_path) == b""
    out.feed(b"9")
    assert written(tmp_path) == longest + b"9\n"
    out.feed(b"rest\n")
    assert written(tmp_path) == longest + b"9\nrest\n"


# -- what is noted of a log


def test_log_is_locked_until_the_span_is_recorded(tmp_path):
    """Another rank, and even a reader with a shared lock, is kept out until the span is noted."""

    def is_held(_: bytes) -> bool:
        with (tmp_path / "out").open("rb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    held: list[object] = []
    stream(tmp_path, write=noting(held, is_held)).feed(b"line\n")
    assert held == [True, True, True]  # the time, the line, the span
    with (tmp_path / "out").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # and let go of again


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_time_is_noted_before_its_line_and_not_for_every_line(tmp_path, clock, is_shared):
    order: list[object] = []
    out = stream(tmp_path, is_shared=is_shared, write=noting(order, len))
    for moment in (100.0, 100.0625, 100.125, 50.0):  # a clock set back counts too
        clock.s = moment
        out.feed(b"line\n")
    found = list(TIME.iter_unpack((tmp_path / "times").read_bytes()))
    assert found == [(0, 100.0), (10, 100.125), (15, 50.0)]
    assert order[:2] == [TIME.size, 5]


def test_the_time_of_each_change_between_two_logs_is_noted(tmp_path, clock):
    last_writer = output_streams.LastWriter()
    logs = [LogPaths(str(tmp_path / name), "", str(tmp_path / f"{name}.times")) for name in ("out", "err")]
    out, err = (ProcessStream(LogWriter(log, (), last_writer), 0) for log in logs)
    for each in (out, out, err, out):
        clock.s += 1 / 64
        each.feed(b"line\n")
    times = [list(TIME.iter_unpack(Path(log.times).read_bytes())) for log in logs]
    assert times == [[(0, 100 + 1 / 64), (10, 100 + 4 / 64)], [(0, 100 + 3 / 64)]]


def test_the_seal_covers_bytes_that_others_wrote_to_the_log(tmp_path):
    out = stream(tmp_path)
    out.feed(b"one\n")
    with (tmp_path / "out").open("ab") as file:
        file.write(b"somebody else\n")
    out.feed(b"two\n")
    assert out.writer.seal == seal_of(b"one\nsomebody else\ntwo\n")


def test_records_begin_anew_with_a_log_that_was_cut(tmp_path):
    first = stream(tmp_path, 0)
    second = ProcessStream(first.writer, 1)
    first.feed(b"long before it is cut\n")
    os.truncate(tmp_path / "out", 0)
    second.feed(b"anew\n")
    assert spans(tmp_path) == [(0, 5, 1)]
    assert [start for start, _ in TIME.iter_unpack((tmp_path / "times").read_bytes())] == [0]
    assert first.writer.seal == seal_of(b"anew\n")


# -- secrets


def secretive(folder: Path, number: int = 0, *, is_shared: bool = True, write=os.write) -> ProcessStream:
    spans = str(folder / "spans") if is_shared else ""
    log = LogPaths(str(folder / "out"), spans, hidden=str(folder / "hidden"))
    return ProcessStream(LogWriter(log, (b"hunter2",), write=write), number)


def test_offsets_of_printed_secrets_are_recorded(tmp_path):
    first, second = secretive(tmp_path, 0), secretive(tmp_path, 1)
    first.feed(b"none here\nit is hun")
    second.feed(b"hunter2 of another\n")
    first.feed(b"ter2!\n")
    first.finish()
    assert written(tmp_path) == b"none here\nhunter2 of another\nit is hunter2!\n"
    assert hidden(tmp_path) == [(10, 17), (35, 42)]


def test_the_offsets_of_a_secret_are_recorded_before_its_line_is_written(tmp_path):
    seen: list[object] = []
    out = secretive(tmp_path, write=noting(seen, lambda _: (tmp_path / "out").stat().st_size))
    out.feed(b"hunter2\n")
    assert seen == [0, 0, 8]  # the place, then the line, then whose it is


def test_a_pause_within_a_secret_does_not_show_its_beginning(tmp_path):
    out = secretive(tmp_path, is_shared=False)
    out.feed(b"token: hun")
    out.write_unfinished()
    assert written(tmp_path) == b"token: "
    out.feed(b"ter2")
    out.write_unfinished()
    assert written(tmp_path) == b"token: hunter2"
    assert hidden(tmp_path) == [(7, 14)]


def test_the_beginning_of_a_secret_alone_is_written_at_the_end(tmp_path):
    out = secretive(tmp_path, is_shared=False)
    out.feed(b"token: hun")
    out.write_unfinished()
    out.finish()
    assert written(tmp_path) == b"token: hun"
    assert hidden(tmp_path) == []


def test_offsets_of_a_secret_are_those_in_the_file_of_the_rank(tmp_path):
    own = LogPaths(str(tmp_path / "own"), hidden=str(tmp_path / "hidden"))
    log = LogPaths(str(tmp_path / "out"), str(tmp_path / "spans"))
    stream(tmp_path, 1).feed(b"another's\n")
    ProcessStream(LogWriter(log), 0, LogWriter(own, (b"hunter2",))).feed(b"hunter2\n")
    assert hidden(tmp_path) == [(0, 7)]


# -- a full disk


class Disk:
    """A disk with room for so many bytes, for what a writer does to it."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, file: int, data: bytes) -> int:
        if not self.room:
            raise OSError(28, "No space left on device")
        count = min(self.room, len(data))
        self.room -= count
        return os.write(file, data[:count])


@given(st.lists(st.tuples(st.integers(0, 1), st.binary(min_size=1, max_size=9)), max_size=6), st.data())
def test_output_refused_by_a_full_disk_is_written_later_whole_and_in_order(pieces, data):
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(0)
        writer = LogWriter(LogPaths(f"{folder}/out", f"{folder}/spans"), write=disk.write)
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


def test_stuck_since_is_the_first_refusal_after_the_last_written_byte(tmp_path, clock):
    disk = Disk(2)
    writer = LogWriter(LogPaths(str(tmp_path / "out")), write=disk.write)
    writer.write(0, b"abcdef")
    assert writer.stuck_since == 100.0
    clock.s = 200.0
    writer.flush()
    assert writer.stuck_since == 100.0
    disk.room = 1
    writer.flush()
    assert writer.stuck_since == 200.0
    assert writer.problem
    assert writer.problem.errno == 28


def test_log_locked_by_another_process_does_not_block_ranks(tmp_path):
    writer = LogWriter(LogPaths(str(tmp_path / "out"), str(tmp_path / "spans")))
    with (tmp_path / "out").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for rank in (0, 1):
            writer.write(rank, b"line\n")
        assert writer.stuck_since is not None
        assert writer.problem
        assert writer.problem.strerror == "another process has out locked"
        assert (written(tmp_path), writer.seal.lost) == (b"", 10)
    writer.flush()
    assert writer.stuck_since is None
    assert (written(tmp_path), spans(tmp_path)) == (b"line\n" * 2, [(0, 5, 0), (5, 10, 1)])
    with (tmp_path / "out").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it lets go of it as before


@pytest.mark.parametrize(("room", "expected"), [(0, errno.ENOSPC), (1 << 20, errno.EAGAIN)])
def test_output_that_waits_for_a_lock_on_a_full_disk_fails_because_the_disk_is_full(tmp_path, room, expected):
    """The process that has the lock waits for room, too."""
    log = LogPaths(str(tmp_path / "out"), str(tmp_path / "spans"))
    writer = LogWriter(log, write=Disk(room).write)
    with (tmp_path / "out").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        writer.write(0, b"line\n")
        assert writer.failure
        assert writer.failure.errno == expected


def test_output_refused_by_a_full_disk_at_the_end_is_counted_as_lost(tmp_path):
    disk = Disk(1 << 20)
    out = stream(tmp_path, write=disk.write)
    out.feed(b"kept\n")
    disk.room = 0
    out.feed(b"12345\n")
    out.feed(b"more\nrest")
    out.discard(100)  # that are still in the pipe
    assert out.writer.seal == seal_of(b"kept\n", len(b"12345\nmore\nrest") + 100)


# -- how a secret is written


TOKEN = 'pa/ss "wörd"+1'


def redacted(data: bytes, *values: str) -> bytes:
    shown = bytearray(data)
    for start, end in find_spans(data, search_patterns(values)):
        shown[start:end] = b"*" * (end - start)
    return bytes(shown)


@pytest.mark.parametrize(
    "written",
    [
        TOKEN,
        json.dumps(TOKEN)[1:-1],
        json.dumps(TOKEN, ensure_ascii=False)[1:-1],
        repr(TOKEN)[1:-1],
        urllib.parse.quote(TOKEN, safe=""),
        urllib.parse.quote(TOKEN),
        re.sub("%..", lambda match: match[0].lower(), urllib.parse.quote(TOKEN, safe="")),
        json.dumps(TOKEN)[1:-1].replace("/", "\\/"),
        base64.b64encode(TOKEN.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("="),
        base64.b64encode(f"{TOKEN}\n".encode()).decode().rstrip("="),
    ],
)
def test_secrets_are_found_in_every_encoding(written):
    data = written.encode()
    assert redacted(b"token: " + data + b".\n", TOKEN) == b"token: " + b"*" * len(data) + b".\n"


def test_a_value_is_found_in_base64_of_several_lines():
    value = "correct horse battery staple " * 5
    shown = redacted(base64.encodebytes(value.encode()), value)
    assert [len(line.strip(b"*=")) for line in shown.splitlines()] == [0] * 3


@pytest.mark.parametrize("user", ["", "u", "me", "you", "someone@example.org"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_value_is_found_in_the_credentials_of_http_basic(user, encode):
    value = "hunter2-in-the-open"
    said = b"Authorization: Basic " + encode(f"{user}:{value}/more".encode())
    shown = redacted(said, value).rpartition(b" ")[2].rstrip(b"=")
    stars = shown.count(b"*")
    assert b"*" * stars in shown
    assert stars >= len(value) * 8 // 6 - 2  # at both ends a character may hold bits of something else


def test_each_line_of_a_value_is_found_by_itself():
    assert redacted(b"-----\nfirst-part\n", "BEGIN KEY\r\nfirst-part\n}\n") == b"-----\n**********\n"


@pytest.mark.parametrize("value", ["", "x", "0", "true", "12345"])
def test_a_short_value_is_not_sought(value):
    assert redacted(b"true 12345 x 0\n", value) == b"true 12345 x 0\n"
    assert len(value) < MIN_LENGTH


def test_values_that_overlap_are_hidden_wholly():
    assert redacted(b"abcdefghij", "abcdefg", "efghij") == b"*" * 10
    assert redacted(b"xaaaaaaay", "aaaaaa") == b"x*******y"


def test_a_value_that_is_no_utf8_is_found():
    assert redacted(b"\xff\xfe1234.", b"\xff\xfe1234".decode("utf-8", "surrogateescape")) == b"******."


@pytest.mark.parametrize(("data", "count"), [(b"say hun", 3), (b"hunter", 6), (b"hunter2", 0), (b"x", 0)])
def test_partial_match_length_counts_bytes_that_may_begin_a_secret(data, count):
    assert partial_match_length(data, [b"hunter2"]) == count
