"""Formats of lines and of records that may stand anywhere on one, and how a line is given to its format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from batchai_magics.metrics.grammar.json_objects import phase_of
from batchai_magics.metrics.measurement import Measurement, Record, measurement
from batchai_magics.metrics.reading.block_cursor import BlockCursor
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


@dataclass(frozen=True, slots=True)
class Field:
    """One number of a format: name and unit of its record."""

    name: str
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class EmbeddedFormat:
    """A format whose records may occur anywhere on a line.

    Its pattern starts with its literal, and its fields are those of the record type. `sample` is a line as
    the program prints it.
    """

    name: str
    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    fields: tuple[Field, ...]
    sample: str
    read: Callable[[BlockCursor, re.Match[bytes]], Sequence[Record]]

    @property
    def literal(self) -> bytes:
        """The first of the literals."""
        return self.literals[0]


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

    def value(self, name: str, unit: str, number: bytes) -> Measurement:
        """The record of a number on this line."""
        time, phase = wall_time(self.timestamp, self.clock_time), phase_of(name)
        return measurement((name, float(number), unit, None, None, self.rank, self.offset, time, phase))


@dataclass(frozen=True, kw_only=True)
class LineFormat:
    """A format that occupies a whole line, matched completely by the pattern, and the reader of its records.

    A line is considered if it contains one of the `literals`.
    """

    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    read: Callable[[Line, re.Match[bytes]], Iterable[Record]]

    def is_of(self, line: bytes) -> bool:
        """Whether a line with its prefixes has this format."""
        return self.pattern.match(line, _message_begin(line)[1]) is not None


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


def line_at(cursor: BlockCursor, start: int) -> tuple[Line, bool] | None:
    """The line that starts here, and whether it is terminated; None for the rest of an overlong line."""
    newline = cursor.data.find(b"\n", start)
    end = newline if newline >= 0 else len(cursor.data)
    if end - start > _MOST_BYTES or (cursor.is_continued and not start):
        return None
    return _line(cursor, cursor.data[start:end], cursor.line_end), newline >= 0


def _line(cursor: BlockCursor, text: bytes, end_offset: int) -> Line:
    """A line without its prefixes, but with the rank and time they contain."""
    begin, message_begin = _message_begin(text)
    logger_prefix = text[begin:message_begin]
    rank = rank_of(PREFIX.match(text)) if cursor.rank is None else cursor.rank
    state = cursor.states.of(rank)
    timestamp = _line_timestamp(text[:begin], logger_prefix, state) or cursor.tag_timestamp
    clock_time = cursor.clock.at(end_offset) if cursor.clock else None
    return Line(
        text[message_begin:],
        rank,
        end_offset,
        state,
        clock_time,
        timestamp,
    )


def _message_begin(line: bytes) -> tuple[int, int]:
    """Where the logger's prefix and the message of a line begin."""
    prefix = PREFIX.match(line)
    end = prefix.end() if prefix else 0
    logger = _LOGGER_PREFIX.match(line, end)
    return end, logger.end() if logger else end


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
        match = row.pattern.match(line.text)
        if match:
            return list(row.read(line, match)) if has_ended else []
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
