"""The table of all formats that the parser knows, one row each.

A row has *literals*, which are searched for first; a *pattern*, which never crosses a line end; the *fields*
it yields, with units; a *sample* as the program prints it; and a reader that turns a match into records, or
into none for a near miss. To add a format, add a row to the file of its family and a test of its sample.

Records of tf_cnn_benchmarks are found anywhere on a line, because its processes interleave their output. All
other formats occupy a whole line, which the first matching row parses: JSON takes precedence over patterns.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple

from batchai_magics.metrics.formats.caffe import CAFFE
from batchai_magics.metrics.formats.chainer import CHAINER, TABLE_OPENINGS
from batchai_magics.metrics.formats.cntk import CNTK
from batchai_magics.metrics.formats.horovod import HOROVOD
from batchai_magics.metrics.formats.json_lines import DLLOGGER, JSON_LINES
from batchai_magics.metrics.formats.keras import KERAS
from batchai_magics.metrics.formats.line_format import (
    COUNT,
    EmbeddedFormat,
    Format,
    Line,
    LineFormat,
    line_pattern,
    lines_with,
    read_line,
)
from batchai_magics.metrics.formats.mxnet import MXNET
from batchai_magics.metrics.formats.pytorch import PYTORCH
from batchai_magics.metrics.formats.step_grammar import OtherReading, read_block, read_lines
from batchai_magics.metrics.formats.step_lines import read_step_lines
from batchai_magics.metrics.formats.tensorflow import TENSORFLOW
from batchai_magics.metrics.formats.tf_cnn_benchmarks import HINTS, OPENINGS, TENSORFLOW_BENCHMARKS
from batchai_magics.metrics.grammar.line_shapes import DIGITS
from batchai_magics.metrics.measurement import ATTEMPT, Fact, Measurement, Record
from batchai_magics.metrics.reading.block_cursor import BlockCursor
from batchai_magics.metrics.reading.literal_search import LiteralSearch, literal_stem


def _read_attempt(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    yield Fact(ATTEMPT, match["attempt"].decode(), line.rank, line.offset)


ATTEMPTS = (
    LineFormat(
        name="attempt",
        literals=(b"[batchai] attempt #",),
        pattern=line_pattern(rb"\[batchai\] attempt (?P<attempt>" + COUNT + rb") begins on [^\r\n]{1,4096}"),
        fields=(),
        sample="[batchai] attempt 2 begins on node2: Slurm took its nodes for another job",
        read=_read_attempt,
    ),
)


LINE_FORMATS: tuple[LineFormat, ...] = (
    *ATTEMPTS,
    *JSON_LINES,
    *DLLOGGER,
    *HOROVOD,
    *KERAS,
    *PYTORCH,
    *TENSORFLOW,
    *CNTK,
    *CAFFE,
    *CHAINER,
    *MXNET,
)
FORMATS: tuple[Format, ...] = (*TENSORFLOW_BENCHMARKS, *LINE_FORMATS)

_LINE_LITERALS = tuple(dict.fromkeys(literal for row in LINE_FORMATS for literal in row.literals))
_LINE_STEMS = tuple(literal_stem(literal) for literal in _LINE_LITERALS)
_OPENINGS = (*OPENINGS, *TABLE_OPENINGS)
_RATE, *_EVALUATION = TENSORFLOW_BENCHMARKS
LINE_TEXTS = tuple(dict.fromkeys((*_LINE_STEMS, *(row.literal for row in TENSORFLOW_BENCHMARKS), *_OPENINGS)))
"""A line that is not for the grammar has one of these, or nothing to read."""
_SEARCH, _HINT_SEARCH, _TEXT_SEARCH = map(LiteralSearch, (_LINE_LITERALS, HINTS, LINE_TEXTS))

_Read = Callable[[BlockCursor, re.Match[bytes]], Record | None]


class ScanResult(NamedTuple):
    """What some lines may contain."""

    embedded: Sequence[EmbeddedFormat]
    stems: Sequence[bytes]  # of the line formats, beside embedded ones
    hints: Sequence[bytes]  # of header lines, while in a header
    openings: Sequence[bytes]  # start a header or a table, after which any line may matter


_ONLY_RATE = ScanResult((_RATE,), (), (), ())


def scan(data: bytes, *, is_in_header: bool = False) -> ScanResult:
    """Find which formats, or header lines, these lines may contain; never misses one."""
    embedded = [row for row in (_RATE, *_EVALUATION) if row.literal in data]
    openings = [text for text in (TABLE_OPENINGS if is_in_header else _OPENINGS) if text in data]
    hints = [HINTS[number] for number in _HINT_SEARCH.candidates(data)] if is_in_header else []
    numbers = _SEARCH.candidates(data) if embedded else []
    if not (openings or hints or numbers) and len(embedded) < 2:
        return _ONLY_RATE if embedded == [_RATE] else ScanResult(embedded, (), (), ())
    return ScanResult(embedded, [_LINE_STEMS[number] for number in numbers], hints, openings)


def has_text(line: bytes) -> bool:
    """Whether a line has one of LINE_TEXTS, so that not only the grammar may read it."""
    return bool(_TEXT_SEARCH.candidates(line))


def has_only_rate(line: bytes) -> bool:
    """Whether a line has step lines of tf_cnn_benchmarks and no other of LINE_TEXTS."""
    return [LINE_TEXTS[number] for number in _TEXT_SEARCH.candidates(line)] == [_RATE.literal]


def is_of_rows(line: bytes) -> bool:
    """Whether a line has no record of tf_cnn_benchmarks and opens nothing."""
    contents = scan(line)
    return not (contents.embedded or contents.openings)


def read_records(cursor: BlockCursor, contents: ScanResult) -> Iterable[Record]:
    """The records in complete lines, from left to right."""
    if not contents.embedded:
        return read_block(cursor, partial(_read_row, cursor), LINE_TEXTS)
    is_plain = contents is _ONLY_RATE and cursor.line_end is None
    if is_plain and not _has_other_step_lines(cursor):
        return read_step_lines(cursor, _RATE)
    return _read_mixed(cursor, contents)


def _read_row(cursor: BlockCursor, start: int, rows: Sequence[LineFormat] | None) -> OtherReading:
    """Read a line with these rows, by default all whose literals it contains."""
    newline = cursor.data.find(b"\n", start)
    text = cursor.data[start : newline if newline >= 0 else len(cursor.data)]
    if rows is None:
        stems = _SEARCH.candidates(text)
        rows = [row for row in LINE_FORMATS if any(stem in text for stem in row.stems)] if stems else ()
    found = read_line(cursor, start, rows) if rows else None
    if found:
        _note_position(cursor, found)
    return rows, found


def _has_other_step_lines(cursor: BlockCursor) -> bool:
    """Whether the grammar reads a line; each shape of lines is tried once."""
    unseen = cursor.shapes.unseen(cursor.data)
    start = 0
    for line in cursor.data.split(b"\n") if unseen else ():
        key = line.translate(None, DIGITS)
        if key in unseen:
            if _is_readable(cursor, start):
                return True
            cursor.shapes.skip(key)
            unseen.remove(key)
        start += len(line) + 1
    return False


def _is_readable(cursor: BlockCursor, start: int) -> bool:
    """Whether the line that starts here is one for the grammar."""
    newline = cursor.data.find(b"\n", start)
    begin = cursor.skip_tag(start) if cursor.is_tagged else start
    return bool(cursor.shapes.find(cursor.data[begin : newline if newline >= 0 else len(cursor.data)]))


def _matches(rows: Sequence[EmbeddedFormat], data: bytes) -> Iterable[tuple[_Read, re.Match[bytes]]]:
    matches = [zip(repeat(row.read), row.pattern.finditer(data)) for row in rows]
    return matches[0] if len(matches) == 1 else heapq.merge(*matches, key=lambda pair: pair[1].start())


def _read_mixed(cursor: BlockCursor, contents: ScanResult) -> Iterator[Record]:
    """The records where tf_cnn_benchmarks lines mix with lines of other programs."""
    matches = list(_matches(contents.embedded, cursor.data))
    begins = [cursor.data.rfind(b"\n", 0, match.start()) + 1 for _, match in matches]
    rows = set(lines_with(contents.stems, cursor.data))
    readers = read_lines(cursor, partial(_read_row, cursor), set(begins))
    lines = ((start, None, read) for start, read in readers)
    embedded = ((start, match, None) for start, match in zip(begins, matches, strict=True))
    for start, match, read in heapq.merge(lines, embedded, key=itemgetter(0)):
        if read is not None:
            yield from _mark_first(cursor, start, read())
        elif match is not None:
            yield from _read_joined(cursor, start, *match, is_row=start in rows)


def _read_joined(
    cursor: BlockCursor, start: int, read: _Read, match: re.Match[bytes], *, is_row: bool
) -> Iterator[Record]:
    """The record of tf_cnn_benchmarks on a line, unless a row reads the whole line: JSON takes precedence."""
    if match.start() < cursor.consumed:
        return
    if is_row and start >= cursor.consumed and (found := read_line(cursor, start, LINE_FORMATS)):
        yield from _mark_first(cursor, start, found)
    if match.start() < cursor.consumed:
        return
    record = read(cursor, match)
    cursor.consumed = match.end()
    if record is not None:
        yield from _mark_first(cursor, cursor.record_start, [record])


def _note_position(cursor: BlockCursor, records: Sequence[Record]) -> None:
    """Let the lines below know the position of a line that a row has read."""
    for record in records[-1:]:
        if isinstance(record, Measurement):
            cursor.states.of(record.rank).context.note(record.step, record.epoch)


def _mark_first(cursor: BlockCursor, begun: int, records: list[Record]) -> list[Record]:
    if records:
        cursor.first_record_start = begun if cursor.first_record_start is None else cursor.first_record_start
    return records
