"""Which bytes of a log a reader of progress gets, of which rank, and when they were written."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from batchai_magics.backends.base import Chunk, Span, WriteTime
from batchai_magics.jobs.job_model import read_progress
from batchai_magics.metrics.reading.progress_reader import BAR_BYTES, MAX_LINES, ProgressReader

NOW = 100.0


@dataclass
class Noting(ProgressReader):
    """Notes what it is given, and reads it."""

    given: list[tuple[str, bytes, int | None, float]] = field(default_factory=list)

    def feed(self, data: bytes, *, at: float, stream: str = "", rank: int | None = None) -> bool:
        self.given.append((stream, data, rank, at))
        return super().feed(data, at=at, stream=stream, rank=rank)


def chunk(data: bytes, *spans: Span, offset: int = 0, times: tuple[WriteTime, ...] = ()) -> Chunk:
    size = offset + len(data)
    return Chunk(data=data, offset=offset, size=size, is_complete=False, spans=spans, times=times)


def test_bytes_of_nobody_known_are_of_now() -> None:
    reader = Noting()
    assert read_progress(reader, "stdout.txt", chunk(b"step 3/40\n"), now=NOW)
    assert reader.given == [("stdout.txt", b"step 3/40\n", None, NOW)]


def test_the_bytes_of_one_rank_are_of_the_last_time_that_is_known() -> None:
    reader, times = Noting(), (WriteTime(0, 7.0), WriteTime(2, 8.0), WriteTime(4, 9.0))
    assert not read_progress(reader, "stdout.txt", chunk(b"hello\n", Span(0, 6, 2), times=times), now=NOW)
    assert reader.given == [("stdout.txt", b"hello\n", 2, 9.0)]


def test_each_rank_is_a_stream_of_its_own_in_the_order_of_writing() -> None:
    reader = Noting()
    text = b"st" + b"step 1/40\n" + b"ep 2/40\n"
    spans = (Span(98, 102, 1), Span(102, 112, 0), Span(112, 120, 1))
    assert read_progress(reader, "out", chunk(text, *spans, offset=100), now=NOW)
    assert reader.given == [
        ("out#1", b"st", 1, NOW),
        ("out#0", b"step 1/40\n", 0, NOW),
        ("out#1", b"ep 2/40\n", 1, NOW),
    ]


def test_a_rank_behind_one_that_is_believed_is_left_out() -> None:
    reader = Noting()
    reader.feed(b"step 1/40\n", at=1.0, rank=0)
    reader.given.clear()
    spans = (Span(0, 10, 0), Span(10, 20, 1))
    assert read_progress(reader, "out", chunk(b"step 2/40\nstep 9/40\n", *spans), now=NOW)
    assert reader.given == [("out#0", b"step 2/40\n", 0, NOW)]


@pytest.mark.parametrize(
    ("each", "most"), [(1, MAX_LINES), (BAR_BYTES // 2, 2), (BAR_BYTES // 2 + 1, 2), (BAR_BYTES // 2 - 1, 3)]
)
def test_no_more_than_the_newest_bytes_and_lines_are_read(each: int, most: int) -> None:
    reader, count = Noting(), MAX_LINES + 9
    spans = [Span(number * each, (number + 1) * each, number % 2) for number in range(count)]
    assert not read_progress(reader, "out", chunk(b"x" * each * count, *spans), now=NOW)
    assert len(reader.given) == most
    assert reader.given[-1] == (f"out#{(count - 1) % 2}", b"x" * each, (count - 1) % 2, NOW)
