"""Parses one log file or pipe into records, assigning each line to the process that wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain

from batchai_magics.metrics.formats.chainer import read_table_row
from batchai_magics.metrics.formats.format_table import ScanResult, read_records, scan
from batchai_magics.metrics.formats.line_format import line_at, lines_with
from batchai_magics.metrics.formats.tf_cnn_benchmarks import HeaderWindow
from batchai_magics.metrics.grammar.line_shapes import LineShapes
from batchai_magics.metrics.grammar.position_grammar import step_of
from batchai_magics.metrics.grammar.rank_labels import RankLabels
from batchai_magics.metrics.measurement import Fact, Measurement, Record, StepRecord
from batchai_magics.metrics.reading.bar_steps import BarCount, UnplacedDict
from batchai_magics.metrics.reading.block_cursor import BlockCursor
from batchai_magics.metrics.reading.line_cleaning import clean_block, clean_lines
from batchai_magics.metrics.reading.line_prefixes import TagShapes, last_stream_key
from batchai_magics.metrics.reading.line_splitter import Block, LineSplitter, strip_escapes
from batchai_magics.metrics.reading.parser_state import RankStates, StepCadence
from batchai_magics.metrics.reading.prefix_patterns import PREFIX, StreamKey, has_tag, rank_of
from batchai_magics.metrics.reading.process_lines import LineSpan
from batchai_magics.metrics.reading.return_labels import ReturnLabels, Stretch, all_of
from batchai_magics.metrics.reading.tagged_streams import StreamLine, TaggedStreams
from batchai_magics.metrics.reading.timestamps import WriteClock
from batchai_magics.metrics.reading.user_patterns import UserPatterns


class LogFile:
    """One file or pipe that may interleave the output of several processes."""

    def __init__(self, rank: int | None, patterns: UserPatterns) -> None:
        self.cadence = StepCadence()
        self._patterns = patterns
        self._lines = LineSplitter()
        self.returns = ReturnLabels()
        self._header = HeaderWindow()
        self.states = RankStates()
        self._streams = TaggedStreams(rank)
        self._tags = TagShapes()
        self.shapes = LineShapes()
        self.labels = RankLabels()
        self._line_count = 0
        self._clock: WriteClock | None = None

    def feed(
        self, data: bytes, *, offset: int | None = None, clock: WriteClock | None = None
    ) -> Iterable[Record]:
        """Yield the records that these bytes complete; consume all of them before the next call."""
        if offset is not None:
            self.seek(offset)
        if self.returns.pass_by(data):
            return self.feed_lines(data, clock=clock)
        return self._feed_parts(data, clock)

    def end_lines(self, data: bytes) -> tuple[bytes, list[Stretch]]:
        """The next bytes with newlines for carriage returns, and which stretches of them follow a label."""
        carry = self._lines.carry
        lines, stretches = self.returns.end_lines(carry + data)
        size = len(carry)
        return lines[size:], [Stretch(each.begin - size, each.end - size, each.rank) for each in stretches]

    def feed_lines(self, lines: bytes, *, clock: WriteClock | None = None) -> Iterable[Record]:
        """The same for bytes that `end_lines` gave."""
        self._clock = clock
        return chain.from_iterable(map(self._read_block, self._lines.feed(lines)))

    def _feed_parts(self, data: bytes, clock: WriteClock | None) -> Iterator[Record]:
        lines, stretches = self.end_lines(data)
        for begin, end, rank in all_of(stretches, 0, len(lines)):
            with self.labelled(rank):
                yield from self.feed_lines(lines[begin:end], clock=clock)

    @contextmanager
    def labelled(self, rank: int | None) -> Iterator[None]:
        """Take untagged text for that of a rank whose label stands before it, unless its rank is known."""
        if rank is None or self.rank is not None:
            yield
            return
        with self._streams.within(StreamKey(rank, b"label")):
            yield

    def labelled_rest(self, rest: bytes = b"") -> AbstractContextManager[None]:
        """The same for an incomplete line, of which `rest` is not yet fed."""
        return self.labelled(self.returns.rank_of_rest(self._lines.carry + rest))

    def seek(self, offset: int) -> None:
        """Set the file offset of the next bytes."""
        self._lines.seek(offset)

    def finish(self) -> Iterator[Record]:
        """Yield the complete records on unterminated lines."""
        with self.labelled_rest():
            last = self._lines.finish()
            if last:
                yield from self._read_block(last)
        for line in self._streams.finish(self._lines.offset):
            yield from self._read_line(line)
        yield from self.states.release_all()

    def take_bar_counts(self) -> list[BarCount]:
        """What bars showed since this was last asked."""
        counts, self.states.bar_counts = self.states.bar_counts, []
        return counts

    def take_unplaced(self) -> list[UnplacedDict]:
        """The printed dicts without a step since this was last asked."""
        dicts, self.states.unplaced = self.states.unplaced, []
        return dicts

    @property
    def is_between_lines(self) -> bool:
        """Whether the next line does not depend on earlier ones."""
        is_within_line = self._streams.is_any_within_line or self._lines.is_within_line
        return not (is_within_line or self._patterns or self.states.is_in_table)

    @property
    def is_uniform(self) -> bool:
        """Whether lines of known forms may be read in any number at once: no header and no table is open."""
        return self.is_between_lines and not (self.is_in_header or self.states.has_table or self.states.held)

    @property
    def is_in_header(self) -> bool:
        """Whether lines with one of the header HINTS are parsed."""
        return self._header.is_open

    @property
    def rank(self) -> int | None:
        """The rank of untagged text."""
        return self._streams.rank

    @property
    def default_rank(self) -> int | None:
        """The rank of text whose tag has no rank."""
        return self._streams.default_rank

    def skip(self, size_bytes: int, *, lines: int, last_key: StreamKey | None = None) -> None:
        """Skip complete lines that another reader has parsed; `last_key` is the stream of their last tag."""
        self._lines.offset += size_bytes
        self._header.skip(lines)
        self._line_count += lines
        if last_key:
            self._streams.switch_to(last_key)

    def pass_lines(self, lines: bytes) -> None:
        """Note whose the lines are that another reader will skip."""
        texts = lines.split(b"\n")
        self.states.lines.end(LineSpan(self._line_count, texts, self.rank, self.default_rank), len(texts) - 1)

    def _read_block(self, block: Block) -> Iterable[Record]:
        """Parse a block, before and behind the line that tells what a number in front of lines is."""
        told = None if self.labels.are_ranks else self.labels.first_telling(block.data)
        return self._read_part(block) if told is None else self._read_around_told(block, told)

    def _read_around_told(self, block: Block, told: int) -> Iterator[Record]:
        if told:
            yield from self._read_part(block.slice(0, told))
        self.labels.are_ranks, self.shapes = True, LineShapes(are_labels_ranks=True)
        yield from self._read_part(block.slice(told, len(block.data)))

    def _read_part(self, block: Block) -> Iterable[Record]:
        """Parse a block at once if every line in it is complete and belongs to one process."""
        is_tagged = has_tag(block.data)
        if not self._is_self_contained(block, is_tagged=is_tagged) or (self._patterns and is_tagged):
            return self._read_line_by_line(block)
        lines = clean_lines(block.data, self._tags, is_tagged=is_tagged)
        if lines is None:
            return self._read_line_by_line(block)
        if len(lines) < len(block.data):
            block = clean_block(lines, block)
        return self._read_whole_lines(block, is_tagged=is_tagged)

    def _read_whole_lines(self, block: Block, *, is_tagged: bool) -> Iterable[Record]:
        contents = scan(block.data, is_in_header=self._header.is_open)
        if contents.openings:
            return self._read_openings(block, contents)
        return self._read_body(block, contents, is_tagged=is_tagged)

    def _is_self_contained(self, block: Block, *, is_tagged: bool) -> bool:
        """Whether no line of the block is partial, continues an earlier one or is a table row."""
        if block.data[-1:] != b"\n" or self.states.is_in_table:
            return False
        return not (self._streams.is_any_within_line if is_tagged else self._streams.is_within_line)

    def _read_openings(self, block: Block, contents: ScanResult) -> Iterator[Record]:
        """Parse up to the end of a line that may open a header or a table, then the rest."""
        place = min(place for place in map(block.data.find, contents.openings) if place >= 0)
        begin, end = block.data.rfind(b"\n", 0, place) + 1, block.data.find(b"\n", place) + 1
        if begin:
            yield from self._read_part(block.slice(0, begin))
        yield from self._read_line_by_line(block.slice(begin, end))
        if end < len(block.data):
            rest = block.slice(end, len(block.data))
            is_open = self._header.is_open or self.states.is_in_table
            yield from self._read_part(rest) if is_open else self._read_line_by_line(rest)

    def _read_body(self, block: Block, contents: ScanResult, *, is_tagged: bool) -> Iterable[Record]:
        """Parse header lines and lines that match a user pattern one by one, the others at once."""
        single = sorted({*lines_with(contents.hints, block.data), *self._patterns.matching_lines(block.data)})
        if single:
            return self._read_around(block, single, contents, is_tagged=is_tagged)
        return self._read_at_once(block, contents, is_tagged=is_tagged)

    def _read_around(
        self, block: Block, single: Sequence[int], contents: ScanResult, *, is_tagged: bool
    ) -> Iterator[Record]:
        """Parse the lines that start at these positions one by one, and those between at once."""
        done = 0
        for begin in single:
            end = block.data.find(b"\n", begin) + 1
            if done < begin:
                yield from self._read_at_once(block.slice(done, begin), contents, is_tagged=is_tagged)
            yield from self._read_line_by_line(block.slice(begin, end))
            done = end
        if done < len(block.data):
            yield from self._read_at_once(block.slice(done, len(block.data)), contents, is_tagged=is_tagged)

    def _read_at_once(self, block: Block, contents: ScanResult, *, is_tagged: bool) -> Iterable[Record]:
        rank = self._streams.default_rank if is_tagged else self.rank
        if self._header.is_open:
            self._header.skip(block.data.count(b"\n"))
        if is_tagged and (key := last_stream_key(block.data)):
            self._streams.switch_to(key)
        first_line = self._line_count
        self._line_count += block.data.count(b"\n")
        cursor = BlockCursor(
            block.data,
            rank,
            block.offset,
            None,
            self.cadence,
            self.states,
            is_tagged=is_tagged,
            clock=self._clock,
            raw_ends=block.raw_ends,
            shapes=self.shapes,
            first_line=first_line,
        )
        return chain(read_records(cursor, contents), self._pass_block(cursor))

    def _pass_block(self, cursor: BlockCursor) -> Iterator[Record]:
        """Note whose the lines of a block are, once it was read; gives no records."""
        if self.states.lines.is_open:
            self.states.lines.end(cursor.span, len(cursor.texts) - 1)
        yield from ()

    def _read_line_by_line(self, block: Block) -> Iterator[Record]:
        for line in self._streams.demultiplex(block):
            yield from self._read_line(line)

    def _read_line(self, line: StreamLine) -> Iterator[Record]:
        text = strip_escapes(line.text)
        cursor = BlockCursor(
            text,
            line.rank,
            line.end - len(line.text),
            line.end,
            self.cadence,
            self.states,
            is_continued=line.is_continued,
            clock=self._clock,
            tag_timestamp=line.timestamp,
            shapes=self.shapes,
            first_line=self._line_count,
        )
        self._line_count += 1
        records = list(read_records(cursor, scan(text))) or self._read_row(cursor)
        if self.states.lines.is_open:
            self.states.lines.end(cursor.span, 1)
        yield from self._read_header(text[: cursor.first_record_start], line.end, line.rank)
        if not self._patterns:
            yield from records
            return
        step, epoch = _position_of(text, records)
        without = _json_names(text, records)
        own = list(self._patterns.records(cursor, step=step, epoch=epoch, without=without))
        names = {record.name for record in own}
        yield from (each for each in records if not (isinstance(each, Measurement) and each.name in names))
        yield from own

    def _read_row(self, cursor: BlockCursor) -> list[Record]:
        """The numbers of a table row, if a table is open."""
        if not self.states.is_in_table or not (line_and_end := line_at(cursor, 0)):
            return []
        line, has_ended = line_and_end
        return [*read_table_row(line)] if has_ended and line.state.table_lines_left else []

    def _read_header(self, text: bytes, end: int, rank: int | None) -> Iterator[Record]:
        for entry in self._header.read(text):
            if entry.key == "num_batches":
                self.cadence.num_batches = int(entry.value)
            rank = rank_of(PREFIX.match(text)) if rank is None else rank
            yield Fact(entry.key, entry.value, rank, end)


def _position_of(text: bytes, records: list[Record]) -> tuple[int | None, float | None]:
    """The step and epoch of a line."""
    for record in records:
        if isinstance(record, (StepRecord, Measurement)):
            return record.step, getattr(record, "epoch", None)
    prefix = PREFIX.match(text)
    return step_of(text[prefix.end() if prefix else 0 :]), None


def _json_names(text: bytes, records: list[Record]) -> set[str]:
    """The metric names in a JSON line, which take precedence over user patterns."""
    if text.rstrip()[-1:] != b"}":
        return set()
    return {record.name for record in records if isinstance(record, Measurement)}
