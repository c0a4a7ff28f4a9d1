"""Reads the lines of tables: rows that match a pattern of rows above together, other lines one by one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, compress, pairwise, takewhile
from operator import add, not_

from batchai_magics.metrics.grammar.prefix_grammar import row_begin, row_start
from batchai_magics.metrics.grammar.row_patterns import Row, RowPattern
from batchai_magics.metrics.measurement import Record, measurement
from batchai_magics.metrics.reading.line_context import RankContexts
from batchai_magics.metrics.reading.line_groups import MAX_TABLE_LINE_BYTES, PlanLines
from batchai_magics.metrics.reading.line_plan import plan_of_rows
from batchai_magics.metrics.reading.line_splitter import Lines
from batchai_magics.metrics.timestamps import WriteClock

_MOST_PATTERNS = 16  # that a block is searched for


class TableReader:
    """Reads the tables in one file's lines, block by block.

    `is_row`: for each line of the block, whether it is of rows that match a pattern of rows above. It is read
    like any other if their table turns out to have ended.
    """

    def __init__(self, contexts: RankContexts) -> None:
        self._contexts = contexts
        self._lines = Lines([], (), None, 0)
        self._clock: WriteClock | None = None
        self._rows: dict[RowPattern, TableRows] = {}
        self.is_row = bytearray()
        self.records: list[tuple[int, Sequence[Record]]] = []  # by the rows of their lines

    def begin(self, lines: Lines, clock: WriteClock | None) -> Sequence[int]:
        """Begin a block: find the rows that match patterns; return the numbers of all other lines in it."""
        self._lines, self._clock, self._rows, self.records = lines, clock, {}, []
        self.is_row = bytearray(len(lines.texts))
        table = self._contexts.table_of(lines.rank) if self._may_match else None
        for pattern in table.patterns if table else ():
            for begin, end in self._rows_like(pattern).spans():
                self.is_row[begin:end] = b"\1" * (end - begin)
        every = range(len(lines.texts))
        return [*compress(every, map(not_, self.is_row))] if self._rows else every

    @property
    def groups(self) -> list[PlanLines]:
        """The rows that match patterns."""
        return [rows.group for rows in self._rows.values()]

    def enter_rows(self, row: int) -> int:
        """Enter the rows of the open table from a line on that match a pattern; return the row after them."""
        rank, text = self._lines.rank, self._lines.texts[row]
        if not (self._may_match and rank in self._contexts.open_tables):
            return row
        table = self._contexts.table_of(rank)
        for pattern in table.open_patterns if table and row_begin(text) == 0 else ():
            if pattern in self._rows or len(self._rows) < _MOST_PATTERNS:
                rows = self._rows_like(pattern)
                run = rows.run_from(row)
                if run.start < run.stop:
                    self._enter(rows.group, run)
                    return rows.end_of(run)
        return row

    def enter_lines(self, row: int, *, is_opening: bool) -> int:
        """Read lines of a table, of which the first may open it; return the row after them."""
        lines, text = self._lines, self._lines.texts[row]
        if not (self._contexts.open_tables or is_opening):
            return row
        if count := self._enter_box(row):
            return row + count
        if not lines.is_whole(row) or len(text) > MAX_TABLE_LINE_BYTES:
            return row
        rank, (begin, printed_rank) = lines.rank_at(row), row_start(text)
        rank = printed_rank if rank is None else rank
        if not (rank in self._contexts.open_tables or is_opening):
            return row
        number = lines.first + row
        own_number = number if rank is None else self._contexts.lines.number(rank, number, lines)
        table_row = self._contexts.enter_row(rank, text[begin:], own_number)
        if table_row is None:
            return row
        self._add(row, rank, table_row)
        return row + 1

    @property
    def _may_match(self) -> bool:
        """Whether rows are searched for by their patterns: the lines have neither tags nor labels."""
        return self._lines.ranks is None and not self._lines.is_continued

    def _rows_like(self, pattern: RowPattern) -> TableRows:
        if pattern not in self._rows:
            self._rows[pattern] = TableRows(pattern, self._lines, self._clock)
        return self._rows[pattern]

    def _enter(self, group: PlanLines, run: slice) -> None:
        """Enter rows of the open table, and keep their numbers."""
        context, last = self._contexts.of(self._lines.rank), run.stop - 1
        group.keep(range(run.start, run.stop), group.plan.metrics)
        last_epoch = group.epochs[last]
        context.note(group.steps[last], last_epoch)
        if group.plan.layout.epoch < 0:
            group.epochs[run] = [context.epoch] * (run.stop - run.start)
        numbers = [(metric.name, value, metric.phase) for metric, value in group.numbers(last)]
        if context.table:
            context.table.pass_rows(Row(group.steps[last], last_epoch, numbers))

    def _enter_box(self, row: int) -> int:
        """Read lines of an open box; return their count."""
        lines, table = self._lines, self._contexts.table_of(self._lines.rank)
        if table is None or not (self._may_match and lines.rank in self._contexts.open_tables):
            return 0
        texts = lines.texts[row : len(lines.texts) if lines.has_end else -1]
        return table.enter_box(takewhile(lambda text: len(text) <= MAX_TABLE_LINE_BYTES, texts))

    def _add(self, row: int, rank: int | None, numbers: Row) -> None:
        """Add the numbers that a line completes."""
        end = self._lines.ends[row]
        time = self._clock.at(end) if self._clock else None
        records = [
            measurement((name, value, "", numbers.step, numbers.epoch, rank, end, time, phase))
            for name, value, phase in numbers.numbers
        ]
        if records:
            self.records.append((row, records))


class TableRows:
    """The rows of a block that match a pattern, whether their table is open or not.

    A row may have several lines; it counts as the last of them.
    """

    def __init__(self, pattern: RowPattern, lines: Lines, clock: WriteClock | None) -> None:
        self.group = PlanLines(plan_of_rows(pattern), lines)
        self._texts, self._edge = lines.texts, pattern.edge
        texts = pattern.expression.split(b"\n%b%b" % (lines.joined, b"\n" * lines.has_end))
        del texts[-1]  # after the last row
        between, size = texts[:: self.group.plan.layout.stride], pattern.line_count
        self._begins: Sequence[int] = range(0, size * len(between), size)
        breaks = list[int]()
        if any(between):
            edge = b"" if pattern.edge is None else b"\n" + pattern.edge
            self._begins = [*map(add, self._begins, accumulate([text.count(b"\n") for text in between]))]
            breaks = [index for index, text in enumerate(between) if index and text and text != edge]
        self._run_ends = [*breaks, len(between)]
        if between:
            rows = [begin + size - 1 for begin in self._begins]
            self.group.add(rows, texts, [lines.rank] * len(rows))
            self.group.convert(clock)

    def spans(self) -> Iterator[tuple[int, int]]:
        """The first line of each run of rows, and the line after it."""
        for begin, end in pairwise((0, *self._run_ends)):
            if begin < end:
                yield self._begins[begin], self.end_of(slice(begin, end))

    def end_of(self, run: slice) -> int:
        """The line after these rows."""
        last: int = self.group.rows[run.stop - 1]
        return last + 1

    def run_from(self, row: int) -> slice:
        """The indices of the rows that begin with this line, or right below it if it is an edge."""
        begin = row + 1 if self._texts[row] == self._edge else row
        index = bisect_left(self._begins, begin)
        if index == len(self._begins) or self._begins[index] != begin:
            return slice(0, 0)
        return slice(index, self._run_ends[bisect_right(self._run_ends, index)])
