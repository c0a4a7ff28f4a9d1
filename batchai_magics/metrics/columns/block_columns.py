"""Whole lines in a buffer: the step lines that are read at once, and the lines that only the parser reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.columns.form_index import FormBlock
from batchai_magics.metrics.columns.prefix_columns import Leads, is_equal, read_leads
from batchai_magics.metrics.columns.record_columns import NO_RANK, StepColumns
from batchai_magics.metrics.columns.step_columns import NEWLINE, Steps, read_steps
from batchai_magics.metrics.columns.value_tables import ValueTable
from batchai_magics.metrics.reading.block_cleaning import controls_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_GAP_BYTES = 1024  # what stands between two lines for the parser, and is quicker read with them than alone


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
    """Whole lines, taken apart: it holds outside of `hard`, spans of lines that the parser must read.

    `tables` have the numbers of other programs.
    `tag_rows` tells the last tag before each step, -1 without one. A step's rank is that of this tag, or else
    its `label`: each may be NO_RANK. A clock knows better when a line was written unless `is_time_exact`.
    """

    ends: Array  # of the lines
    tables: Sequence[ValueTable]
    places: Array
    steps: StepColumns
    is_time_exact: Array
    label: Array
    tags: Tags
    tag_rows: Array
    hard: list[tuple[int, int]]


def take_apart(lines: FormBlock, buffer: bytearray, start: int, *, offset: int) -> BlockColumns:
    """Lines of a buffer from `start` on, whose first byte is at `offset` of its file."""
    ends = lines.ends + start
    places, tag_ends = lines.rates + start, lines.tag_ends + start
    text = np.frombuffer(buffer, np.uint8)
    bounds = _Lines(start, ends)
    steps = read_steps(buffer, places)
    tags = _read_tags(text, bounds, tag_ends, steps)
    tag_rows = np.searchsorted(tags.end, places) - 1
    leads = _leads_of(text, bounds, steps)
    is_plain = steps.is_plain & leads.is_lead
    hard = np.concatenate(
        [
            lines.hard,
            bounds.row_of(places[~is_plain]),
            bounds.row_of(tags.end[~tags.is_plain] - 1),
            bounds.row_of(controls_in(buffer, start, int(ends[-1]))),
        ]
    )
    ranks = tags.rank[tag_rows] if len(tags) else np.full(len(places), NO_RANK)
    columns = _columns(steps, leads, ranks.astype(np.int32), bounds.end_of(steps.end) + (offset - start))
    return BlockColumns(
        ends,
        lines.tables,
        places,
        columns,
        leads.is_exact | ~np.isnan(steps.appended),
        leads.label,
        tags,
        tag_rows,
        _spans(np.unique(hard), start, ends),
    )


class _Lines:
    """Where the lines of a block begin and end."""

    def __init__(self, start: int, ends: Array) -> None:
        self._starts, self._ends = np.concatenate(([start], ends[:-1])), ends

    def row_of(self, places: Array) -> Array:
        """The row of each place's line."""
        return np.searchsorted(self._ends, places, side="right")

    def start_of(self, places: Array) -> Array:
        """Where the line of each place begins."""
        starts: Array = self._starts[self.row_of(places)]
        return starts

    def end_of(self, places: Array) -> Array:
        """Behind the newline of each place's line."""
        ends: Array = self._ends[np.minimum(self.row_of(places), len(self._ends) - 1)]
        return ends


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


def _spans(rows: Array, start: int, ends: Array) -> list[tuple[int, int]]:
    """The lines of these ascending rows, each up to behind its newline; near ones are one span."""
    if not len(rows):
        return []
    begins, stops = np.concatenate(([start], ends))[rows], ends[rows]
    gaps = np.flatnonzero(begins[1:] - stops[:-1] > _GAP_BYTES)
    firsts, lasts = begins[np.concatenate(([0], gaps + 1))], stops[np.concatenate((gaps, [len(rows) - 1]))]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
