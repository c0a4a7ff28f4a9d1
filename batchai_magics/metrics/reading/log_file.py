"""Parses one log file or pipe into records, assigning each line to the process that wrote it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain, count
from operator import add

from batchai_magics.metrics.grammar.position_grammar import step_of
from batchai_magics.metrics.measurement import Measurement, Record
from batchai_magics.metrics.reading.bar_steps import BarCount, UnplacedDict
from batchai_magics.metrics.reading.line_context import RankContexts
from batchai_magics.metrics.reading.line_reader import LineReader
from batchai_magics.metrics.reading.line_splitter import Block, Lines, LineSplitter, strip_escapes
from batchai_magics.metrics.reading.prefix_patterns import PREFIX, has_tag, printed_at, rank_of
from batchai_magics.metrics.reading.tagged_streams import ReturnLabels, Stretch, TaggedStreams, ranks_of_lines
from batchai_magics.metrics.reading.user_patterns import UserPatterns
from batchai_magics.metrics.timestamps import WriteClock


class LogFile:
    """One file or pipe that may interleave the output of several processes.

    `last_time` is when its last bytes were written, if its reader notes that.
    """

    def __init__(self, rank: int | None, patterns: UserPatterns) -> None:
        self._patterns = patterns
        self._splitter = LineSplitter()
        self._returns = ReturnLabels()
        self._held = b""  # a carriage return at the end, which may be half of a line's end
        self.contexts = RankContexts(rank)
        self._streams = TaggedStreams(rank, are_blanks_of_tags=bool(patterns))
        self._reader = LineReader(self.contexts, rank)
        self._line_count = 0
        self.last_time: float | None = None
        self._clock: WriteClock | None = None

    def read(
        self, data: bytes, *, offset: int | None = None, clock: WriteClock | None = None
    ) -> Iterator[Collection[Record]]:
        """Yield what these bytes complete, the records of each block; consume all before the next call."""
        if offset is not None:
            self._splitter.seek(offset - len(self._held))
        self._clock = clock
        data = self._held + data
        self._held = data[-1:] if data.endswith(b"\r") else b""
        yield from self._complete(data.removesuffix(b"\r"))

    def _complete(self, data: bytes) -> Iterator[Collection[Record]]:
        carry, begin = self._splitter.carry, self._splitter.offset
        lines, stretches = self._returns.end_lines(carry + data, begin)
        for block in self._splitter.feed(lines[len(carry) :]):
            yield from self._read_block(block, stretches)

    def finish(self) -> Iterator[Record]:
        """Yield the complete records on unterminated lines."""
        if self._held:
            yield from chain.from_iterable(self._complete(self._held))
            self._held = b""
        rank = self._returns.rank_of_rest(self._splitter.carry)
        if last := self._splitter.finish():
            stretches = [] if rank is None else [Stretch(last.offset, last.end, rank)]
            yield from chain.from_iterable(self._read_block(last, stretches))
        for line in self._streams.finish(self._splitter.offset):
            yield from self._read_alone(self._numbered(line))
        yield from self.contexts.release_all()

    def take_bar_counts(self) -> list[BarCount]:
        """Return what bars have shown since the last call."""
        counts, self.contexts.bar_counts = self.contexts.bar_counts, []
        return counts

    def take_unplaced(self) -> list[UnplacedDict]:
        """Return the dicts without a step that were printed since the last call."""
        dicts, self.contexts.unplaced = self.contexts.unplaced, []
        return dicts

    def _read_block(self, block: Block, stretches: Sequence[Stretch]) -> Iterator[Collection[Record]]:
        """Parse a block: successive complete lines together, others one by one."""
        raw = block.data.split(b"\n")
        ends = [*map(add, accumulate(map(len, raw)), count(block.offset + 1))]
        if not (has_tag(block.data) or self._streams.is_within_line or raw[-1]):
            clean, rank = strip_escapes(block.data), self._streams.rank
            texts = (raw if clean is block.data else clean.split(b"\n"))[:-1]
            begins = [block.offset, *ends[:-2]]
            ranks = ranks_of_lines(stretches, begins) if stretches and rank is None else None
            first = self._take_numbers(len(texts))
            yield from self._read_all(Lines(texts, ends[:-1], rank, first, ranks, text=clean[:-1]))
            return
        labels = ranks_of_lines(stretches, [block.offset, *ends[:-1]])
        for lines in map(self._numbered, self._streams.demultiplex(block, labels)):
            if lines.is_continued or not lines.has_end:
                yield self._read_alone(lines)
            else:
                yield from self._read_all(lines)

    def _numbered(self, lines: Lines) -> Lines:
        """Number lines from several streams as the file's next ones, and strip their escape sequences."""
        texts = strip_escapes(lines.joined).split(b"\n")
        return replace(lines, texts=texts, first=self._take_numbers(len(texts)), text=None)

    def _take_numbers(self, line_count: int) -> int:
        """Count this many lines as the file's next ones; return the number of the first."""
        first = self._line_count
        self._line_count += line_count
        return first

    def _read_all(self, lines: Lines) -> Iterator[Collection[Record]]:
        """Read lines that match a user pattern one by one, the lines between them together."""
        rows = list[int]()
        if self._patterns:
            starts = accumulate([len(line) + 1 for line in lines.texts], initial=0)
            row_by_start = {start: row for row, start in enumerate(starts)}
            matching = self._patterns.matching_lines(lines.joined)
            rows = sorted(row_by_start[start] for start in matching if start in row_by_start)
        done, count = 0, len(lines.texts)
        for row in rows:
            if done < row:
                yield self._reader.read(lines.slice(done, row), self._clock)
            yield self._read_alone(lines.slice(row, row + 1))
            done = row + 1
        if done < count:
            yield self._reader.read(lines.slice(done, count) if done else lines, self._clock)

    def _read_alone(self, lines: Lines) -> Collection[Record]:
        """Read a single line, also with the user's patterns."""
        records = self._reader.read(lines, self._clock)
        return self._with_patterns(lines, [*records]) if self._patterns else records

    def _with_patterns(self, lines: Lines, records: list[Record]) -> list[Record]:
        """The records of a line and of the user's patterns, which replace numbers of the same names."""
        text, rank, prefix = lines.texts[0], lines.rank_at(0), PREFIX.match(lines.texts[0])
        numbers = [record for record in records if isinstance(record, Measurement)]
        step = step_of(text[prefix.end() if prefix else 0 :])
        at = next(iter(numbers), Measurement("", 0.0, step=step))._replace(
            unit="",
            rank=rank_of(prefix) if rank is None else rank,
            offset=lines.ends[0],
            wall_time=printed_at(lines, 0, self._clock),
        )
        is_json = text.rstrip()[-1:] == b"}"  # its names take precedence over user patterns
        excluded = {number.name for number in numbers if is_json}
        matches = [*self._patterns.records(text, at, without=excluded)]
        names = {match.name for match in matches}
        rest = (
            record for record in records if not (isinstance(record, Measurement) and record.name in names)
        )
        return [*rest, *matches]
