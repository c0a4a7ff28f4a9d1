"""One file or pipe of a log: its lines, each in the stream of the process that wrote it, become records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from batchai_magics.metrics.formats.chainer import read_table_row
from batchai_magics.metrics.formats.key_values import step_of
from batchai_magics.metrics.formats.row import line_at, lines_with
from batchai_magics.metrics.formats.table import Contents, look, read_records
from batchai_magics.metrics.formats.tf_cnn_benchmarks import HeaderWindow
from batchai_magics.metrics.reading.cleaning import clean_block, clean_lines
from batchai_magics.metrics.reading.leads import TagShapes, last_key
from batchai_magics.metrics.reading.lines import Block, LineCutter, without_escapes
from batchai_magics.metrics.reading.memory import Memories, Pace
from batchai_magics.metrics.reading.patterns import Patterns
from batchai_magics.metrics.reading.prefixes import PREFIX, StreamKey, has_tag, rank_of
from batchai_magics.metrics.reading.streams import StreamLine, Streams
from batchai_magics.metrics.reading.times import HasTimes
from batchai_magics.metrics.reading.view import View
from batchai_magics.metrics.record import HeaderRecord, Record, StepRecord, ValueRecord


class LogFile:
    """One file or pipe, in which the streams of several processes may be mixed."""

    def __init__(self, rank: int | None, patterns: Patterns) -> None:
        self.pace = Pace()
        self._patterns = patterns
        self._lines = LineCutter()
        self._header = HeaderWindow()
        self._memories = Memories()
        self._streams = Streams(rank)
        self._tags = TagShapes()
        self._clock: HasTimes | None = None

    def feed(
        self, data: bytes, *, offset: int | None = None, clock: HasTimes | None = None
    ) -> Iterable[Record]:
        """The records that these bytes complete, to be taken before feeding again; see `Parser.feed`."""
        self._clock = clock
        if offset is not None:
            self.move_to(offset)
        return chain.from_iterable(map(self._read_block, self._lines.feed(data)))

    def move_to(self, offset: int) -> None:
        """The next bytes stand at this offset of their file."""
        self._lines.move_to(offset)

    def finish(self) -> Iterator[Record]:
        """The records of full shape on lines that nothing ended."""
        last = self._lines.finish()
        if last:
            yield from self._read_block(last)
        for line in self._streams.finish(self._lines.offset):
            yield from self._read_line(line)

    @property
    def is_at_rest(self) -> bool:
        """Whether the next line is read by itself."""
        is_within_line = self._streams.is_any_within_line or self._lines.is_within_line
        return not (is_within_line or self._patterns or self._memories.has_table)

    @property
    def is_in_header(self) -> bool:
        """Whether lines with one of the header's HINTS are looked at."""
        return self._header.is_open

    @property
    def rank(self) -> int | None:
        """The rank of text that has no tag."""
        return self._streams.rank

    @property
    def own_rank(self) -> int | None:
        """The rank of text whose tag tells none."""
        return self._streams.own_rank

    def skip(self, size_bytes: int, *, lines: int, last_key: StreamKey | None = None) -> None:
        """Pass whole lines that somebody else has read; the last tag in them was that of `last_key`."""
        self._lines.offset += size_bytes
        self._header.skip(lines)
        if last_key:
            self._streams.switch_to(last_key)

    def _read_block(self, block: Block) -> Iterable[Record]:
        """Read lines all at once, where each belongs to one process and is read by itself."""
        is_tagged = has_tag(block.data)
        if not self._is_apart(block, is_tagged=is_tagged) or (self._patterns and is_tagged):
            return self._untangle(block)
        lines = clean_lines(block.data, self._tags, is_tagged=is_tagged)
        if lines is None:
            return self._untangle(block)
        if len(lines) < len(block.data):
            block = clean_block(lines, block)
        return self._read_whole_lines(block, is_tagged=is_tagged)

    def _read_whole_lines(self, block: Block, *, is_tagged: bool) -> Iterable[Record]:
        contents = look(block.data, is_in_header=self._header.is_open)
        if contents.openings:
            return self._read_openings(block, contents)
        return self._read_even(block, contents, is_tagged=is_tagged)

    def _is_apart(self, block: Block, *, is_tagged: bool) -> bool:
        """Whether no line of the block goes on in another one, and only literals tell a record."""
        if block.data[-1:] != b"\n" or self._memories.has_table:
            return False
        return not (self._streams.is_any_within_line if is_tagged else self._streams.is_within_line)

    def _read_openings(self, block: Block, contents: Contents) -> Iterator[Record]:
        """Read up to the end of a line that may open a header or a table, then what is behind it."""
        place = min(place for place in map(block.data.find, contents.openings) if place >= 0)
        begin, end = block.data.rfind(b"\n", 0, place) + 1, block.data.find(b"\n", place) + 1
        if begin:
            yield from self._read_block(block.part(0, begin))
        yield from self._untangle(block.part(begin, end))
        if end < len(block.data):
            rest = block.part(end, len(block.data))
            is_open = self._header.is_open or self._memories.has_table
            yield from self._read_block(rest) if is_open else self._untangle(rest)

    def _read_even(self, block: Block, contents: Contents, *, is_tagged: bool) -> Iterable[Record]:
        """Read the header's lines and those with a pattern of the user's singly, all others at once."""
        single = sorted({*lines_with(contents.hints, block.data), *self._patterns.lines_found(block.data)})
        if single:
            return self._read_around(block, single, contents, is_tagged=is_tagged)
        return self._read_at_once(block, contents, is_tagged=is_tagged)

    def _read_around(
        self, block: Block, single: Sequence[int], contents: Contents, *, is_tagged: bool
    ) -> Iterator[Record]:
        """Read the lines that begin at these places singly, and those between them at once."""
        done = 0
        for begin in single:
            end = block.data.find(b"\n", begin) + 1
            if done < begin:
                yield from self._read_at_once(block.part(done, begin), contents, is_tagged=is_tagged)
            yield from self._untangle(block.part(begin, end))
            done = end
        if done < len(block.data):
            yield from self._read_at_once(block.part(done, len(block.data)), contents, is_tagged=is_tagged)

    def _read_at_once(self, block: Block, contents: Contents, *, is_tagged: bool) -> Iterable[Record]:
        rank = self._streams.own_rank if is_tagged else self.rank
        if self._header.is_open:
            self._header.skip(block.data.count(b"\n"))
        if is_tagged and (key := last_key(block.data)):
            self._streams.switch_to(key)
        if not contents.marks:
            return ()
        view = View(
            block.data,
            rank,
            block.offset,
            None,
            self.pace,
            self._memories,
            is_tagged=is_tagged,
            clock=self._clock,
            raw_ends=block.raw_ends,
        )
        return read_records(view, contents)

    def _untangle(self, block: Block) -> Iterator[Record]:
        for line in self._streams.untangle(block):
            yield from self._read_line(line)

    def _read_line(self, line: StreamLine) -> Iterator[Record]:
        text = without_escapes(line.text)
        view = View(
            text,
            line.rank,
            line.end - len(line.text),
            line.end,
            self.pace,
            self._memories,
            is_continued=line.is_continued,
            clock=self._clock,
            tag_stamp=line.stamp,
        )
        records = list(read_records(view, look(text))) or self._read_row(view)
        yield from self._read_header(text[: view.first], line.end, line.rank)
        yield from records
        if self._patterns:
            step = _step(text, records)
            yield from self._patterns.records(view, step=step, without=_json_names(text, records))

    def _read_row(self, view: View) -> list[Record]:
        """The numbers of a line that is a row of a table, if one is open."""
        if not self._memories.has_table or not (line_and_end := line_at(view, 0)):
            return []
        line, has_ended = line_and_end
        return [*read_table_row(line)] if has_ended and line.memory.lines_left else []

    def _read_header(self, text: bytes, end: int, rank: int | None) -> Iterator[Record]:
        for entry in self._header.read(text):
            if entry.key == "num_batches":
                self.pace.num_batches = int(entry.value)
            rank = rank_of(PREFIX.match(text)) if rank is None else rank
            yield HeaderRecord(entry.key, entry.value, rank, end)


def _step(text: bytes, records: list[Record]) -> int | None:
    """The step of a line, unless it is one within an epoch."""
    for record in records:
        if isinstance(record, StepRecord) or (isinstance(record, ValueRecord) and record.epoch is None):
            return record.step
    prefix = PREFIX.match(text)
    return None if records else step_of(text[prefix.end() if prefix else 0 :])


def _json_names(text: bytes, records: list[Record]) -> set[str]:
    """The names that a JSON line gave to its numbers: it wins over patterns."""
    if text.rstrip()[-1:] != b"}":
        return set()
    return {record.name for record in records if isinstance(record, ValueRecord)}
