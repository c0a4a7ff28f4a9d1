"""Lines of a buffer in their order: stretches become columns at once, single lines go through the parser."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.columns.block_columns import BlockColumns, take_apart
from batchai_magics.metrics.columns.form_index import FormIndex
from batchai_magics.metrics.columns.record_columns import NO_RANK, Columns, StepColumns, StepStore
from batchai_magics.metrics.columns.row_positions import first_repeated, placed, unplaced_in
from batchai_magics.metrics.columns.step_columns import MARGIN_BYTES, NEWLINE
from batchai_magics.metrics.columns.value_tables import ValueRows, rows_between
from batchai_magics.metrics.measurement import Record, StepRecord, at_offset
from batchai_magics.metrics.reading.block_cleaning import cleaned
from batchai_magics.metrics.reading.line_cleaning import has_controls
from batchai_magics.metrics.reading.line_prefixes import TagShapes, parse_prefix_cached
from batchai_magics.metrics.reading.line_splitter import MAX_LINE_BYTES
from batchai_magics.metrics.reading.log_file import LogFile
from batchai_magics.metrics.reading.parser_state import StepCadence
from batchai_magics.metrics.reading.return_labels import Stretch, all_of
from batchai_magics.metrics.reading.timestamps import WriteTimes
from batchai_magics.metrics.reading.user_patterns import UserPatterns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_MAX_HARD = 8  # of so many lines one is hard where most are known
_FIRST_FORM_BYTES, _MAX_FORM_BYTES = 1 << 13, 1 << 21
_MAX_LEFT_BYTES = 1 << 18
_FIRST_STRIDE_BYTES, _LAST_STRIDE_BYTES = 1 << 8, 1 << 16
_MARGIN = b"\n" * MARGIN_BYTES


class BlockReader:
    """Reads the lines of one buffer after the other, and keeps their records.

    `file` is where the log has come to, and `offset` that of its next byte; by default it begins. `clock`
    tells when its lines were written, out of which nothing is taken then.
    """

    def __init__(
        self, file: LogFile | None = None, *, offset: int = 0, clock: WriteTimes | None = None
    ) -> None:
        self._file = file or LogFile(None, UserPatterns({}))
        self._clock = clock
        self._tags = TagShapes()
        self._buffer = bytearray()
        self._offset = offset  # in the file
        self._parts: list[StepColumns] = []  # of the buffer in hand …
        self._store = StepStore()  # … and before
        self._count = 0  # of all steps
        self._others: list[tuple[int, Record | ValueRows]] = []
        self._forms = FormIndex(self._file.shapes, self._file.labels)
        self._stride_bytes = self._left_bytes = _FIRST_FORM_BYTES
        self._parsed_bytes = 0  # to be left to the parser next
        self._parsed: list[StepRecord] = []  # of the block in hand …
        self._rows: list[Array] = []  # … and its rows, in file order; the parsed steps come behind its own

    def end_lines(self, buffer: bytearray, end: int) -> list[Stretch]:
        """End the lines of a buffer at carriage returns; where some follow the label of a rank."""
        if self._file.returns.pass_by(buffer, MARGIN_BYTES, end):
            return []
        lines, stretches = self._file.end_lines(bytes(buffer[MARGIN_BYTES:end]))
        buffer[MARGIN_BYTES:end] = lines
        return [Stretch(each.begin + MARGIN_BYTES, each.end + MARGIN_BYTES, each.rank) for each in stretches]

    def read(self, buffer: bytearray, end: int, stretches: Iterable[Stretch] = ()) -> None:
        """Read a buffer up to the end of a line, or a part of an endless one."""
        for begin, stop, rank in all_of(stretches, MARGIN_BYTES, end):
            self._buffer = buffer
            with self._file.labelled(rank):
                self._read_stretch(begin, stop)
        self._store_parts()

    def _read_stretch(self, start: int, end: int) -> None:
        buffer = self._buffer
        is_whole = buffer[end - 1 : end] == b"\n"
        at = self._parse_open_lines(start, end) if is_whole else self._parse(start, end)
        self._keep(StepColumns.of([]))
        if has_controls(buffer, at, end) and not has_long_line(buffer, at, end):  # of those, ends differ
            self._read_clean(bytes(buffer[at:end]))
        else:
            self._read_lines(at, end)

    def read_some(self, data: bytes) -> Columns:
        """The records that the next bytes of a growing log complete; `LogFile.feed` gives the same."""
        buffer, filled = bytearray(_MARGIN + data + _MARGIN), MARGIN_BYTES + len(data)
        stretches = self.end_lines(buffer, filled)
        end = max(buffer.rfind(b"\n", MARGIN_BYTES, filled) + 1, MARGIN_BYTES)
        self._file.seek(self._offset)
        if end > MARGIN_BYTES:
            self.read(buffer, end, stretches)
        self._buffer = buffer
        self._parse_rest(end, filled)
        return self._all()

    def _parse_rest(self, start: int, end: int) -> None:
        """Parse an incomplete line."""
        with self._file.labelled_rest(bytes(self._buffer[start:end])):
            self._parse(start, end)

    def finish(self, buffer: bytearray, end: int) -> Columns:
        """Read the last line, up to where the buffer is filled; gives all records."""
        self._buffer = buffer
        self._parse_rest(MARGIN_BYTES, end)
        self._add(self._file.finish(), 0)
        return self._all()

    def _all(self) -> Columns:
        self._keep(StepColumns.of([]))
        self._store_parts()
        return Columns(self._store.columns(), self._others)

    def _store_parts(self) -> None:
        for part in self._parts:
            self._store.add(part)
        self._parts.clear()

    def _read_clean(self, raw: bytes) -> None:
        """Read lines out of which something is taken; their ends are offsets of the raw ones."""
        clean = cleaned(raw, self._tags)
        begin, part, other = self._offset, len(self._parts), len(self._others)
        self._buffer = bytearray(_MARGIN + clean + _MARGIN)
        self._read_lines(MARGIN_BYTES, MARGIN_BYTES + len(clean))
        self._file.skip(len(raw) - len(clean), lines=0)
        self._offset = begin + len(raw)
        clean_ends, raw_ends = begin + _line_ends(clean), begin + _line_ends(raw)
        for number, steps in enumerate(self._parts[part:], part):
            lines = np.searchsorted(clean_ends, steps.offset)
            self._parts[number] = steps.at_offsets(raw_ends[lines])
        for number, (place, record) in enumerate(self._others[other:], other):
            self._others[number] = place, _at_raw_offsets(record, clean_ends, raw_ends)
        for held in self._file.states.held.values():
            held.records[:] = [
                each._replace(offset=_raw_offset(each.offset, clean_ends, raw_ends)) for each in held.records
            ]

    def _read_lines(self, start: int, end: int) -> None:
        while start < end:
            if self._file.is_uniform and not self._parsed_bytes:
                start = self._read_block(start, self._line_behind(start + self._stride_bytes, end))
            else:
                size, self._parsed_bytes = self._parsed_bytes or _FIRST_FORM_BYTES, 0
                start = self._parse(start, self._line_behind(start + size, end))
                self._keep(StepColumns.of([]))

    def _read_block(self, start: int, stop: int) -> int:
        """Read lines by their forms, few of them while most are new; gives where they end."""
        text, has_bar = bytes(self._buffer[start:stop]), self._file.states.has_bar
        if self._forms.shapes is not self._file.shapes:
            self._forms = FormIndex(self._file.shapes, self._file.labels)
        lines = self._forms.take_apart(text, offset=self._offset, rank=self._file.rank, has_bar=has_bar)
        if lines is None:
            self._parse(start, stop)
            self._keep(StepColumns.of([]))
            return stop
        block = take_apart(lines, self._buffer, start, offset=self._offset)
        is_known = _MAX_HARD * len(lines.hard) < len(lines.ends)
        self._pace(is_known=is_known)
        at = self._walk(block, start, stop)
        self._keep(block.steps)
        return at

    def _pace(self, *, is_known: bool) -> None:
        """Read more lines at once while most are known; else leave many to the parser, which learns them."""
        if is_known:
            self._stride_bytes = min(2 * self._stride_bytes, _MAX_FORM_BYTES)
            self._left_bytes = _FIRST_FORM_BYTES
        else:
            self._stride_bytes = _FIRST_FORM_BYTES
            self._parsed_bytes = self._left_bytes = min(2 * self._left_bytes, _MAX_LEFT_BYTES)

    def _line_behind(self, place: int, end: int) -> int:
        return self._buffer.find(b"\n", min(place, end) - 1, end) + 1 or end

    def _walk(self, block: BlockColumns, start: int, end: int) -> int:
        """Read the lines of a block in their order, up to one behind which forms do not tell all."""
        at, has_bar, rank = start, self._file.states.has_bar, self._file.rank
        for begin, stop in [*block.hard, (end, end)]:
            if stop > at or stop == end:
                if at < begin:
                    at = self._take_rows(block, at, begin)
                self._parse(max(at, begin), stop, len(block.places))
                at = self._parse_open_lines(stop, end, len(block.places))
            is_alike = self._file.states.has_bar == has_bar and self._file.rank == rank
            if not (self._file.is_uniform and is_alike):
                break
        return at

    def _take_rows(self, block: BlockColumns, start: int, stop: int) -> int:
        """Read a stretch of lines from the block's columns; gives where it ends."""
        first, last = np.searchsorted(block.ends, (start, stop), side="right").tolist()
        rows = rows_between(block.tables, first, last)
        repeated = first_repeated(rows, self._file.states) if rows.tables else None
        if repeated is not None:
            begin = int(block.ends[repeated - 1]) if repeated > first else start
            if start < begin:
                self._take_rows(block, start, begin)
            at = self._parse(begin, int(block.ends[repeated]), len(block.places))
            return self._take_rows(block, at, stop) if at < stop else at
        if rows.tables:
            rows = placed(rows, self._file.states)
            if self._clock:
                for table in rows.tables:
                    _set_times(self._clock, table.time, table.offset, table.is_exact)
                self._file.states.unplaced += unplaced_in(rows)
            self._others.append((self._count, rows))
        self._take(block, start, stop, lines=last - first)
        return stop

    def _parse_open_lines(self, start: int, end: int, rows: int = 0) -> int:
        """Parse lines until the next one can be read without the parser; gives where that one begins."""
        stride = _FIRST_STRIDE_BYTES
        while start < end and not self._file.is_between_lines:
            stop = self._buffer.find(b"\n", min(start + stride, end - 1), end) + 1 or end
            self._parse(start, stop, rows)
            start, stride = stop, min(2 * stride, _LAST_STRIDE_BYTES)
        return start

    def _parse(self, start: int, stop: int, rows: int = 0) -> int:
        """Read lines with the parser, behind a block's own rows; gives where they stop."""
        self._offset += stop - start
        self._add(self._file.feed_lines(bytes(self._buffer[start:stop]), clock=self._clock), rows)
        return stop

    def _add(self, records: Iterable[Record], rows: int) -> None:
        known = len(self._parsed)
        for record in records:
            if isinstance(record, StepRecord):
                self._parsed.append(record)
                self._count += 1
            else:
                self._others.append((self._count, record))
        self._rows.append(np.arange(rows + known, rows + len(self._parsed)))

    def _take(self, block: BlockColumns, start: int, stop: int, *, lines: int) -> None:
        """Take the steps of a stretch of lines."""
        first, last = np.searchsorted(block.places, (start, stop)).tolist()
        first_tag, end_tag = np.searchsorted(block.tags.end, (start, stop), side="right").tolist()
        stretch = slice(first, last)
        ranks = block.steps.rank[stretch]
        ranks[block.tag_rows[stretch] < first_tag] = _rank_number(self._file.rank)
        ranks[ranks == NO_RANK] = _rank_number(self._file.default_rank)
        np.copyto(ranks, block.label[stretch], where=ranks == NO_RANK, casting="same_kind")
        if self._clock:
            is_known = block.is_time_exact[stretch]
            _set_times(self._clock, block.steps.wall_time[stretch], block.steps.offset[stretch], is_known)
        has_accuracy = block.steps.has_accuracy[stretch].any()
        _learn(self._file.cadence, block.steps.step[stretch], has_accuracy=bool(has_accuracy))
        self._rows.append(np.arange(first, last))
        self._count += last - first
        self._offset += stop - start
        lead = None
        if end_tag > first_tag:
            lead = parse_prefix_cached(
                bytes(self._buffer[block.tags.begin[end_tag - 1] : block.tags.end[end_tag - 1]])
            )
        if self._file.states.lines.is_open:
            self._file.pass_lines(bytes(self._buffer[start:stop]))
        self._file.skip(stop - start, lines=lines, last_key=lead and lead.key)

    def _keep(self, steps: StepColumns) -> None:
        """Put the rows of the block in hand away, in file order."""
        if self._parsed:
            steps = StepColumns.concatenated([steps, StepColumns.of(self._parsed)])
        rows = np.concatenate([np.zeros(0, np.int64), *self._rows])
        if len(rows):
            self._parts.append(steps.take(rows))
        self._rows, self._parsed = [], []


