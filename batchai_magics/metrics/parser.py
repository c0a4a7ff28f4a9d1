"""The incremental parser: log bytes in, records out, the same for any chunking."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from batchai_magics.metrics.formats import Found, look, read_records
from batchai_magics.metrics.formats_chainer import read_table_row
from batchai_magics.metrics.formats_line import line_at
from batchai_magics.metrics.formats_view import View
from batchai_magics.metrics.header import HeaderWindow
from batchai_magics.metrics.lines import MAX_LINE_BYTES, Block, LineCutter
from batchai_magics.metrics.memory import Memories
from batchai_magics.metrics.pace import Pace
from batchai_magics.metrics.patterns import Patterns
from batchai_magics.metrics.prefixes import (
    PREFIX,
    Piece,
    StreamKey,
    has_tag,
    is_evenly_tagged,
    last_tag,
    rank_of,
    split_tags,
)
from batchai_magics.metrics.record import HeaderRecord, PatternRecord, Record, ValueRecord

_CONTROL = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~])?|[\0\b]+")
_UNTAGGED = StreamKey(None)


class Parser:
    r"""Reads training logs incrementally; memory is bounded by 64 KiB per stream.

    1. Any chunking of the bytes gives the same records, in the order in which their lines end.
    2. Bytes fed with different `rank` are different files, each with its own unfinished line and offsets.
    3. A record counts when its line has ended, and only in its full shape; `finish` reads lines left open.
    4. No input raises. What is not understood is skipped.

    `patterns` maps names to regular expressions on a line's bytes: the group `value`, or the first one, is
    the number of a PatternRecord. UsageError if one of them cannot work.
    """

    def __init__(self, patterns: Mapping[str, str] = {}) -> None:
        self._patterns = Patterns(patterns)
        self._sources: dict[int | None, Source] = {}

    def feed(self, data: bytes, rank: int | None = None) -> list[Record]:
        """The records that these bytes complete; `rank` is the process that wrote them, if that is known."""
        source = self._sources.get(rank)
        if source is None:
            source = self._sources[rank] = Source(rank, self._patterns)
        return list(source.feed(data))

    def finish(self) -> list[Record]:
        """The records of full shape on lines that nothing ended; the parser is then ready for new streams."""
        sources = list(self._sources.values())
        self._sources.clear()
        return [record for source in sources for record in source.finish()]


@dataclass(slots=True)
class _Stream:
    """One process's output within a source: the text since its last newline."""

    rank: int | None
    carry: bytes = b""
    is_continued: bool = False  # the carry begins in the middle of a line that was too long


