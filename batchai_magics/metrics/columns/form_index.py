"""A block of whole lines, taken apart by the forms that were learned so far."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batchai_magics.metrics.columns.form_reader import FormReader
from batchai_magics.metrics.columns.step_columns import RATE
from batchai_magics.metrics.columns.value_tables import NO_COUNT, ValueTable
from batchai_magics.metrics.formats.format_table import LINE_TEXTS, has_only_rate, has_text, is_of_rows
from batchai_magics.metrics.formats.line_plan import Role
from batchai_magics.metrics.formats.step_grammar import plan_of
from batchai_magics.metrics.grammar.line_interest import interest_in, lines_of_interest
from batchai_magics.metrics.grammar.line_shapes import DIGITS, LineShape, LineShapes
from batchai_magics.metrics.grammar.rank_labels import RankLabels
from batchai_magics.metrics.reading.line_prefixes import DIGITS_TO_ZERO
from batchai_magics.metrics.reading.line_splitter import MAX_LINE_BYTES
from batchai_magics.metrics.reading.prefix_patterns import has_tag

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_SILENT, _HARD, _UNKNOWN = -1, -2, -3  # lines without a record, lines for the parser, and new ones
_MARKED = -4  # and below
_MAX_MARKS = 8
_MAX_LINE_BYTES = MAX_LINE_BYTES // 2  # longer ones may be cut
_OF_NUMBERS = b"0 .,-+eE\t"  # a line with nothing else names none
_RATES, _TAGS = re.compile(RATE), re.compile(rb"<std(?:out|err|diag)>:")
_TEXTS = (*LINE_TEXTS, b"<stdout>:", b"<stderr>:", b"<stddiag>:")
_MAX_FORMS = 1 << 16
_NEWLINE = ord("\n")


@dataclass(frozen=True)
class FormBlock:
    """Lines by their forms: the numbers of some, the rows that the parser must read, and where marks stand.

    `rates` are the places of `images/sec: ` in step lines of tf_cnn_benchmarks, `tag_ends` those behind the
    tags of a launcher. If there are any, there are no tables.
    """

    tables: Sequence[ValueTable]
    ends: Array  # of the lines
    hard: Array
    rates: Array
    tag_ends: Array


class _Marks(NamedTuple):
    """Where on the lines of a form the marks stand."""

    rates: tuple[int, ...]
    tag_ends: tuple[int, ...]


class FormIndex:
    """The forms of a log's lines."""

    def __init__(self, shapes: LineShapes, labels: RankLabels) -> None:
        self.shapes, self._labels = shapes, labels
        self._ids: dict[bytes, int] = {b"": _SILENT}
        self._readers: list[FormReader] = []
        self._marks: list[_Marks] = []

    def take_apart(self, text: bytes, *, offset: int, rank: int | None, has_bar: bool) -> FormBlock | None:
        """The lines of a text, whose first byte is at `offset` of its file; `rank` None: taken from them.

        `has_bar`: a progress bar places printed dicts. None if a line tells what numbers in front are.
        """
        self._make_room()
        forms = text.translate(DIGITS_TO_ZERO).split(b"\n")
        del forms[-1]
        chars = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(chars == _NEWLINE) + 1
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
        ids = self._ids_of(forms, text, starts)
        if ids is None:
            return None
        ids[ends - starts > _MAX_LINE_BYTES] = _HARD
        marked = np.flatnonzero(ids <= _MARKED)
        if len(marked):
            ids[ids >= 0] = _HARD
        tables = [*self._tables(chars, starts, ends + offset, ids, rank)]
        for table in tables:
            if has_bar and table.role is Role.DICT:
                ids[table.row] = _HARD
        ids[_repeated(tables)] = _HARD
        places = [self._marks[_MARKED - id] for id in ids[marked].tolist()] if len(marked) else []
        return FormBlock(
            tables,
            ends,
            np.flatnonzero(ids == _HARD),
            _positions(starts[marked], [each.rates for each in places]),
            _positions(starts[marked], [each.tag_ends for each in places]),
        )

    def _make_room(self) -> None:
        """Forget forms of lines without a record if there are many, and all if most have some."""
        if len(self._ids) >= _MAX_FORMS:
            self._ids = {form: id for form, id in self._ids.items() if id not in (_SILENT, _HARD)}
            if 2 * len(self._readers) + len(self._marks) >= _MAX_FORMS:
                self._ids, self._readers, self._marks = {}, [], []
            self._ids[b""] = _SILENT

    def _ids_of(self, forms: list[bytes], text: bytes, starts: Array) -> Array | None:
        ids = np.fromiter(map(self._ids.get, forms, repeat(_UNKNOWN)), np.int64, len(forms))
        unknown = np.flatnonzero(ids == _UNKNOWN)
        if len(unknown):
            rows = unknown.tolist()
            if 2 * len(rows) < len(forms):
                lines = _interesting_ones(forms, rows, text, starts)
            else:
                lines = _interesting_in(forms, text, starts, ids == _UNKNOWN)
            if not self.shapes.are_labels_ranks and any(map(self._labels.tells_rank, lines.values())):
                return None
            ids[unknown] = self._classify([forms[row] for row in rows], lines)
        return ids

    def _classify(self, forms: Sequence[bytes], lines: Mapping[bytes, bytes]) -> Array:
        """What the lines of unknown forms are, of which some are interesting; each form is looked at once."""
        ids = {form: self._resolved(form, line) for form, line in lines.items()}
        new = set(forms)
        if 2 * len(new) < len(forms):
            self._ids.update(dict.fromkeys(new.difference(ids), _SILENT))
        return np.fromiter(map(ids.get, forms, repeat(_SILENT)), np.int64, len(forms))

    def _resolved(self, form: bytes, line: bytes) -> int:
        shapes, key = self.shapes, line.translate(None, DIGITS)
        if has_tag(line):
            return self._marked(form, line)
        is_special = has_text(line)
        if is_special and not is_of_rows(line):
            return self._marked(form, line) if has_only_rate(line) else _HARD
        if form in shapes.silent_forms or key in shapes.silent:
            return self._remember(form, _SILENT)
        if is_special and not (key in shapes.elsewhere or key in shapes.for_grammar):
            return _HARD
        is_new = key not in shapes.known and not is_special and not shapes.may_open_table(key, line)
        if is_new and not shapes.find(line):
            return self._remember(form, _SILENT)
        plan = shapes.plans.get(form) or plan_of(shapes, line)
        reader = FormReader.of(plan, form) if plan else None
        if reader is None:
            return _HARD
        self._readers.append(reader)
        return self._remember(form, len(self._readers) - 1)

    def _marked(self, form: bytes, line: bytes) -> int:
        """The number of a form with tags or step lines of tf_cnn_benchmarks, if nothing else is there."""
        rates = tuple(found.start() for found in _RATES.finditer(line))
        tags = tuple(found.end() for found in _TAGS.finditer(line))
        message = line[tags[0] :].removesuffix(line[: tags[0]]) if tags else line
        if len(rates) + len(tags) > _MAX_MARKS or not (
            has_only_rate(line) if rates else self._is_silent(message)
        ):
            return _HARD
        self._marks.append(_Marks(rates, tags))
        return self._remember(form, _MARKED - len(self._marks) + 1)

    def _is_silent(self, message: bytes) -> bool:
        """Whether nothing in a message without its tags is for the grammar or the format table."""
        shapes, key = self.shapes, message.translate(None, DIGITS)
        if not message or not [*lines_of_interest([message], LINE_TEXTS)]:
            return True
        if has_text(message) or key in shapes.known or shapes.may_open_table(key, message):
            return False
        return not shapes.find(message)

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


