"""How a line that only one program writes is taken from its text, and who reads it.

`print` writes a line's text and its end in two pieces where output is not buffered, so that the text of the
next process may come between. Such a line is taken apart only where that cannot be wrong: a line of a known
shape must begin right behind a character that ends another one, and numbers whose digits touch must have a
fixed width.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from batchai_magics.metrics.formats.row import Line, LineFormat
from batchai_magics.metrics.reading.memory import Memory
from batchai_magics.metrics.reading.prefixes import PREFIX, rank_of
from batchai_magics.metrics.reading.times import SHORTEST_BYTES, Stamp, month_of_glog, stamp_in, stamp_of_glog
from batchai_magics.metrics.reading.view import View
from batchai_magics.metrics.record import Record

_MOST_BYTES = 16 * 1024  # longer lines are no line of any program here
_LEVEL = rb"(?:DEBUG|INFO|WARNING)"
_LEAD = re.compile(
    rb"(?:[IW](?:\d{4})?\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]+:\d+\] +"  # glog and absl
    rb"|" + _LEVEL + rb":[\w.]*: ?"  # Python's logging
    rb"|(?:- )?(?:[\w.]+ - )?" + _LEVEL + rb" - "
    rb"|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d: +)?"  # CNTK's BrainScript
)

_BEGINNINGS = (
    rb"(?:Iter|Step) #\d",  # Horovod
    rb"(?:Img/sec per|Total img/sec on|Number of|Running warmup|Running benchmark|Batch size: ) ?",
    rb"Finished (?:Epoch|Evaluation )\[",  # CNTK
    rb" ?(?:Evaluation )?Minibatch\[",
    rb"(?:Train )?Epoch:? \d",  # Keras, PyTorch
    rb"Test (?:loss|accuracy|set): ",
    rb":::ML(?:L|Pv0\.5\.0) ",
    rb"DLLL? (?:\{|20)",
    rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: [IWEF] ",  # what TensorFlow says between them
    rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} ",
    rb"(?:INFO|WARNING|ERROR):\w",
)
_COUNTER = rb"\d{1,18}/(?:\d{1,18}|Unknown) (?:\[|- |[\x80-\xff])"  # of Keras
_BEHIND_NUMBER = rb"(?:(?<=\d\.\d{4})|(?<=\de[+-]\d\d)|(?<=/step))"
_SEAM = re.compile(
    rb"(?<=[\w.;%)\]}])(?=(?:\[\d{1,6}\] )?(?:" + rb"|".join(_BEGINNINGS) + rb"))"
    rb"|" + _BEHIND_NUMBER + rb"(?=(?:\[\d{1,6}\] )?" + _COUNTER + rb")"
    rb"|(?<=\})(?=\{\")"
)


def lines_with(stems: Sequence[bytes], data: bytes) -> list[int]:
    """Where the lines that hold one of these strings begin, in ascending order."""
    starts = set()
    for text in stems:
        place = data.find(text)
        while place >= 0:
            starts.add(data.rfind(b"\n", 0, place) + 1)
            newline = data.find(b"\n", place)
            place = data.find(text, newline) if newline >= 0 else -1
    return sorted(starts)


def line_at(view: View, start: int) -> tuple[Line, bool] | None:
    """The line that begins here, and whether it has ended; None for the rest of one that was too long."""
    newline = view.data.find(b"\n", start)
    end = newline if newline >= 0 else len(view.data)
    if end - start > _MOST_BYTES or (view.is_continued and not start):
        return None
    text = view.data[view.pass_tag(start) if view.is_tagged else start : end]
    return _line(view, text, view.end_offset(start)), newline >= 0


def _line(view: View, text: bytes, end_offset: int) -> Line:
    """A line without what stands in front of it, but with what that tells."""
    prefix = PREFIX.match(text)
    begin = prefix.end() if prefix else 0
    lead = _LEAD.match(text, begin)
    rank = rank_of(prefix) if view.rank is None else view.rank
    memory = view.memories.of(rank)
    stamp = _stamp(text[:begin], lead[0] if lead else b"", memory) or view.tag_stamp
    clock_time = view.clock.at(end_offset) if view.clock else None
    return Line(text[lead.end() if lead else begin :], rank, end_offset, memory, clock_time, stamp)


def _stamp(prefix: bytes, lead: bytes, memory: Memory) -> Stamp | None:
    """When a line was printed, by what stands in front of it."""
    stamp = stamp_in(prefix) if len(prefix) > SHORTEST_BYTES else None
    if stamp or len(lead) < SHORTEST_BYTES:
        return stamp
    return stamp_of_glog(lead, memory.year_of(month_of_glog(lead))) or stamp_in(lead)


def read_line(view: View, start: int, rows: Sequence[LineFormat]) -> list[Record]:
    """The records of the line that begins here, read by the first row that fits; if any, the line is done."""
    line_and_end = line_at(view, start)
    if line_and_end is None:
        return []
    line, has_ended = line_and_end
    records = _read_whole(line, rows, has_ended=has_ended)
    if not records and len(parts := _unglued(line.text)) > 1:
        *ended, last = (_part(view, line, text) for text in parts)
        records = [record for part in ended for record in _read_whole(part, rows, has_ended=True)]
        records += _read_whole(last, rows, has_ended=has_ended)
    if records:
        view.done = max(view.done, view.data.find(b"\n", start), start)
    return records


def _read_whole(line: Line, rows: Sequence[LineFormat], *, has_ended: bool) -> list[Record]:
    for row in rows:
        match = row.pattern.match(line.text) if any(text in line.text for text in row.stems) else None
        if match:
            return list(row.read(line, row, match)) if has_ended or row.is_closed else []
    return []


def _part(view: View, line: Line, text: bytes) -> Line:
    """One of the lines that were glued to each other, as far as there is more to tell of it than of all."""
    prefix = PREFIX.match(text)
    label = rank_of(prefix) if view.rank is None else None
    rank = line.rank if label is None else label
    return replace(line, text=text[prefix.end() if prefix else 0 :], rank=rank, memory=view.memories.of(rank))


def _unglued(text: bytes) -> list[bytes]:
    """The lines in a line, one if nothing tells that there are more."""
    return _SEAM.split(text)