class Source:
    """One file or pipe, in which the streams of several processes may be mixed."""

    def __init__(self, rank: int | None, patterns: Patterns) -> None:
        self.pace = Pace()
        self._rank = rank
        self._patterns = patterns
        self._lines = LineCutter()
        self._header = HeaderWindow()
        self._memories = Memories()
        self._current = _UNTAGGED
        self._streams = {_UNTAGGED: _Stream(rank)}

    def feed(self, data: bytes) -> Iterator[Record]:
        """The records that these bytes complete."""
        for block in self._lines.feed(data):
            yield from self._read_block(block)

    def finish(self) -> Iterator[Record]:
        """The records of full shape on lines that nothing ended."""
        last = self._lines.finish()
        if last:
            yield from self._read_block(last)
        for stream in self._streams.values():
            if stream.carry:
                yield from self._read_line(stream.carry, self._lines.offset, stream)

    @property
    def is_at_rest(self) -> bool:
        """Whether the next line is read by itself."""
        is_within_line = any(stream.carry or stream.is_continued for stream in self._streams.values())
        is_within_line = is_within_line or self._lines.is_within_line
        return not (is_within_line or self._patterns or self._memories.has_table)

    @property
    def is_in_header(self) -> bool:
        """Whether lines with one of the header's HINTS are looked at."""
        return self._header.is_open

    @property
    def rank(self) -> int | None:
        """The rank of text that has no tag."""
        return self._streams[self._current].rank

    def skip(self, size_bytes: int, *, lines: int, last_key: StreamKey | None = None) -> None:
        """Pass whole lines that somebody else has read; the last tag in them was that of `last_key`."""
        self._lines.offset += size_bytes
        self._header.skip(lines)
        if last_key:
            self._current = last_key
            self._streams.setdefault(last_key, _Stream(last_key.rank))

    def _read_block(self, block: Block) -> Iterator[Record]:
        stream = self._streams[self._current]
        if has_tag(block.data) or stream.carry or stream.is_continued or block.data[-1:] != b"\n":
            yield from self._read_tagged(block)
            return
        found = self._look(block.data)
        if found:
            yield from read_records(self._view(block, stream.rank), found)
        else:
            for line in _lines(block):
                yield from self._read_line(line.data, line.end, stream)

    def _look(self, data: bytes) -> Found | None:
        """What may be in these lines; None if they have to be read one by one."""
        is_clean = b"\x1b" not in data and b"\0" not in data and b"\b" not in data
        if not is_clean or self._patterns or self._header.is_open or self._memories.has_table:
            return None
        found = look(data)
        return None if found.is_opening else found

    def _view(self, block: Block, rank: int | None, *, is_tagged: bool = False) -> View:
        return View(block.data, rank, block.offset, None, self.pace, self._memories, is_tagged=is_tagged)

    def _read_tagged(self, block: Block) -> Iterator[Record]:
        """Read lines with tags: where these only tell the lines' ranks, all at once."""
        found = self._look(block.data) if self._is_even(block) else None
        key = last_tag(block.data) if found else None
        if found is None or key is None:
            yield from self._untangle(block)
            return
        self._current = key
        self._streams.setdefault(key, _Stream(key.rank))
        yield from read_records(self._view(block, None, is_tagged=True), found)

    def _is_even(self, block: Block) -> bool:
        """Whether no line is spread over several tags' pieces."""
        is_between_lines = not any(stream.carry or stream.is_continued for stream in self._streams.values())
        is_known = self._rank is None and is_between_lines and block.data[-1:] == b"\n"
        return is_known and is_evenly_tagged(block.data)

    def _untangle(self, block: Block) -> Iterator[Record]:
        """Give each piece between tags to its stream; a line is read where its stream ends it."""
        for line in _lines(block):
            for piece in split_tags(line.data) if has_tag(line.data) else [Piece(None, line.data)]:
                stream = self._switch(piece)
                if stream.carry[-1:] == b"\n" or len(stream.carry) > MAX_LINE_BYTES:
                    text, stream.carry = stream.carry, b""
                    yield from self._read_line(text, line.end, stream)
                    stream.is_continued = text[-1:] != b"\n"

    def _switch(self, piece: Piece) -> _Stream:
        """The stream that a piece belongs to, with the piece appended; it is the current one from here on."""
        text = piece.text
        if piece.key:
            self._current = piece.key
        stream = self._streams.get(self._current)
        if stream is None:
            rank = self._current.rank if self._rank is None else self._rank
            stream = self._streams[self._current] = _Stream(rank)
        if piece.key and not stream.carry and text[:1] == b" ":
            text = text[1:]  # Open MPI 5 puts a blank behind its tags
        stream.carry += text
        return stream

    def _read_line(self, line: bytes, end: int, stream: _Stream) -> Iterator[Record]:
        text = _CONTROL.sub(b"", line)
        rank = stream.rank
        view = View(
            text, rank, end - len(line), end, self.pace, self._memories, is_continued=stream.is_continued
        )
        records = list(read_records(view, look(text))) or self._read_row(view)
        yield from self._read_header(text[: view.first], end, rank)
        yield from records
        if self._patterns:
            yield from self._read_patterns(text, end, rank, without=_json_names(text, records))

    def _read_row(self, view: View) -> list[Record]:
        """The numbers of a line that is a row of a table, if one is open."""
        found = line_at(view, 0) if self._memories.has_table else None
        is_row = found and found[1] and found[0].memory.lines_left
        return [*read_table_row(found[0])] if found and is_row else []

    def _read_patterns(
        self, text: bytes, end: int, rank: int | None, *, without: set[str]
    ) -> Iterator[Record]:
        rank = _rank_of_line(text) if rank is None else rank
        for found in self._patterns.read(text.rstrip(b"\n")):
            if found.name not in without:
                yield PatternRecord(found.name, found.value, found.step, rank, end)

    def _read_header(self, text: bytes, end: int, rank: int | None) -> Iterator[Record]:
        for entry in self._header.read(text):
            if entry.key == "num_batches":
                self.pace.num_batches = int(entry.value)
            yield HeaderRecord(entry.key, entry.value, _rank_of_line(text) if rank is None else rank, end)


def _lines(block: Block) -> Iterator[Block]:
    offset = block.offset
    for line in block.data.splitlines(keepends=True):
        yield Block(line, offset)
        offset += len(line)


def _rank_of_line(text: bytes) -> int | None:
    return rank_of(PREFIX.match(text))


def _json_names(text: bytes, records: list[Record]) -> set[str]:
    """The names that a JSON line gave to its numbers: it wins over patterns."""
    if text.rstrip()[-1:] != b"}":
        return set()
    return {record.name for record in records if isinstance(record, ValueRecord)}
