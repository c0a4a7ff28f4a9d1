"""Where lines start and end, for any bytes: the same as splitting them one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.log_lines import (
    line_bounds,
    line_end,
    line_start,
    lines_at_end,
    shown_start,
    state_start,
    visible_text,
    whole_lines_end,
)

logs = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b""])).map(b"".join)


@given(logs)
def test_the_starts_cut_a_log_into_its_lines(data: bytes) -> None:
    lines = [data[start:end] for start, end in line_bounds(data)]
    assert b"".join(lines) == data
    assert [line.count(b"\n") for line in lines[:-1]] == [1] * (len(lines) - 1 if lines else 0)
    assert all(line.endswith(b"\n") for line in lines[:-1])


@given(logs, st.integers(0, 20))
def test_every_byte_is_between_the_start_and_the_end_of_its_line(data: bytes, at: int) -> None:
    at = min(at, len(data))
    start, end = line_start(data, at), line_end(data, at) or len(data)
    assert start <= at <= end
    assert b"\n" not in data[start:at]
    assert data[at:end].rstrip(b"\n").count(b"\n") == 0


def test_whole_lines_end_with_the_last_newline() -> None:
    assert (whole_lines_end(b"a\nb\nc"), whole_lines_end(b"abc"), whole_lines_end(b"a\n")) == (4, 0, 2)
    assert (line_end(b"abc"), line_end(b"a\nb", 1), line_end(b"a\nb", 2)) == (0, 2, 0)


def test_a_terminal_shows_what_was_written_last_on_a_line() -> None:
    assert visible_text(b"10%\r20%\r\n") == b"20%"
    assert visible_text("10%\r20%\r") == "20%"
    assert visible_text(b"plain\n") == b"plain"
    assert shown_start(b"10%\r20%\r\n") == 4


def test_a_state_begins_after_either_end() -> None:
    assert (state_start(b"a\nb\rc"), state_start(b"a\nb\rc", 3), state_start(b"abc")) == (4, 2, 0)


def test_each_state_of_a_progress_bar_counts_as_a_line_at_the_end() -> None:
    assert lines_at_end(b"a\nb\rc\r\nd", 3) == [b"b\r", b"c\r\n", b"d"]
    assert lines_at_end(b"a\nb", 0) == []
