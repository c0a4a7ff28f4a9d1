"""What a row of the table of formats is made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from batchai_magics.metrics.reading.literals import stem
from batchai_magics.metrics.reading.memory import Memory
from batchai_magics.metrics.reading.times import Stamp, wall_time
from batchai_magics.metrics.reading.view import View
from batchai_magics.metrics.record import Record, ValueRecord

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
