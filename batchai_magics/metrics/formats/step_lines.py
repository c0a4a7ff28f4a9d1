"""Step lines that look alike: one search finds all of a block, and one loop makes their records.

Launchers put the same kind of text in front of each line, so that the last two bytes of it, the *edge*, are
known from the step before. Step lines that look different are read one by one, each in its turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from batchai_magics.metrics.formats.row import GluedFormat
from batchai_magics.metrics.reading.leads import NO_LEAD, Lead, reader_like
from batchai_magics.metrics.reading.memory import MAX_DIGITS
from batchai_magics.metrics.reading.times import wall_time
from batchai_magics.metrics.reading.view import View
from batchai_magics.metrics.record import Record, StepRecord, step_record

RATE = b"images/sec: "
NUMBERS = (
    rb"(\d+\.\d) \+/- (\d+\.\d) \(jitter = (\d+\.\d)\)[ \t]+(-?(?:nan|inf|\d+\.\d{3}))"
    rb"(?:[ \t]+(nan|\d\.\d{3})[ \t]+(nan|\d\.\d{3}))?"
)
"""What stands behind RATE in a step line: rate, uncertainty, jitter, loss, and the accuracies, if any."""

APPENDED_TIME = rb"[ \t]+(1\d{9}(?:\.\d{1,9})?)"  # as some wrappers do
_STEP = rb"([1-9]\d{0,%d})[ \t]+" % (MAX_DIGITS - 1)
_MOST_EDGES = 64
_StepLine = tuple[re.Match[bytes], Lead]


def read_step_lines(view: View, row: GluedFormat) -> Iterable[Record]:
    """The records of a block in which all are of this row, that of RATE."""
    text = b"\n" + view.data  # now each line has a newline before it, and stands a byte further right
    lines = _lines_alike(view, text)
    return _records(view, lines) if len(lines) == text.count(RATE) else _read_runs(view, row, text, lines)


def _read_runs(view: View, row: GluedFormat, text: bytes, lines: Iterable[_StepLine]) -> Iterator[Record]:
    """The records of lines that look alike, and of those between them, read one by one."""
    done, run = 1, list[_StepLine]()
    for line in lines:
        begin, end = line[0].span()
        if text.find(RATE, done, begin) >= 0:
            yield from _records(view, run)
            yield from _read_singly(view, row, done - 1, begin - 1)
            run = []
        run.append(line)
        done = end
    yield from _records(view, run)
    yield from _read_singly(view, row, done - 1, len(view.data))


def edge_of(before: bytes) -> bytes:
    """The edge of what stands before a step on its line."""
    return (b"\n" + before)[-2:]


def _lines_alike(view: View, text: bytes) -> list[_StepLine]:
    """The lines of nothing but a lead with the usual edge and a record."""
    edge = view.pace.edge
    matches = _line_pattern(edge).finditer(text)
    if edge == b"\n":
        return [] if view.is_tagged else [(match, NO_LEAD) for match in matches]
    lines, read = [], None
    for match in matches:
        step = match.start(1)
        before = text[text.rfind(b"\n", 0, step) + 1 : step]
        read = read or reader_like(before)
        lead = read(before)
        if lead is not None and (lead.key is not None) == view.is_tagged:
            lines.append((match, lead))
    return lines


@lru_cache(_MOST_EDGES)
def _line_pattern(edge: bytes) -> re.Pattern[bytes]:
    return re.compile(re.escape(edge) + _STEP + RATE + NUMBERS + rb"(?:" + APPENDED_TIME + rb")?[ \t]*(?=\n)")


def _records(view: View, lines: Iterable[_StepLine]) -> list[StepRecord]:
    """The records of such lines: in one loop, for a log has so many of them."""
    records = []
    rank, offset, raw_ends, clock = view.stream_rank, view.offset, view.raw_ends, view.clock
    for match, lead in lines:
        step, rate, uncertainty, jitter, loss, top_1, top_5, appended = match.groups()
        end = offset + match.end()
        if raw_ends is not None:
            end = raw_ends[end]
        record = (
            int(step),
            rank if lead is NO_LEAD else lead.rank(rank),
            float(rate),
            float(uncertainty),
            float(jitter),
            float(loss),
            None if top_1 is None else float(top_1),
            None if top_5 is None else float(top_5),
            end,
            float(appended) if appended else wall_time(lead.stamp, clock.at(end) if clock else None),
        )
        records.append(step_record(record))
    view.pace.see_all(records)
    return records


def _read_singly(view: View, row: GluedFormat, begin: int, end: int) -> Iterator[Record]:
    view.done = begin
    for match in row.pattern.finditer(view.data, begin, end):
        record = row.read(view, match)
        view.done = match.end()
        if record is not None:
            yield record
