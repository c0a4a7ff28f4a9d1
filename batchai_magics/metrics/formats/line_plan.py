"""How lines of one form are read without an expression, one by one or all lines of a block at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from batchai_magics.metrics.grammar.line_reading import Kind, LineReading
from batchai_magics.metrics.grammar.line_shapes import LineForm, LineShape, MetricName
from batchai_magics.metrics.grammar.metric_names import PHASES, TRAIN
from batchai_magics.metrics.reading.line_prefixes import TimestampSlices

_DIGITS = re.compile(rb"\d+")
_PART = re.compile(r"[_.]")


class Role(Enum):
    """What the lines of a form have from the lines above, and tell those below."""

    STEP = "a step line: has the epoch above it, tells its position"
    DICT = "a printed dict: has the epoch above it, and the step of a progress bar"
    OBJECT = "an object of JSON: only tells its position"
    BAR = "a bar of Keras: has the epoch announced above it, tells its position, may repeat numbers"
    OTHER = "needs more of the lines around it"


@dataclass(frozen=True, slots=True, eq=False)
class LinePlan:
    """How the lines of a form are read: behind their tag, and when they were printed."""

    form: LineForm
    begin: int
    timestamp: TimestampSlices | None
    has_glog: bool  # a time that TimestampSlices do not know may be there
    role: Role


@dataclass(frozen=True, slots=True)
class NumberPlace:
    """Where a number with a name stands; it is divided by `divisor`."""

    name: str
    place: slice
    unit: str = ""
    divisor: float = 1.0


def plan_of_numbers(
    role: Role, numbers: Sequence[NumberPlace], *, timestamp: TimestampSlices | None = None, **places: object
) -> LinePlan | None:
    """The plan for lines with these numbers, and the other places of LineForm; None if a name is repeated."""
    names = tuple((each.name, each.unit, each.divisor) for each in numbers)
    if not numbers or len({name for name, _, _ in names}) < len(names):
        return None
    shape = _shape(names)
    found = tuple(
        (metric, convert, each.place)
        for metric, convert, each in zip(shape.metrics, shape.converters, numbers, strict=True)
    )
    spans: dict[str, object] = {"step": None, "epoch": None, "rank": None, "prefix_end": 0, "fixed": ()}
    form = LineForm(shape=shape, numbers=found, **{**spans, **places})  # type: ignore[arg-type]
    return LinePlan(form, 0, timestamp, False, role)


def digits_in(text: bytes, begin: int, end: int) -> Iterator[tuple[slice, bytes]]:
    """The digits in a part of a text, as they are `fixed` in a form."""
    return ((slice(*run.span()), run[0]) for run in _DIGITS.finditer(text, begin, end))


@lru_cache(4096)
def phase_of(name: str) -> str:
    """The phase that the name of a metric tells."""
    return PHASES.get(_PART.split(name)[0], TRAIN)


@lru_cache(4096)
def _shape(names: tuple[tuple[str, str, float], ...]) -> LineShape:
    reading = LineReading(Kind.STEP, None, None, None, (), None, 0)
    return LineShape(
        reading,
        re.compile(b""),
        (),
        b"",
        tuple(MetricName(name, unit, phase_of(name)) for name, unit, _ in names),
        tuple(map(_divided_by, (divisor for _, _, divisor in names))),
        tuple(1.0 for _ in names),
        has_step=False,
        has_epoch=False,
        has_rank=False,
        has_time=False,
        divisors=tuple(divisor for _, _, divisor in names),
    )


def _divided_by(divisor: float) -> Callable[[bytes], float]:
    return float if divisor == 1 else lambda number: float(number) / divisor
