"""Whole lines in a buffer: the step lines that are read at once, and the lines that only the parser reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.reading.bulk_columns import NO_RANK, StepColumns
from batchai_magics.metrics.reading.bulk_scan import Scanner
from batchai_magics.metrics.reading.bulk_steps import NEWLINE, RATE, Steps, read_steps
from batchai_magics.metrics.reading.bulk_tags import NAMES, Tags, read_tags
from batchai_magics.metrics.reading.lines import MAX_LINE_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_WINDOW_BYTES = MAX_LINE_BYTES // 2  # in a line of MAX_LINE_BYTES at least one whole window has no newline
_CONTROLS = b"\x1b\0\b"


@dataclass(frozen=True)
class BlockColumns:
    """Whole lines, taken apart: `steps` holds outside of `hard`, spans of lines that the parser must read.

    A step's rank is that of its line's tag, or NO_RANK; `tag_rows` tells the last tag before each step.
    """

    places: Array
    steps: StepColumns
    tags: Tags
    tag_rows: Array
    hard: list[tuple[int, int]]


def take_apart(scanner: Scanner, buffer: bytearray, start: int, end: int, *, offset: int) -> BlockColumns:
    """The lines of `buffer[start:end]`, whose first byte is at `offset` of its file."""
    found = dict(scanner.find(buffer, start - 1, end))
    places = found.pop(RATE, np.zeros(0, np.int64))
    tags = read_tags(buffer, {name: found.pop(name) for name in NAMES if name in found})
    tag_rows = tags.before(places)
    steps = read_steps(buffer, places)
    text = np.frombuffer(buffer, np.uint8)
    is_alone = steps.is_joined | (text[steps.begin - 1] == NEWLINE) | tags.ends_at(steps.begin, tag_rows)
    is_plain = steps.is_plain & is_alone
    hard = [
        places[~is_plain],
        tags.place[~tags.is_plain],
        *(place + len(literal) - 1 for literal, place in found.items()),  # one may begin with a newline
        *_controls(text, buffer, start, end),
    ]
    spans = _spans(buffer, start, end, np.sort(np.concatenate([*hard, _long_lines(buffer, start, end)])))
    ends = _line_ends(buffer, text, steps, is_plain) + (offset - start)
    return BlockColumns(places, _columns(steps, _ranks(tags, tag_rows), ends), tags, tag_rows, spans)


def _columns(steps: Steps, ranks: Array, ends: Array) -> StepColumns:
    rate, uncertainty, jitter, loss = steps.numbers
    return StepColumns(
        steps.step, ranks, rate, uncertainty, jitter, loss, *steps.accuracies, steps.has_accuracy, ends
    )


def _ranks(tags: Tags, rows: Array) -> Array:
    if not len(tags):
        return np.full(len(rows), NO_RANK, np.int32)
    return np.where(rows >= 0, tags.rank[rows], NO_RANK).astype(np.int32)


def _line_ends(buffer: bytearray, text: Array, steps: Steps, is_plain: Array) -> Array:
    """Where the line of each plain record ends: behind the next newline."""
    ends = steps.end + 1
    for row in np.flatnonzero(is_plain & (text[steps.end] != NEWLINE)).tolist():
        ends[row] = buffer.find(b"\n", steps.end[row]) + 1
    return ends


def _controls(text: Array, buffer: bytearray, start: int, end: int) -> Iterator[Array]:
    """The places of characters that the parser takes out of a line before it reads it."""
    for char in _CONTROLS:
        if buffer.find(char, start, end) >= 0:
            yield np.flatnonzero(text[start:end] == char) + start


def _long_lines(buffer: bytearray, start: int, end: int) -> Array:
    """Places in all lines that are so long that the parser cuts them."""
    windows = range(start, end, _WINDOW_BYTES)
    return np.array(
        [place for place in windows if buffer.find(b"\n", place, place + _WINDOW_BYTES) < 0], np.int64
    )


def _spans(buffer: bytearray, start: int, end: int, places: Array) -> list[tuple[int, int]]:
    """The lines of these ascending places, each up to behind its newline; neighbours are one span."""
    spans: list[tuple[int, int]] = []
    done = start
    for place in places.tolist():
        if place < done and spans:
            continue
        begin = buffer.rfind(b"\n", start, place) + 1 or start
        done = buffer.find(b"\n", place, end) + 1
        if spans and spans[-1][1] == begin:
            begin = spans.pop()[0]
        spans.append((begin, done))
    return spans
