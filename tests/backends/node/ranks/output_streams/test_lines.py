"""What a rank's output becomes on its way to the job's files: whole lines."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from batchai_magics.backends.node.ranks import output_streams
from tests.backends.node.ranks.output_streams.logs import spans, stream, written


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
    out.write_unfinished()
    assert written(tmp_path) == b"10%\r20%\r"
    out.feed(b"% done\n")
    assert written(tmp_path) == b"10%\r20%\r30% done\n"


def test_a_lone_process_shows_its_unfinished_line(tmp_path: Path) -> None:
    out = stream(tmp_path, is_shared=False)
    out.feed(b"password: ")
    assert written(tmp_path) == b""
    out.write_unfinished()
    assert written(tmp_path) == b"password: "


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_bar_that_is_drawn_without_a_pause_is_due_soon(tmp_path: Path, monkeypatch, is_shared) -> None:
    now = {"s": 100.0}
    clock = SimpleNamespace(time=lambda: now["s"], monotonic=lambda: now["s"])
    monkeypatch.setattr(output_streams, "time", clock)
    out = stream(tmp_path, is_shared=is_shared)
    assert out.due_s is None
    for _ in range(10):
        out.feed(b"10%\r")
        now["s"] += 0.1
    assert out.due_s == 100.0 + output_streams.IDLE_S
    out.write_unfinished()
    assert out.due_s is None


def test_what_is_kept_of_a_quiet_rank_still_counts_against_the_longest_line(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(output_streams, "MAX_LINE", 8)
    out = stream(tmp_path)
    out.feed(b"\r12345")
    out.write_unfinished()
    out.feed(b"6789")
    assert written(tmp_path) == b"\r123456789\n"


def test_a_line_too_long_to_keep_is_cut_in_whole_lines(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(output_streams, "MAX_LINE", 8)
    out = stream(tmp_path)
    out.feed(b"12345678")
    assert written(tmp_path) == b""
    out.feed(b"9")
    assert written(tmp_path) == b"123456789\n"
    out.feed(b"rest\n")
    assert written(tmp_path) == b"123456789\nrest\n"
