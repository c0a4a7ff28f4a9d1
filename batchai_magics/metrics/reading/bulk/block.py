"""Whole lines in a buffer: the step lines that are read at once, and the lines that only the parser reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.reading.bulk.columns import NO_RANK, StepColumns
from batchai_magics.metrics.reading.bulk.escapes import controls_in
from batchai_magics.metrics.reading.bulk.leads import Leads, is_equal, read_leads
from batchai_magics.metrics.reading.bulk.scan import Scanner
from batchai_magics.metrics.reading.bulk.steps import NEWLINE, RATE, Steps, read_steps
from batchai_magics.metrics.reading.line_splitter import MAX_LINE_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

TAG_NAMES = (b"<stdout>:", b"<stderr>:", b"<stddiag>:")
_WINDOW_BYTES = MAX_LINE_BYTES // 2  # in a line of MAX_LINE_BYTES at least one whole window has no newline
_GAP_BYTES = 2048  # what stands between two lines for the parser, and is quicker read with them than alone
_FEW_BYTES = 1024  # for so many bytes of a block one place's line is quicker sought alone


@dataclass(frozen=True)
class Tags:
    """The tags of a block, a row each in their order: `is_plain` says that its line can be read at once."""

    begin: Array
    end: Array
    rank: Array
    is_plain: Array

    def __len__(self) -> int:
        return len(self.end)


@dataclass(frozen=True)
class BlockColumns:
    """Whole lines, taken apart: `steps` holds outside of `hard`, spans of lines that the parser must read.

    `tag_rows` tells the last tag before each step, -1 without one. A step's rank is that of this tag, or else
    its `label`: each may be NO_RANK. A clock knows better when a line was written unless `is_time_exact`.
    """

    places: Array
    steps: StepColumns
    is_time_exact: Array
    label: Array
    tags: Tags
    tag_rows: Array
    hard: list[tuple[int, int]]


def take_apart(scanner: Scanner, buffer: bytearray, start: int, end: int, *, offset: int) -> BlockColumns:
    """The lines of `buffer[start:end]`, whose first byte is at `offset` of its file."""
    positions_of = dict(scanner.find(buffer, start - 1, end))
    places = positions_of.pop(RATE, np.zeros(0, np.int64))
    tag_ends = [positions_of.pop(name) + len(name) for name in TAG_NAMES if name in positions_of]
    text = np.frombuffer(buffer, np.uint8)
    lines = _Lines(buffer, start, end)
    steps = read_steps(buffer, places)
    tags = _read_tags(text, lines, np.sort(np.concatenate([np.zeros(0, np.int64), *tag_ends])), steps)
    tag_rows = np.searchsorted(tags.end, places) - 1
    leads = _leads_of(text, lines, steps)
    is_plain = steps.is_plain & leads.is_lead
    hard = [
        places[~is_plain],
        tags.end[~tags.is_plain] - 1,
        *(place + len(literal) - 1 for literal, place in positions_of.items()),  # may begin with "\n"
        controls_in(buffer, start, end),
        long_lines(buffer, start, end),
    ]
    spans = _spans(buffer, start, end, np.sort(np.concatenate(hard)))
    ranks = tags.rank[tag_rows] if len(tags) else np.full(len(places), NO_RANK)
    columns = _columns(
        steps, leads, ranks.astype(np.int32), _line_ends(text, lines, steps) + (offset - start)
    )
    is_time_exact = leads.is_exact | ~np.isnan(steps.appended)
    return BlockColumns(places, columns, is_time_exact, leads.label, tags, tag_rows, spans)


class _Lines:
    """Where the lines of a block begin and end: sought from each place if these are few, else all at once."""

    def __init__(self, buffer: bytearray, start: int, end: int) -> None:
        self._buffer, self._start, self._end = buffer, start, end

    @cached_property
    def _newlines(self) -> Array:
        text = np.frombuffer(self._buffer, np.uint8)
        return np.flatnonzero(text[self._start : self._end] == NEWLINE) + self._start

    def start_of(self, places: Array) -> Array:
        """Where the line of each place begins."""
        if self._are_few(places):
            find, start = self._buffer.rfind, self._start
            return np.array(
                [max(find(b"\n", start, place) + 1, start) for place in places.tolist()], np.int64
            )
        starts = np.concatenate(([self._start], self._newlines + 1))
        return starts[np.searchsorted(self._newlines, places)]

    def end_of(self, places: Array) -> Array:
        """Behind the newline of each place's line."""
        if self._are_few(places):
            find, end = self._buffer.find, self._end
            return np.array([find(b"\n", place, end) % (end + 1) + 1 for place in places.tolist()], np.int64)
        return np.append(self._newlines, self._end)[np.searchsorted(self._newlines, places)] + 1

    def _are_few(self, places: Array) -> bool:
        return len(places) * _FEW_BYTES < self._end - self._start


