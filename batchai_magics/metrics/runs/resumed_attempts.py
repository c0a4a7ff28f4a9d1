"""One curve over the attempts of a run: one that resumes at a checkpoint continues the previous one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from batchai_magics.metrics.measurement import ATTEMPT, Fact, Measurement, Record
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable

Position = tuple[float, float]  # epoch and step; 0 for what a record does not have
PositionKind = tuple[bool, bool]  # whether it has an epoch and a step: only positions of a kind are compared


def is_attempt(record: Record) -> bool:
    """Whether another attempt begins with this record."""
    return isinstance(record, Fact) and record.key == ATTEMPT


def continues(attempt: MeasurementTable, previous: MeasurementTable) -> bool:
    """Whether an attempt goes on after the first step of the previous one; also before its first number."""
    first, first_before = _first_positions(attempt), _first_positions(previous)
    return all(first[kind] > first_before[kind] for kind in first.keys() & first_before.keys())


def continued(attempt: MeasurementTable, previous: MeasurementTable) -> MeasurementTable:
    """The previous records without the steps that the attempt repeats, then those of the attempt."""
    first = _first_positions(attempt)
    kept = [
        lines.take([i for i, place in enumerate(_positions(lines)) if _is_before(place, first)])
        for lines in previous.lines
    ]
    return previous.with_lines(kept).followed_by(attempt)


def attempt_starts(run: MeasurementTable, axis: str) -> list[float]:
    """Where later attempts of a run begin on the axis `step` or `epoch`; empty without such numbers."""
    begins = [row for row, fact in run.facts if is_attempt(fact)]
    starts: list[float] = []
    for begin, end in pairwise([*begins, run.row_count]):
        numbers = (each for each in run.between(begin, end) if isinstance(each, Measurement))
        first = next((each for each in numbers if (each.epoch, each.step) != (None, None)), None)
        place = first and getattr(first, axis, None)
        starts += [] if place is None else [place]
    return starts


def _is_before(place: tuple[PositionKind, Position], first: Mapping[PositionKind, Position]) -> bool:
    kind, position = place
    return kind not in first or position < first[kind]


def _first_positions(table: MeasurementTable) -> dict[PositionKind, Position]:
    """The least position of each kind."""
    found: dict[PositionKind, Position] = {}
    for lines in table.lines:
        for kind, position in _positions(lines):
            if any(kind):
                found[kind] = min(position, found.get(kind, position))
    return found


def _positions(lines: LineColumns) -> Iterator[tuple[PositionKind, Position]]:
    for epoch, step in zip(lines.epochs, lines.steps[0], strict=True):
        yield (epoch is not None, step is not None), (epoch or 0, step or 0)
