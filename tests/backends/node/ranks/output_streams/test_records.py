"""What is noted of a log beside it: who wrote what, when, and what the whole of it was."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from batchai_magics.backends.node.ranks import output_streams
from batchai_magics.backends.node.ranks.output_streams import TIME, LogWriter, ProcessStream
from batchai_magics.launch.plan import LogPaths
from tests.backends.node.ranks.output_streams.logs import seal_of, spans, stream, watched, written


def test_each_ranks_bytes_are_its_own_span(tmp_path: Path) -> None:
    first, second = stream(tmp_path, 3), stream(tmp_path, 5)
    first.feed(b"one\n")
    second.feed(b"second\n")
    first.feed(b"three\n")
    assert spans(tmp_path) == [(0, 4, 3), (4, 11, 5), (11, 17, 3)]


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
    monkeypatch.setattr(output_streams, "time", clock)
    order = watched(monkeypatch, tmp_path, len)
    out = stream(tmp_path, is_shared=is_shared)
    for moment in (100.0, 100.0625, 100.125, 50.0):  # a clock set back counts too
        now["s"] = moment
        out.feed(b"line\n")
    found = list(TIME.iter_unpack((tmp_path / "times").read_bytes()))
    assert found == [(0, 100.0), (10, 100.125), (15, 50.0)]
    assert order[:2] == [TIME.size, 5]


def test_the_time_of_each_change_between_two_logs_is_noted(tmp_path, monkeypatch) -> None:
    now = {"s": 100.0}
    clock = SimpleNamespace(time=lambda: now["s"], monotonic=lambda: now["s"])
    monkeypatch.setattr(output_streams, "time", clock)
    last_writer = output_streams.LastWriter()
    logs = [LogPaths(str(tmp_path / name), "", str(tmp_path / f"{name}.times")) for name in ("out", "err")]
    out, err = (ProcessStream(LogWriter(log, (), last_writer), 0) for log in logs)
    for each in (out, out, err, out):
        now["s"] += 1 / 64
        each.feed(b"line\n")
    times = [list(TIME.iter_unpack(Path(log.times).read_bytes())) for log in logs]
    assert times == [[(0, 100 + 1 / 64), (10, 100 + 4 / 64)], [(0, 100 + 3 / 64)]]


def test_without_a_file_of_times_none_is_noted(tmp_path: Path) -> None:
    out = ProcessStream(LogWriter(LogPaths(str(tmp_path / "out"))), 0)
    out.feed(b"line\n")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_one_process_writes_is_in_its_own_file_too(tmp_path: Path) -> None:
    shared = LogWriter(LogPaths(str(tmp_path / "out"), str(tmp_path / "spans")))
    for number in (0, 1):
        out = ProcessStream(shared, number, LogWriter(LogPaths(str(tmp_path / f"out-{number}"))))
        out.feed(b"first of %d\nlast" % number)
        out.finish()
    assert written(tmp_path) == b"first of 0\nlast\nfirst of 1\nlast\n"
    assert [(tmp_path / f"out-{n}").read_bytes() for n in (0, 1)] == [
        b"first of 0\nlast",
        b"first of 1\nlast",
    ]


def test_a_log_knows_all_that_was_written_to_it(tmp_path: Path) -> None:
    out = stream(tmp_path)
    for piece in (b"a\nb", b"c\n", b"end"):
        out.feed(piece)
    out.finish()
    assert out.writer.seal == seal_of(b"a\nbc\nend\n") == seal_of(written(tmp_path))


def test_a_log_that_others_write_to_is_known_as_it_is_found(tmp_path: Path) -> None:
    out = stream(tmp_path)
    out.feed(b"one\n")
    with (tmp_path / "out").open("ab") as file:
        file.write(b"somebody else\n")
    out.feed(b"two\n")
    assert out.writer.seal == seal_of(b"one\nsomebody else\ntwo\n")


def test_records_begin_anew_with_a_log_that_was_cut(tmp_path: Path) -> None:
    first = stream(tmp_path, 0)
    second = ProcessStream(first.writer, 1)
    first.feed(b"long before it is cut\n")
    os.truncate(tmp_path / "out", 0)
    second.feed(b"anew\n")
    assert spans(tmp_path) == [(0, 5, 1)]
    assert [start for start, _ in TIME.iter_unpack((tmp_path / "times").read_bytes())] == [0]
    assert first.writer.seal == seal_of(b"anew\n")
