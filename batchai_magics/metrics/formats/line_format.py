"""The types of a format table row: fields with units, line readers, run parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from batchai_magics.metrics.grammar.json_objects import named_number, phase_of
from batchai_magics.metrics.grammar.line_reading import Kind, LineReading, Span
from batchai_magics.metrics.measurement import Fact, Measurement, Record, measurement
from batchai_magics.metrics.reading.block_cursor import BlockCursor
from batchai_magics.metrics.reading.line_plan import (
    Layout,
    LineClock,
    layout_of,
    layout_with,
    prefix_expression,
)
from batchai_magics.metrics.reading.line_prefixes import DIGITS_TO_ZERO, timestamp_slices
from batchai_magics.metrics.reading.literal_search import literal_stem
from batchai_magics.metrics.reading.parser_state import RankState
from batchai_magics.metrics.reading.prefix_patterns import PREFIX, rank_of
from batchai_magics.metrics.reading.timestamps import (
    GLOG,
    MIN_TIMESTAMP_BYTES,
    Timestamp,
    glog_month,
    parse_glog_timestamp,
    parse_timestamp,
    wall_time,
)

COUNT = rb"\d{1,18}"
"""A step, an epoch or a number of examples."""


@dataclass(frozen=True, slots=True)
class Field:
    """One number of a format: name and unit of its record, and the pattern group that contains it."""

    name: str
    unit: str = ""
    group: str = ""

    @property
    def source(self) -> str:
        """The name of the pattern group; by default the field's name."""
        return self.group or self.name


@dataclass(frozen=True, kw_only=True)
class Format:
    """One kind of line or record.

    A line is considered if it contains one of the `literals`; `#` at an end stands for any digit and `^` for
    anything that may precede a word. `sample` is a line as the program
    prints it.
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
class EmbeddedFormat(Format):
    """A format whose records may occur anywhere on a line.

    Its pattern starts with its literal, and its fields are those of the record type.
    """

    read: Callable[[BlockCursor, re.Match[bytes]], Sequence[Record]]


@dataclass(slots=True)
class Line:
    """A complete line without tag and prefix; `offset` is its end offset.

    `timestamp` is printed on the line, `clock_time` known from elsewhere.
    """

    text: bytes
    rank: int | None
    offset: int
    state: RankState
    clock_time: float | None = None
    timestamp: Timestamp | None = None

    def value(
        self, field: Field, number: bytes | float, *, step: int | None = None, epoch: float | None = None
    ) -> Measurement:
        """The record of a number on this line."""
        time, phase = wall_time(self.timestamp, self.clock_time), phase_of(field.name)
        return measurement(
            (field.name, float(number), field.unit, step, epoch, self.rank, self.offset, time, phase)
        )


def read_fields(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    """A record for each field whose group matched; groups `step` and `epoch` give its position."""
    groups = match.groupdict()
    step, epoch = count(groups.get("step")), count(groups.get("epoch"))
    for field in row.fields:
        text = groups.get(field.group or field.name)
        if text is not None:
            yield line.value(field, text, step=step, epoch=epoch)


def count(text: bytes | None) -> int | None:
    """The integer in a group; None if the group did not match."""
    return None if text is None else int(text)


@dataclass(frozen=True, kw_only=True)
class LineFormat(Format):
    """A format that occupies a whole line, matched completely by the pattern.

    `is_self_terminating`: no longer valid line starts with a line of this format. Without that, an
    unterminated line cannot be known to be complete. `reading` tells where the numbers stand, if there are
    more than the fields; None if they must be read with code.
    """

    reading: Callable[[re.Match[bytes]], LineReading | None] | None = None
    read: Callable[[Line, LineFormat, re.Match[bytes]], Iterable[Record]] = read_fields
    is_self_terminating: bool = False

    @cached_property
    def stems(self) -> tuple[bytes, ...]:
        """Substrings, one of which every matching line contains."""
        return tuple(literal_stem(literal) for literal in self.literals)

    def match(self, text: bytes, begin: int = 0) -> re.Match[bytes] | None:
        """The pattern's match of a message that begins at a place of a text."""
        return self.pattern.match(text, begin) if any(stem in text for stem in self.stems) else None

    @property
    def has_code(self) -> bool:
        """Whether lines are read with code."""
        return self.read is not read_fields

    def match_line(self, line: bytes) -> re.Match[bytes] | None:
        """The pattern's match of a line with its prefixes."""
        return self.match(line, _prefixes(line).begin)

    def layout_of(self, match: re.Match[bytes]) -> tuple[Layout, LineReading] | None:
        """How lines like a match are read; None if only code can read them."""
        line, prefixes = match.string, _prefixes(match.string)
        if self.reading is None:
            return _fields_layout(self, match, prefixes) if self.read is read_fields else None
        reading = self.reading(match)
        if reading is None:
            return None
        reading = reading._replace(
            rank=reading.rank or prefixes.rank,
            prefix_end=prefixes.begin,
            is_self_terminating=self.is_self_terminating,
        )
        return layout_of(line, reading, clock=prefixes.clock), reading


