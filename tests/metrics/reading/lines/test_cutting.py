"""A stream of bytes in whole lines: what is left at its end."""

from __future__ import annotations

from batchai_magics.metrics.reading.line_splitter import Block, LineSplitter


def test_the_last_line_is_given_once_and_what_comes_then_stands_behind_it() -> None:
    cutter = LineSplitter()
    assert list(cutter.feed(b"one\ntw")) == [Block(b"one\n", 0)]
    assert cutter.carry == b"tw"
    assert cutter.finish() == Block(b"tw", 4)
    assert not cutter.carry
    assert cutter.finish() is None
    assert list(cutter.feed(b"o\n")) == [Block(b"o\n", 6)]
