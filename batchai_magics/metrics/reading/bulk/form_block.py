"""A block of whole lines, taken apart by the forms that were learned so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.formats.format_table import LINE_TEXTS, has_text, is_of_rows
from batchai_magics.metrics.formats.line_plan import Role
from batchai_magics.metrics.formats.step_grammar import plan_of
from batchai_magics.metrics.grammar.line_interest import lines_of_interest
from batchai_magics.metrics.grammar.line_shapes import DIGITS, LineShape, LineShapes
from batchai_magics.metrics.reading.bulk.form_reader import FormReader
from batchai_magics.metrics.reading.bulk.value_rows import NO_COUNT, ValueRows, ValueTable
from batchai_magics.metrics.reading.line_prefixes import DIGITS_TO_ZERO
from batchai_magics.metrics.reading.parser_state import RankState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_SILENT, _HARD, _UNKNOWN = -1, -2, -3  # lines without a record, lines for the parser, and new ones
_MAX_FORMS = 1 << 16
_MAX_GAP_BYTES = 1024  # between two lines for the parser, which is quicker read with them
_NEWLINE = ord("\n")


@dataclass(frozen=True)
class FormBlock:
    """The lines of known forms in a block, and the spans of rows that the parser must read."""

    tables: Sequence[ValueTable]
    ends: Array  # of the lines
    hard: Sequence[tuple[int, int]]

    def rows(self, first: int, last: int) -> ValueRows:
        """The lines of known forms among some rows."""
        tables = []
        for table in self.tables:
            begin, end = np.searchsorted(table.row, (first, last)).tolist()
            if begin < end:
                tables.append(table.take(slice(begin, end)))
        return ValueRows(tables)

    def first_repeated(self, first: int, last: int, state: RankState) -> int | None:
        """The first bar among some rows, if it is at the step of a bar that the parser has read."""
        bars = [table for table in self.rows(first, last).tables if table.role is Role.BAR]
        if not bars or not state.reported:
            return None
        bar = min(bars, key=lambda table: int(table.row[0]))
        step = NO_COUNT if state.step is None else state.step
        return int(bar.row[0]) if bar.step[0] == step else None


class FormIndex:
    """The forms of a log's lines."""

    def __init__(self, shapes: LineShapes) -> None:
        self._shapes = shapes
        self._ids: dict[bytes, int] = {b"": _SILENT}
        self._readers: list[FormReader] = []

    def take_apart(self, text: bytes, *, offset: int, rank: int | None, has_bar: bool) -> FormBlock:
        """The lines of a text, whose first byte is at `offset` of its file; `rank` None: taken from them.

        `has_bar`: a progress bar places printed dicts.
        """
        self._make_room()
        forms = text.translate(DIGITS_TO_ZERO).split(b"\n")
        del forms[-1]
        chars = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(chars == _NEWLINE) + 1
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
        ids = self._ids_of(forms, text, starts)
        tables = [*self._tables(chars, starts, ends + offset, ids, rank)]
        for table in tables:
            if has_bar and table.role is Role.DICT:
                ids[table.row] = _HARD
        ids[_repeated(tables)] = _HARD
        return FormBlock(tables, ends, _spans(np.flatnonzero(ids == _HARD), starts, ends))

    def _make_room(self) -> None:
        """Forget forms of lines without a record if there are many, and all if most have some."""
        if len(self._ids) >= _MAX_FORMS:
            self._ids = {form: id for form, id in self._ids.items() if id >= 0}
            if 2 * len(self._readers) >= _MAX_FORMS:
                self._ids, self._readers = {}, []
            self._ids[b""] = _SILENT

    def _ids_of(self, forms: list[bytes], text: bytes, starts: Array) -> Array:
        ids = np.fromiter(map(self._ids.get, forms, repeat(_UNKNOWN)), np.int64, len(forms))
        unknown = np.flatnonzero(ids == _UNKNOWN)
        if len(unknown):
            found = self._found([forms[row] for row in unknown.tolist()], text, starts[unknown])
            ids[unknown] = found
        return ids

    def _found(self, forms: Sequence[bytes], text: bytes, starts: Array) -> list[int]:
        """What the lines of unknown forms are; each form is looked at once."""
        new: dict[bytes, int] = {}
        for row, form in enumerate(forms):
            new.setdefault(form, row)
        begins = starts[[*new.values()]].tolist()
        lines = [text[begin : begin + len(form)] for form, begin in zip(new, begins, strict=True)]
        known, rows = [*new], [*lines_of_interest(lines, LINE_TEXTS)]
        ids = {known[row]: self._resolved(known[row], lines[row]) for row in rows}
        if 2 * len(new) < len(forms):
            self._ids.update({form: _SILENT for form in new if form not in ids})
        return [ids.get(form, _SILENT) for form in forms]

    def _resolved(self, form: bytes, line: bytes) -> int:
        shapes, key = self._shapes, line.translate(None, DIGITS)
        is_special = has_text(line)
        if is_special and not is_of_rows(line):
            return _HARD
        if form in shapes.silent_forms or key in shapes.silent:
            return self._remember(form, _SILENT)
        is_new = key not in shapes.known and not is_special and not shapes.may_open_table(key, line)
        if is_new and not shapes.find(line):
            return self._remember(form, _SILENT)
        plan = shapes.plans.get(form) or plan_of(shapes, line)
        reader = FormReader.of(plan, form) if plan else None
        if reader is None:
            return _HARD
        self._readers.append(reader)
        return self._remember(form, len(self._readers) - 1)

    def _remember(self, form: bytes, id: int) -> int:
        self._ids[form] = id
        return id

    def _tables(
        self, chars: Array, starts: Array, offsets: Array, ids: Array, rank: int | None
    ) -> Iterator[ValueTable]:
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        first = int(np.searchsorted(ordered, 0))
        parts: dict[LineShape, list[ValueTable]] = defaultdict(list)
        while first < len(order):
            id = int(ordered[first])
            last = int(np.searchsorted(ordered, id, side="right"))
            rows, reader = order[first:last], self._readers[id]
            fits = reader.fits(chars, starts[rows])
            ids[rows[~fits]] = _HARD
            if fits.any():
                table = _table(reader, chars, rows[fits], starts, offsets, rank)
                parts[reader.plan.form.shape].append(table)
            first = last
        return map(ValueTable.joined, parts.values())