def _read_tags(text: Array, lines: _Lines, ends: Array, steps: Steps) -> Tags:
    """The tags that end at these places: plain are those of a line's start, and the same again at its end."""
    begin = lines.start_of(ends) if len(ends) else ends
    first = np.flatnonzero(np.diff(begin, prepend=-1))
    leads = read_leads(text, begin[first], ends[first], has_times=False)
    rank, is_plain = np.full(len(ends), NO_RANK), np.zeros(len(ends), np.bool_)
    rank[first], is_plain[first] = leads.tag_rank, leads.is_lead & leads.has_tag
    rows = np.flatnonzero((begin[1:] == begin[:-1]) & is_plain[:-1] & (text[ends[1:]] == NEWLINE)) + 1
    if len(rows):
        width = ends[rows - 1] - begin[rows - 1]
        again = ends[rows] - width
        is_same = is_equal(text, begin[rows], again, width) & _is_behind_steps(steps, begin[rows], again)
        rows, again = rows[is_same], again[is_same]
        begin[rows], rank[rows], is_plain[rows] = again, rank[rows - 1], True
    return Tags(begin, ends, rank, is_plain)


def _is_behind_steps(steps: Steps, line: Array, places: Array) -> Array:
    """Whether nothing stands between these places and the last step before on their line, if there is one."""
    last = np.searchsorted(steps.begin, places) - 1
    if not len(steps.begin):
        return np.ones(len(places), np.bool_)
    is_on_line = (last >= 0) & (steps.begin[last] >= line)
    is_behind: Array = ~is_on_line | (steps.end[last] == places)
    return is_behind


def _leads_of(text: Array, lines: _Lines, steps: Steps) -> Leads:
    """What stands before each step on its line: nothing, the step before, or a lead."""
    begin = steps.begin.copy()
    rows = np.flatnonzero(steps.is_plain & ~steps.is_joined & (text[begin - 1] != NEWLINE))
    if len(rows):
        begin[rows] = lines.start_of(begin[rows])
    leads = read_leads(text, begin, steps.begin)
    first = np.maximum.accumulate(np.where(steps.is_joined, 0, np.arange(len(begin))))
    leads.seconds[:], leads.is_exact[:] = leads.seconds[first], leads.is_exact[first]
    leads.is_lead[:] = leads.is_lead | steps.is_joined
    return leads


def _columns(steps: Steps, leads: Leads, ranks: Array, ends: Array) -> StepColumns:
    rate, uncertainty, jitter, loss = steps.numbers
    top_1, top_5 = steps.accuracies
    return StepColumns(
        step=steps.step,
        rank=ranks,
        images_per_sec=rate,
        uncertainty=uncertainty,
        jitter=jitter,
        loss=loss,
        top_1=top_1,
        top_5=top_5,
        has_accuracy=steps.has_accuracy,
        offset=ends,
        wall_time=np.where(np.isnan(steps.appended), leads.seconds, steps.appended),
    )


def _line_ends(text: Array, lines: _Lines, steps: Steps) -> Array:
    """Where the line of each plain record ends: behind the next newline."""
    ends = steps.end + 1
    rows = np.flatnonzero(steps.is_plain & (text[steps.end] != NEWLINE))
    if len(rows):
        ends[rows] = lines.end_of(steps.end[rows])
    return ends


def long_lines(buffer: bytearray, start: int, end: int) -> Array:
    """Places in all lines that are so long that the parser cuts them."""
    windows = range(start, end, _WINDOW_BYTES)
    return np.array(
        [place for place in windows if buffer.find(b"\n", place, place + _WINDOW_BYTES) < 0], np.int64
    )


def _spans(buffer: bytearray, start: int, end: int, places: Array) -> list[tuple[int, int]]:
    """The lines of these ascending places, each up to behind its newline; near ones are one span."""
    spans: list[tuple[int, int]] = []
    done = start
    for place in places.tolist():
        if place < done and spans:
            continue
        begin = buffer.rfind(b"\n", start, place) + 1 or start
        done = buffer.find(b"\n", place, end) + 1
        if spans and spans[-1][1] + _GAP_BYTES >= begin:
            begin = spans.pop()[0]
        spans.append((begin, done))
    return spans
