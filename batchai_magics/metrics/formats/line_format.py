"""The types of a format table row: fields with units, line readers, run parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from batchai_magics.metrics.formats.line_plan import LinePlan, NumberPlace, Role, phase_of, plan_of_numbers
from batchai_magics.metrics.measurement import Fact, Measurement, Record, measurement
from batchai_magics.metrics.reading.block_cursor import BlockCursor
from batchai_magics.metrics.reading.literal_search import literal_stem
from batchai_magics.metrics.reading.parser_state import RankState
from batchai_magics.metrics.reading.prefix_patterns import PREFIX, rank_of
from batchai_magics.metrics.reading.timestamps import (
    MIN_TIMESTAMP_BYTES,
    Timestamp,
    glog_month,
    parse_glog_timestamp,
    parse_timestamp,
    wall_time,
)

NUMBER = rb"[-+]?(?:(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,4})?|nan|inf)"
"""A number as Python and C print it. All repetitions are bounded, so matching time is too."""

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

    read: Callable[[BlockCursor, re.Match[bytes]], Record | None]


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
    unterminated line cannot be known to be complete. `plan` tells how lines with the same text are read that
    only differ in their digits, if `read` does more than `read_fields`, and that is possible.
    """

    plan: Callable[[re.Match[bytes]], LinePlan | None] | None = None
    read: Callable[[Line, LineFormat, re.Match[bytes]], Iterable[Record]] = read_fields
    is_self_terminating: bool = False

    @cached_property
    def stems(self) -> tuple[bytes, ...]:
        """Substrings, one of which every matching line contains."""
        return tuple(literal_stem(literal) for literal in self.literals)

    def match(self, text: bytes, begin: int = 0) -> re.Match[bytes] | None:
        """The pattern's match of a message that begins at a place of a text."""
        return self.pattern.match(text, begin) if any(stem in text for stem in self.stems) else None


def plan_of_row(text: bytes, rows: Sequence[LineFormat]) -> LinePlan | None:
    """The plan that the first of some rows has that understands a message; None without one."""
    begin = len(text) - len(text.lstrip(b" \t"))
    found = None if has_prefix(text, begin) else _first_match(text, begin, rows)
    if found is None:
        return None
    row, match = found
    if row.plan:
        return row.plan(match)
    is_plain = row.read is read_fields and _is_of_any_digits(text, begin, rows, found)
    return _fields_plan(row, match) if is_plain else None


_Found = tuple[LineFormat, re.Match[bytes]]


def _first_match(text: bytes, begin: int, rows: Sequence[LineFormat]) -> _Found | None:
    matches = ((row, row.match(text, begin)) for row in rows)
    return next(((row, match) for row, match in matches if match), None)


def _is_of_any_digits(text: bytes, begin: int, rows: Sequence[LineFormat], found: _Found) -> bool:
    """Whether a row reads a text at the same places whatever its digits are."""
    row, match = found
    for digit in b"0123456789":
        other = _first_match(text.translate(bytes.maketrans(b"0123456789", bytes([digit] * 10))), begin, rows)
        if other is None or other[0] is not row or other[1].regs != match.regs:
            return False
    return True


def _fields_plan(row: LineFormat, match: re.Match[bytes]) -> LinePlan | None:
    """What `read_fields` reads of a match."""
    places = {name: slice(*match.span(name)) for name, text in match.groupdict().items() if text is not None}
    numbers = [
        NumberPlace(field.name, places[field.source], field.unit)
        for field in row.fields
        if field.source in places
    ]
    return plan_of_numbers(Role.OBJECT, numbers, step=places.get("step"), epoch=places.get("epoch"))


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
    text = cursor.data[cursor.skip_tag(start) if cursor.is_tagged else start : end]
    return _line(cursor, text, cursor.end_offset(start)), newline >= 0


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


def has_prefix(text: bytes, begin: int) -> bool:
    """Whether a message behind these blanks begins with what a launcher or a logger puts there."""
    prefix, logger_prefix = PREFIX.match(text, begin), _LOGGER_PREFIX.match(text, begin)
    return bool((prefix and prefix[0]) or (logger_prefix and logger_prefix[0]))


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
    if not records and len(parts := _split_joined(line.text)) > 1:
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


def _split_joined(text: bytes) -> list[bytes]:
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