def line_pattern(text: bytes) -> re.Pattern[bytes]:
    """Compile a pattern for a whole line with optional trailing blanks."""
    return re.compile(rb"(?:" + text + rb")[ \t]*\Z")


_MOST_BYTES = 16 * 1024  # longer lines match no format
_LEVEL = rb"(?:DEBUG|INFO|WARNING)"
_LOGGER_PREFIX = re.compile(
    rb"(?:[IW](?:\d{4})?\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]+:\d+\] +"  # glog and absl
    rb"|" + _LEVEL + rb":[\w.]*: ?"  # Python logging
    rb"|(?:- )?(?:[\w.]+ - )?" + _LEVEL + rb" - "
    rb"|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d: +)?"  # CNTK BrainScript
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
    rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: [IWEF] ",  # TensorFlow's own messages in between
    rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} ",
    rb"(?:INFO|WARNING|ERROR):\w",
)
_COUNTER = rb"\d{1,18}/(?:\d{1,18}|Unknown) (?:\[|- |[\x80-\xff])"  # Keras
_BEHIND_NUMBER = rb"(?:(?<=\d\.\d{4})|(?<=\de[+-]\d\d)|(?<=/step))"
_SEAM = re.compile(
    rb"(?<=[\w.;%)\]}])(?=(?:\[\d{1,6}\] )?(?:" + rb"|".join(_BEGINNINGS) + rb"))"
    rb"|" + _BEHIND_NUMBER + rb"(?=(?:\[\d{1,6}\] )?" + _COUNTER + rb")"
    rb"|(?<=\})(?=\{\")"
)


def lines_with(stems: Sequence[bytes], data: bytes) -> list[int]:
    """The ascending start positions of lines that contain one of these strings."""
    starts = set()
    for text in stems:
        place = data.find(text)
        while place >= 0:
            starts.add(data.rfind(b"\n", 0, place) + 1)
            newline = data.find(b"\n", place)
            place = data.find(text, newline) if newline >= 0 else -1
    return sorted(starts)


def line_at(cursor: BlockCursor, start: int) -> tuple[Line, bool] | None:
    """The line that starts here, and whether it is terminated; None for the rest of an overlong line."""
    newline = cursor.data.find(b"\n", start)
    end = newline if newline >= 0 else len(cursor.data)
    if end - start > _MOST_BYTES or (cursor.is_continued and not start):
        return None
    return _line(cursor, cursor.data[start:end], cursor.line_end), newline >= 0


def _line(cursor: BlockCursor, text: bytes, end_offset: int) -> Line:
    """A line without its prefixes, but with the rank and time they contain."""
    prefix = PREFIX.match(text)
    begin = prefix.end() if prefix else 0
    logger_prefix = _LOGGER_PREFIX.match(text, begin)
    rank = rank_of(prefix) if cursor.rank is None else cursor.rank
    state = cursor.states.of(rank)
    timestamp = (
        _line_timestamp(text[:begin], logger_prefix[0] if logger_prefix else b"", state)
        or cursor.tag_timestamp
    )
    clock_time = cursor.clock.at(end_offset) if cursor.clock else None
    return Line(
        text[logger_prefix.end() if logger_prefix else begin :],
        rank,
        end_offset,
        state,
        clock_time,
        timestamp,
    )


class _Prefixes(NamedTuple):
    """Where a message begins, the rank before it, and where its time stands."""

    begin: int
    rank: Span | None
    clock: LineClock


