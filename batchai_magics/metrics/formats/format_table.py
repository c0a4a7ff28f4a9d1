"""The formats that are read with code: tf_cnn_benchmarks' records, and lines that tell facts of a run.

Records of tf_cnn_benchmarks are found anywhere on a line, because its processes interleave their output. All
other formats occupy a whole line.
"""

from __future__ import annotations

from batchai_magics.metrics.formats.line_format import LineFormat
from batchai_magics.metrics.formats.run_facts import LINE_FORMATS
from batchai_magics.metrics.formats.tf_cnn_benchmarks import OPENINGS, TENSORFLOW_BENCHMARKS
from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.reading.block_cursor import BlockCursor

EMBEDDED_LITERALS = tuple(row.literal for row in TENSORFLOW_BENCHMARKS)
LINE_TEXTS = tuple(
    dict.fromkeys(
        (*(literal for row in LINE_FORMATS for literal in row.literals), *EMBEDDED_LITERALS, *OPENINGS)
    )
)
"""A line that is not for the grammar has one of these, or nothing to read."""


def formats_of(line: bytes) -> list[LineFormat]:
    """The formats that may read a line: those of which it has a literal."""
    return [row for row in LINE_FORMATS if any(literal in line for literal in row.literals)]


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
