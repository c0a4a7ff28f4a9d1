"""The table of all formats that the parser knows, one row each.

A row has *literals*, which are searched for first; a *pattern*, which never crosses a line end; the *fields*
it yields, with units; a *sample* as the program prints it; and a reader that turns a match into records, or
into none for a near miss. To add a format, add a row to the file of its family and a test of its sample.

Records of tf_cnn_benchmarks are found anywhere on a line, because its processes interleave their output. All
other formats occupy a whole line, which the first matching row parses: JSON takes precedence over patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from batchai_magics.metrics.formats.horovod import HOROVOD
from batchai_magics.metrics.formats.json_lines import DLLOGGER
from batchai_magics.metrics.formats.line_format import (
    COUNT,
    Format,
    Line,
    LineFormat,
    line_pattern,
)
from batchai_magics.metrics.formats.tf_cnn_benchmarks import OPENINGS, TENSORFLOW_BENCHMARKS
from batchai_magics.metrics.measurement import ATTEMPT, Fact, Record
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
    *DLLOGGER,
    *HOROVOD,
)
FORMATS: tuple[Format, ...] = (*TENSORFLOW_BENCHMARKS, *LINE_FORMATS)

EMBEDDED_LITERALS = tuple(row.literal for row in TENSORFLOW_BENCHMARKS)
_LINE_LITERALS = tuple(dict.fromkeys(literal for row in LINE_FORMATS for literal in row.literals))
_LINE_STEMS = tuple(literal_stem(literal) for literal in _LINE_LITERALS)
LINE_TEXTS = tuple(dict.fromkeys((*_LINE_STEMS, *EMBEDDED_LITERALS, *OPENINGS)))
"""A line that is not for the grammar has one of these, or nothing to read."""
_SEARCH = LiteralSearch(_LINE_LITERALS)
_ROWS_WITH = [
    [place for place, row in enumerate(LINE_FORMATS) if literal in row.literals] for literal in _LINE_LITERALS
]


def formats_of(line: bytes) -> list[LineFormat]:
    """The formats that may read a line: those of which it has a literal."""
    found = {place for number in _SEARCH.candidates(line) for place in _ROWS_WITH[number]}
    return [LINE_FORMATS[place] for place in sorted(found)]


def read_embedded(cursor: BlockCursor) -> list[Record] | None:
    """The records of tf_cnn_benchmarks anywhere on a line, from left to right; None if there are none."""
    matches = [
        (match, row.read)
        for row in TENSORFLOW_BENCHMARKS
        if row.literal in cursor.data
        for match in row.pattern.finditer(cursor.data)
    ]
    records: list[Record] = []
    for match, read in sorted(matches, key=lambda pair: pair[0].start()):
        if match.start() < cursor.consumed:
            continue
        found = read(cursor, match)
        cursor.consumed = match.end()
        records += found
        if found and cursor.first_record_start is None:
            cursor.first_record_start = cursor.record_start
    return records if matches else None
