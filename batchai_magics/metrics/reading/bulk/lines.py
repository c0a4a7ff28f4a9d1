"""Lines of a buffer in their order: stretches become columns at once, single lines go through the parser."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.formats.format_table import LITERALS
from batchai_magics.metrics.formats.tf_cnn_benchmarks import HINTS, OPENINGS
from batchai_magics.metrics.reading.bulk.block import TAG_NAMES, BlockColumns, long_lines, take_apart
from batchai_magics.metrics.reading.bulk.columns import NO_RANK, Columns, StepColumns
from batchai_magics.metrics.reading.bulk.escapes import cleaned
from batchai_magics.metrics.reading.bulk.form_block import FormBlock, FormIndex
from batchai_magics.metrics.reading.bulk.row_positions import placed, unplaced_in
from batchai_magics.metrics.reading.bulk.scan import Scanner
from batchai_magics.metrics.reading.bulk.steps import MARGIN_BYTES, NEWLINE, RATE
from batchai_magics.metrics.reading.bulk.value_rows import ValueRows
from batchai_magics.metrics.reading.line_cleaning import has_controls
from batchai_magics.metrics.reading.line_prefixes import TagShapes, parse_prefix_cached
from batchai_magics.metrics.reading.log_file import LogFile
from batchai_magics.metrics.reading.parser_state import StepCadence
from batchai_magics.metrics.reading.prefix_patterns import has_tag
from batchai_magics.metrics.reading.timestamps import WriteTimes
from batchai_magics.metrics.reading.user_patterns import UserPatterns
from batchai_magics.metrics.record import Record, StepRecord, at_offset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_HEADER_BLOCK_BYTES = 1 << 18
_FIRST_FORM_BYTES, _MAX_FORM_BYTES = 1 << 13, 1 << 21
_FIRST_STRIDE_BYTES, _LAST_STRIDE_BYTES = 1 << 8, 1 << 16
_MARGIN = b"\n" * MARGIN_BYTES


@cache
def _scanners() -> Mapping[bool, Scanner]:
    """What finds all lines that matter: outside of a header, and in one."""
    literals = list(dict.fromkeys((RATE, *TAG_NAMES, *OPENINGS, *sorted(LITERALS))))
    return {False: Scanner(literals), True: Scanner(list(dict.fromkeys((*literals, *HINTS))))}


class BulkLines:
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
        self._scanners = _scanners()
        self._buffer = bytearray()
        self._offset = offset  # in the file
        self._parts: list[StepColumns] = []
        self._count = 0  # of all steps
        self._others: list[tuple[int, Record | ValueRows]] = []
        self._forms = FormIndex(self._file.shapes)
        self._stride_bytes = _FIRST_FORM_BYTES
        self._parsed: list[StepRecord] = []  # of the block in hand …
        self._rows: list[Array] = []  # … and its rows, in file order; the parsed steps come behind its own

    def read(self, buffer: bytearray, end: int) -> None:
        """Read a buffer up to the end of a line, or a part of an endless one."""
        self._buffer = buffer
        is_whole = buffer[end - 1 : end] == b"\n"
        at = self._settle(MARGIN_BYTES, end) if is_whole else self._parse(MARGIN_BYTES, end)
        self._keep(StepColumns.of([]))
        if has_controls(buffer, at, end) and not len(long_lines(buffer, at, end)):  # of those, ends differ
            self._read_clean(bytes(buffer[at:end]))
        else:
            self._read_lines(at, end)

    def read_some(self, data: bytes) -> Columns:
        """The records that the next bytes of a growing log complete; `LogFile.feed` gives the same."""
        lines = data.replace(b"\r", b"\n")
        buffer = bytearray(_MARGIN + lines + _MARGIN)
        end, filled = MARGIN_BYTES + lines.rfind(b"\n") + 1, MARGIN_BYTES + len(lines)
        self._file.seek(self._offset)
        if end > MARGIN_BYTES:
            self.read(buffer, end)
        self._buffer = buffer
        self._parse(end, filled)
        return self._all()

    def finish(self, buffer: bytearray, end: int) -> Columns:
        """Read the last line, up to where the buffer is filled; gives all records."""
        self._buffer = buffer
        self._parse(MARGIN_BYTES, end)
        self._add(self._file.finish(), 0)
        return self._all()

    def _all(self) -> Columns:
        self._keep(StepColumns.of([]))
        return Columns(StepColumns.concatenated(self._parts), self._others)

    def _read_clean(self, raw: bytes) -> None:
        """Read lines out of which something is taken; where they end is told of the raw ones."""
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
            self._others[number] = place, _moved(record, clean_ends, raw_ends)

    def _read_lines(self, start: int, end: int) -> None:
        while start < end:
            stop = self._buffer.find(b"\n", min(start + self._stride_bytes, end) - 1, end) + 1
            if self._buffer.find(RATE, start, stop) >= 0 or self._file.is_in_header:
                start = self._read_block(start, end)
            else:
                start = self._read_forms(start, stop)

    def _read_forms(self, start: int, stop: int) -> int:
        """Read lines by their forms, few of them while most are new; gives where they end."""
        text = bytes(self._buffer[start:stop])
        if not self._file.is_uniform or has_tag(text) or len(long_lines(self._buffer, start, stop)):
            return self._parse(start, self._line_behind(start, stop))
        has_bar = self._file.states.has_bar
        block = self._forms.take_apart(text, offset=self._offset, rank=self._file.rank, has_bar=has_bar)
        hard = sum(last - first for first, last in block.hard)
        is_known = 8 * hard < len(block.ends)
        self._stride_bytes = min(2 * self._stride_bytes, _MAX_FORM_BYTES) if is_known else _FIRST_FORM_BYTES
        return start + self._walk_rows(block, start)

    def _line_behind(self, start: int, end: int) -> int:
        return self._buffer.find(b"\n", min(start + _FIRST_FORM_BYTES, end) - 1, end) + 1 or end

    def _walk_rows(self, block: FormBlock, start: int) -> int:
        """Read the lines of a block in their order, up to one behind which forms do not tell all."""
        done, count, states = 0, len(block.ends), self._file.states
        has_bar = states.has_bar
        for first, last in [*block.hard, (count, count)]:
            if done < first:
                repeated = block.first_repeated(done, first, states.of(self._file.rank))
                if repeated is not None:
                    self._take_rows(block, done, repeated)
                    self._parse_rows(block, start, repeated, repeated + 1)
                    done = repeated + 1
            if done < first:
                self._take_rows(block, done, first)
            done = last
            if first < last:
                self._parse_rows(block, start, first, last)
                if not self._file.is_uniform or states.has_bar != has_bar:
                    break
        return int(block.ends[done - 1])

    def _parse_rows(self, block: FormBlock, start: int, first: int, last: int) -> None:
        begin, stop = (int(block.ends[row - 1]) if row else 0 for row in (first, last))
        self._parse(start + begin, start + stop)

    def _take_rows(self, block: FormBlock, first: int, last: int) -> None:
        if first == last:
            return
        rows = block.rows(first, last)
        if rows.tables:
            rows = placed(rows, self._file.states)
            if self._clock:
                for table in rows.tables:
                    _set_times(self._clock, table.time, table.offset, table.is_exact)
                self._file.states.unplaced += unplaced_in(rows)
            self._others.append((self._count, rows))
        begin = int(block.ends[first - 1]) if first else 0
        size = int(block.ends[last - 1]) - begin
        self._offset += size
        self._file.skip(size, lines=last - first)

    def _read_block(self, start: int, end: int) -> int:
        """Read lines up to the end, or to where a header begins or ends; gives where that is."""
        is_in_header = self._file.is_in_header
        if is_in_header:
            end = self._buffer.find(b"\n", min(start + _HEADER_BLOCK_BYTES, end) - 1, end) + 1
        scanner = self._scanners[is_in_header]
        block = take_apart(scanner, self._buffer, start, end, offset=self._offset)
        at = self._walk(block, start, end)
        self._keep(block.steps)
        return at

    def _walk(self, block: BlockColumns, start: int, end: int) -> int:
        at, is_in_header = start, self._file.is_in_header
        for begin, stop in [*block.hard, (end, end)]:
            if stop > at or stop == end:
                if at < begin:
                    self._take(block, at, begin)
                self._parse(max(at, begin), stop, len(block.places))
                at = self._settle(stop, end, len(block.places))
            if self._file.is_in_header and not is_in_header:
                break  # the block was not searched for lines of a header
        return at

    def _settle(self, start: int, end: int, rows: int = 0) -> int:
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
        self._add(self._file.feed(bytes(self._buffer[start:stop]), clock=self._clock), rows)
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

    def _take(self, block: BlockColumns, start: int, stop: int) -> None:
        """Read a stretch of plain lines from the block's columns."""
        first, last = np.searchsorted(block.places, (start, stop)).tolist()
        first_tag, end_tag = np.searchsorted(block.tags.end, (start, stop), side="right").tolist()
        stretch = slice(first, last)
        ranks = block.steps.rank[stretch]
        ranks[block.tag_rows[stretch] < first_tag] = _told(self._file.rank)
        ranks[ranks == NO_RANK] = _told(self._file.default_rank)
        np.copyto(ranks, block.label[stretch], where=ranks == NO_RANK, casting="same_kind")
        if self._clock:
            is_known = block.is_time_exact[stretch]
            _set_times(self._clock, block.steps.wall_time[stretch], block.steps.offset[stretch], is_known)
        has_accuracy = block.steps.has_accuracy[stretch].any()
        _learn(self._file.cadence, block.steps.step[stretch], has_accuracy=bool(has_accuracy))
        self._rows.append(np.arange(first, last))
        self._count += last - first
        self._offset += stop - start
        lines = self._buffer.count(b"\n", start, stop)
        lead = None
        if end_tag > first_tag:
            lead = parse_prefix_cached(
                bytes(self._buffer[block.tags.begin[end_tag - 1] : block.tags.end[end_tag - 1]])
            )
        self._file.skip(stop - start, lines=lines, last_key=lead and lead.key)

    def _keep(self, steps: StepColumns) -> None:
        """Put the rows of the block in hand away, in file order."""
        if self._parsed:
            steps = StepColumns.concatenated([steps, StepColumns.of(self._parsed)])
        rows = np.concatenate([np.zeros(0, np.int64), *self._rows])
        if len(rows):
            self._parts.append(steps.take(rows))
        self._rows, self._parsed = [], []


def _moved(part: Record | ValueRows, clean_ends: Array, raw_ends: Array) -> Record | ValueRows:
    """A record or rows of clean lines, at the offsets of the raw ones."""
    if isinstance(part, ValueRows):
        tables = part.tables
        return ValueRows(
            [table.at_offsets(raw_ends[np.searchsorted(clean_ends, table.offset)]) for table in tables]
        )
    return at_offset(part, int(raw_ends[np.searchsorted(clean_ends, part.offset)]))


def _line_ends(lines: bytes) -> Array:
    return np.flatnonzero(np.frombuffer(lines, np.uint8) == NEWLINE) + 1


def _told(rank: int | None) -> int:
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