def _prefixes(line: bytes) -> _Prefixes:
    prefix = PREFIX.match(line)
    end = prefix.end() if prefix else 0
    logger = _LOGGER_PREFIX.match(line, end)
    begin = logger.end() if logger else end
    rank = prefix and next((prefix.span(name) for name in ("bracket", "number") if prefix[name]), None)
    zeroed = line[:begin].translate(DIGITS_TO_ZERO)
    stamp = timestamp_slices(zeroed, 0, end) if end > MIN_TIMESTAMP_BYTES else None
    if stamp or begin - end < MIN_TIMESTAMP_BYTES:
        return _Prefixes(begin, rank, LineClock(stamp))
    glog_at = end if GLOG.match(line, end) else -1
    return _Prefixes(begin, rank, LineClock(timestamp_slices(zeroed, end, begin), glog_at))


def _fields_layout(
    row: LineFormat, match: re.Match[bytes], prefixes: _Prefixes
) -> tuple[Layout, LineReading]:
    """The layout of lines with these prefixes and the fields of a format, by its own expression."""
    spans = {name: match.span(name) for name, text in match.groupdict().items() if text is not None}
    fields = [field for field in row.fields if field.source in spans]
    numbers = tuple(named_number(field.name, spans[field.source], field.unit) for field in fields)
    reading = LineReading(
        Kind.OBJECT,
        spans.get("step"),
        spans.get("epoch"),
        prefixes.rank,
        numbers,
        None,
        prefixes.begin,
        is_self_terminating=row.is_self_terminating,
    )
    source = row.pattern.pattern.removesuffix(rb"\Z")
    groups = {name: name for name in ("step", "epoch") if name in spans}
    layout = layout_with(
        prefix_expression(match.string, prefixes.begin, prefixes.rank) + source,
        [field.source for field in fields],
        has_rank=prefixes.rank is not None,
        clock=prefixes.clock,
        **groups,
    )
    return layout, reading


def _line_timestamp(prefix: bytes, logger_prefix: bytes, state: RankState) -> Timestamp | None:
    """The timestamp in the prefix or the logger prefix of a line."""
    timestamp = parse_timestamp(prefix) if len(prefix) > MIN_TIMESTAMP_BYTES else None
    if timestamp or len(logger_prefix) < MIN_TIMESTAMP_BYTES:
        return timestamp
    return parse_glog_timestamp(logger_prefix, state.year_for(glog_month(logger_prefix))) or parse_timestamp(
        logger_prefix
    )


def read_line(cursor: BlockCursor, start: int, rows: Sequence[LineFormat]) -> list[Record] | None:
    """Parse the line that starts here with the first row that matches; None if none does."""
    line_and_end = line_at(cursor, start)
    if line_and_end is None:
        return None
    line, has_ended = line_and_end
    records = _read_complete(line, rows, has_ended=has_ended)
    if not records and len(parts := split_joined(line.text)) > 1:
        *ended, last = (_joined_part(cursor, line, text) for text in parts)
        found = [_read_complete(part, rows, has_ended=True) for part in ended]
        found.append(_read_complete(last, rows, has_ended=has_ended))
        if any(each is not None for each in found):
            records = [record for each in found for record in each or ()]
    if records:
        cursor.consumed = max(cursor.consumed, cursor.data.find(b"\n", start), start)
    return records


def _read_complete(line: Line, rows: Sequence[LineFormat], *, has_ended: bool) -> list[Record] | None:
    for row in rows:
        match = row.match(line.text)
        if match:
            return list(row.read(line, row, match)) if has_ended or row.is_self_terminating else []
    return None


def _joined_part(cursor: BlockCursor, line: Line, text: bytes) -> Line:
    """One of several joined lines; rank and state come from its own prefix if it has one."""
    prefix = PREFIX.match(text)
    label = rank_of(prefix) if cursor.rank is None else None
    rank = line.rank if label is None else label
    return replace(line, text=text[prefix.end() if prefix else 0 :], rank=rank, state=cursor.states.of(rank))


def split_joined(text: bytes) -> list[bytes]:
    """Split lines that were joined without a newline."""
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


def parameters(line: Line, named_values: Iterable[tuple[str, object]]) -> Iterator[Fact]:
    """The header entries among these named values; other names are ignored."""
    for name, value in named_values:
        key, text = _NAMES.get(name.lower()), str(value).strip()
        if key and text and (key not in _COUNTS or _COUNT.fullmatch(text)):
            yield Fact(key, text, line.rank, line.offset)


def read_parameters(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    """A header entry for each pattern group named after a parameter."""
    groups = match.groupdict().items()
    yield from parameters(line, ((name, value.decode()) for name, value in groups if value is not None))


def read_named_parameter(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    """The header entry of a line that spells out a parameter's name and value."""
    yield from parameters(line, [(match["name"].decode(), match["value"].decode("utf-8", "replace"))])
