"""Tags at the starts of lines: which blocks are even enough to be read at once, and what a tag is."""

from __future__ import annotations

import pytest

from batchai_magics.metrics.reading.line_prefixes import (
    DIGITS_TO_ZERO,
    TagShapes,
    clean_lines,
    parse_prefix,
    parse_prefix_cached,
    text_through_tag,
    timestamp_slices,
)
from batchai_magics.metrics.reading.prefix_patterns import StreamKey
from batchai_magics.metrics.reading.timestamps import parse_timestamp

EVEN = b"[1,0]<stdout>:one\n[1,11]<stderr>:two\n"


def is_even(lines: bytes, shapes: TagShapes) -> bool:
    return clean_lines(lines, shapes, is_tagged=True) == lines


def test_a_block_whose_lines_each_begin_with_a_tag_is_even_the_first_time_and_again() -> None:
    shapes = TagShapes()
    assert is_even(EVEN, shapes)
    assert is_even(EVEN.replace(b"1", b"7"), shapes)


def test_shapes_of_tags_that_are_known_are_not_learnt_again(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = TagShapes()
    assert is_even(EVEN, shapes)
    monkeypatch.setattr(TagShapes, "_learn", None)
    assert is_even(EVEN.replace(b"1", b"7") * 3, shapes)


@pytest.mark.parametrize(
    "lines",
    [b"one\n" + EVEN, EVEN + b"one\n", b"[1,0]<stdout>:a[1,1]<stdout>:b\n", b"a[1,0]<stdout>:b\n"],
    ids=["one without a tag comes first", "one without a tag comes last", "two tags", "text before the tag"],
)
def test_a_block_with_another_line_is_not_even(lines: bytes) -> None:
    shapes = TagShapes()
    assert not is_even(lines, shapes)
    assert is_even(EVEN, shapes)
    assert not is_even(lines, shapes)


def test_the_lead_of_a_tag_ends_with_the_tag() -> None:
    assert text_through_tag(b"[3]<stdout>: text\n") == b"[3]<stdout>:"
    assert text_through_tag(b"<stdout>:text\n") == b"<stdout>:"
    assert text_through_tag(b"text\n") == b""
    assert text_through_tag(b"[3]<stdout>:a\n[4]<stderr>:b\n", 14) == b"[4]<stderr>:"


AIRFLOW = b"[2019-03-02T10:00:01,%03d] {bash.py:173} INFO - [1,3]<stdout>:"


def test_what_is_remembered_is_what_is_read() -> None:
    for lead in (AIRFLOW % 250, AIRFLOW % 999, b"[1,3]<stdout>:", b"[pod/a/main] ", b"no lead: "):
        assert parse_prefix(lead) == parse_prefix_cached(lead)
    first, second = parse_prefix(AIRFLOW % 250), parse_prefix(AIRFLOW % 500)
    assert first is not None
    assert first.key == StreamKey(3)
    assert second is not None
    assert first.timestamp is not None
    assert second.timestamp is not None
    assert second.timestamp.seconds - first.timestamp.seconds == 0.25


@pytest.mark.parametrize(
    "form",
    [
        "2026-{}-02 10:05:{},087 INFO",
        "[2026-{}-02T10:05:{}.5+01:30] ",
        "2026-{}-02 23:59:{}",
        "{}/02/2026 10:05:{}",
    ],
)
def test_times_of_many_lines_are_those_of_each(form: str) -> None:
    lines = [
        form.format(*parts).encode() for parts in (("03", "07"), ("13", "07"), ("03", "60"), ("12", "59"))
    ]
    slices = timestamp_slices(lines[0].translate(DIGITS_TO_ZERO), 0, len(lines[0]))
    assert slices is not None
    each = [parse_timestamp(line) for line in lines]
    assert slices.seconds_of(lines) == [found and found.seconds for found in each]
    assert [slices.parse(line) for line in lines] == each