def _at_raw_offsets(part: Record | ValueRows, clean_ends: Array, raw_ends: Array) -> Record | ValueRows:
    """A record or rows of clean lines, at the offsets of the raw ones."""
    if isinstance(part, ValueRows):
        tables = part.tables
        return ValueRows(
            [table.at_offsets(raw_ends[np.searchsorted(clean_ends, table.offset)]) for table in tables]
        )
    return at_offset(part, _raw_offset(part.offset, clean_ends, raw_ends))


def _raw_offset(offset: int, clean_ends: Array, raw_ends: Array) -> int:
    """The raw offset of a line's end; a line above those is at its own already."""
    is_above = offset < int(clean_ends[0])
    return offset if is_above else int(raw_ends[np.searchsorted(clean_ends, offset)])


def has_long_line(buffer: bytearray, start: int, end: int) -> bool:
    """Whether a line is so long that the parser may cut it: a window of half that length has no newline."""
    windows = range(start, end, MAX_LINE_BYTES // 2)
    return any(buffer.find(b"\n", place, place + MAX_LINE_BYTES // 2) < 0 for place in windows)


def _line_ends(lines: bytes) -> Array:
    return np.flatnonzero(np.frombuffer(lines, np.uint8) == NEWLINE) + 1


def _rank_number(rank: int | None) -> int:
    return NO_RANK if rank is None else rank


def _set_times(clock: WriteTimes, times: Array, ends: Array, is_known: Array) -> None:
    """Take the times of lines that end at these offsets from a clock, unless they are known or it is not."""
    places = np.searchsorted(clock.starts, ends)
    rows = np.flatnonzero((places > 0) & ~is_known)
    times[rows] = np.asarray(clock.times)[places[rows] - 1]


def _learn(pace: StepCadence, steps: Array, *, has_accuracy: bool) -> None:
    """Let the pace see all steps, through the few of them that change it."""
    pace.has_accuracy = pace.has_accuracy or has_accuracy
    while pace.interval != 1:
        steps = steps[(steps > 1) & ((steps % pace.interval != 0) if pace.interval else True)]
        if not len(steps):
            return
        pace.observe(int(steps[0]))