def _interesting_ones(
    forms: Sequence[bytes], rows: Sequence[int], text: bytes, starts: Array
) -> dict[bytes, bytes]:
    """A line of each form that may matter, of the few lines in some rows."""
    first: dict[bytes, int] = {}
    for row in rows:
        first.setdefault(forms[row], row)
    known = [form for form in first if _may_name(form)]
    begins = starts[[first[form] for form in known]].tolist()
    lines = [text[begin : begin + len(form)] for form, begin in zip(known, begins, strict=True)]
    return {known[row]: lines[row] for row in lines_of_interest(lines, _TEXTS)}


def _interesting_in(
    forms: Sequence[bytes], text: bytes, starts: Array, is_unknown: Array
) -> dict[bytes, bytes]:
    """The same of most lines of a text: one search through all of it."""
    begins, lines = [*starts.tolist(), len(text)], dict[bytes, bytes]()
    for row in interest_in(text, begins[1:], _TEXTS):
        form = forms[row]
        if is_unknown[row] and form not in lines and _may_name(form):
            lines[form] = text[begins[row] : begins[row] + len(form)]
    return lines


def _may_name(form: bytes) -> bool:
    """Whether there is more than numbers in a form."""
    return bool(form.translate(None, _OF_NUMBERS)) or b"0" not in form


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


def _positions(starts: Array, offsets: Sequence[tuple[int, ...]]) -> Array:
    """The places at these offsets of each line."""
    counts = [*map(len, offsets)]
    flat = np.fromiter(chain.from_iterable(offsets), np.int64, sum(counts))
    return np.repeat(starts, counts) + flat
