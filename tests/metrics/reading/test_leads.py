"""Tags at the starts of lines: which blocks are even enough to be read at once, and what a tag is."""

from __future__ import annotations

import pytest

from batchai_magics.metrics.reading.leads import TagShapes, last_key, tag_lead
from batchai_magics.metrics.reading.prefixes import StreamKey

EVEN = b"[1,0]<stdout>:one\n[1,11]<stderr>:two\n"


def test_a_block_whose_lines_each_begin_with_a_tag_is_even_the_first_time_and_again() -> None:
    shapes = TagShapes()
    assert shapes.fit(EVEN)
    assert shapes.fit(EVEN.replace(b"1", b"7"))


@pytest.mark.parametrize(
    "lines",
    [b"one\n" + EVEN, EVEN + b"one\n", b"[1,0]<stdout>:a[1,1]<stdout>:b\n", b"a[1,0]<stdout>:b\n"],
    ids=["one without a tag comes first", "one without a tag comes last", "two tags", "text before the tag"],
)
def test_a_block_with_another_line_is_not_even(lines: bytes) -> None:
    shapes = TagShapes()
    assert not shapes.fit(lines)
    assert shapes.fit(EVEN)
    assert not shapes.fit(lines)


def test_the_lead_of_a_tag_ends_with_the_tag() -> None:
    assert tag_lead(b"[3]<stdout>: text\n") == b"[3]<stdout>:"
    assert tag_lead(b"<stdout>:text\n") == b"<stdout>:"
    assert tag_lead(b"text\n") == b""
    assert tag_lead(b"[3]<stdout>:a\n[4]<stderr>:b\n", 14) == b"[4]<stderr>:"


def test_the_stream_of_the_last_line_is_the_current_one() -> None:
    assert last_key(EVEN) == StreamKey(11, b"stderr")