def _table(
    reader: FormReader, chars: Array, rows: Array, starts: Array, offsets: Array, rank: int | None
) -> ValueTable:
    read, count = reader.read(chars, starts[rows]), len(rows)
    ranks, role = read.rank, reader.plan.role
    if ranks is None or (rank is not None and role is not Role.OBJECT):
        ranks = np.full(count, NO_COUNT if rank is None else rank)
    epoch = np.full(count, np.nan) if read.epoch is None else read.epoch
    time = np.full(count, np.nan) if read.time is None else read.time
    is_whole = epoch % 1 == 0 if role is Role.OBJECT else np.full(count, reader.is_whole_epoch)
    return ValueTable(
        reader.plan.form.shape.metrics,
        role,
        rows,
        np.full(count, NO_COUNT) if read.step is None else read.step,
        epoch,
        is_whole,
        ranks,
        offsets[rows],
        time,
        ~np.isnan(time) & reader.has_zone,
        read.values,
    )


def _repeated(tables: Sequence[ValueTable]) -> Array:
    """The rows of bars with the step of the bar before, which may draw its numbers again."""
    bars = [table for table in tables if table.role is Role.BAR]
    if not bars:
        return np.zeros(0, np.int64)
    rows, steps = (np.concatenate([getattr(table, name) for table in bars]) for name in ("row", "step"))
    order = np.argsort(rows, kind="stable")
    repeated: Array = rows[order][1:][steps[order][1:] == steps[order][:-1]]
    return repeated


def _spans(rows: Array, starts: Array, ends: Array) -> list[tuple[int, int]]:
    """Spans of rows around these; near ones are one span."""
    if not len(rows):
        return []
    gaps = np.flatnonzero(starts[rows[1:]] - ends[rows[:-1]] > _MAX_GAP_BYTES)
    firsts, lasts = rows[np.concatenate(([0], gaps + 1))], rows[np.concatenate((gaps, [len(rows) - 1]))]
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))
