"""The types a row of the format table is made of: fields with their units, line readers, run parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from batchai_magics.metrics.reading.literals import stem
from batchai_magics.metrics.reading.memory import Memory
from batchai_magics.metrics.reading.prefixes import PREFIX, rank_of
from batchai_magics.metrics.reading.times import (
    SHORTEST_BYTES,
    Stamp,
    month_of_glog,
    stamp_in,
    stamp_of_glog,
    wall_time,
)
from batchai_magics.metrics.reading.view import View
from batchai_magics.metrics.record import HeaderRecord, Record, ValueRecord

NUMBER = rb"[-+]?(?:(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,4})?|nan|inf)"
"""A number as Python and C print it; bounded, as all repeated parts, so that no line takes long."""

COUNT = rb"\d{1,18}"
"""A step, an epoch or a number of examples."""


@dataclass(frozen=True, slots=True)
class Field:
    """One number of a format: the name and the unit of its record, and the pattern's group that holds it."""

    name: str
    unit: str = ""
    group: str = ""

    @property
    def source(self) -> str:
        """The group's name, which is the field's own one unless told otherwise."""
        return self.group or self.name


@dataclass(frozen=True, kw_only=True)
class Format:
    """One kind of record.

    A line is looked at when it holds one of the `literals`, of seven bytes or more, in which `#` at an end
    stands for a digit and `^` for what may stand left of a word. `sample` is a line as the program prints it.
    """

    name: str
    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    fields: tuple[Field, ...]
    sample: str

    @property
    def literal(self) -> bytes:
        """The first of the literals."""
        return self.literals[0]


@dataclass(frozen=True, kw_only=True)
class GluedFormat(Format):
    """A format whose records may be glued to each other: its pattern begins with its literal, to be searched.

    Its fields are the record's own ones.
    """

    read: Callable[[View, re.Match[bytes]], Record | None]


@dataclass(slots=True)
class Line:
    """A whole line, without tag and prefix, while it is read; `offset` is that of its end.

    `stamp` is the time that it tells, `clock_time` the one that is known otherwise.
    """

    text: bytes
    rank: int | None
    offset: int
    memory: Memory
    clock_time: float | None = None
    stamp: Stamp | None = None

    @property
    def wall_time(self) -> float | None:
        """When the line was printed."""
        return wall_time(self.stamp, self.clock_time)

    def value(
        self, field: Field, number: bytes | float, *, step: int | None = None, epoch: int | None = None
    ) -> ValueRecord:
        """The record of a number on this line."""
        return ValueRecord(
            field.name, float(number), field.unit, step, epoch, self.rank, self.offset, self.wall_time
        )


def read_fields(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    """A record for each field whose group took part; groups `step` and `epoch` are where it stands."""
    groups = match.groupdict()
    step, epoch = count(groups.get("step")), count(groups.get("epoch"))
    for field in row.fields:
        text = groups.get(field.source)
        if text is not None:
            yield line.value(field, text, step=step, epoch=epoch)


def count(text: bytes | None) -> int | None:
    """The whole number in a group, None where the group took no part."""
    return None if text is None else int(text)


@dataclass(frozen=True, kw_only=True)
class LineFormat(Format):
    """A format with a line of its own, all of which the pattern describes.

    `is_closed` says that no longer line begins with a line of this format: only such a line is known to be
    whole where nothing ended it.
    """

    read: Callable[[Line, LineFormat, re.Match[bytes]], Iterable[Record]] = read_fields
    is_closed: bool = False

    @cached_property
    def stems(self) -> tuple[bytes, ...]:
        """What a line must contain one of."""
        return tuple(stem(literal) for literal in self.literals)


def line_pattern(text: bytes) -> re.Pattern[bytes]:
    """A pattern of a whole line; blanks may follow."""
    return re.compile(rb"(?:" + text + rb")[ \t]*\Z")


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


_MODEL, _DATASET, _DEVICE_COUNT = "model", "dataset", "device_count"
_BATCH_SIZE, _PER_DEVICE, _GLOBAL = "batch_size", "batch_size_per_device", "batch_size_global"
_NAMES = {
    "model": _MODEL,
    "model_name": _MODEL,
    "arch": _MODEL,
    "dataset": _DATASET,
    "dataset_name": _DATASET,
    "batch_size": _BATCH_SIZE,
    "train_batch_size": _BATCH_SIZE,
    "batch_size_per_gpu": _PER_DEVICE,
    "batch_size_per_pu": _PER_DEVICE,
    "global_batch_size": _GLOBAL,
    "num_gpus": _DEVICE_COUNT,
    "n_gpus": _DEVICE_COUNT,
    "world_size": _DEVICE_COUNT,
    "device_count": _DEVICE_COUNT,
}
_COUNTS = (_BATCH_SIZE, _PER_DEVICE, _GLOBAL, _DEVICE_COUNT)
_COUNT = re.compile(r"\d{1,18}")


def parameters(line: Line, named_values: Iterable[tuple[str, object]]) -> Iterator[HeaderRecord]:
    """The header entries among these names and values of a line; all others tell nothing about speed."""
    for name, value in named_values:
        key, text = _NAMES.get(name.lower()), str(value).strip()
        if key and text and (key not in _COUNTS or _COUNT.fullmatch(text)):
            yield HeaderRecord(key, text, line.rank, line.offset)


def read_parameters(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    """A header entry for each group of the pattern, which is called as the program's parameter is."""
    groups = match.groupdict().items()
    yield from parameters(line, ((name, value.decode()) for name, value in groups if value is not None))


def read_named_parameter(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    """The header entry of a line that spells out the parameter's name and its value."""
    yield from parameters(line, [(match["name"].decode(), match["value"].decode("utf-8", "replace"))])
