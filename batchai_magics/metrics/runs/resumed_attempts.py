"""One curve over the attempts of a run: one that resumes at a checkpoint continues the previous one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batchai_magics.metrics.measurement import ATTEMPT, Fact, Record

Position = tuple[float, float]  # epoch and step; 0 for what a record does not have
PositionKind = tuple[bool, bool]  # whether it has an epoch and a step: only positions of a kind are compared


def is_attempt(record: Record) -> bool:
    """Whether another attempt begins with this record."""
    return isinstance(record, Fact) and record.key == ATTEMPT


def continues(attempt: Sequence[Record], previous: Sequence[Record]) -> bool:
    """Whether an attempt goes on after the first step of the previous one; also before its first number."""
    first, first_before = _first_positions(attempt), _first_positions(previous)
    return all(first[kind] > first_before[kind] for kind in first.keys() & first_before.keys())


def continued(attempt: Sequence[Record], previous: Sequence[Record]) -> list[Record]:
    """The previous records without the steps that the attempt repeats, then those of the attempt."""
    first = _first_positions(attempt)
    return [*(record for record in previous if _is_before(record, first)), *attempt]


def attempt_starts(run: Iterable[Record], axis: str) -> list[float]:
    """Where later attempts of a run begin on the axis `step` or `epoch`; empty without such numbers."""
    starts: list[float] = []
    is_open = False
    for record in run:
        kind, position = _position_of(record)
        if is_attempt(record):
            is_open = True
        elif is_open and any(kind):
            is_open = False
            starts += [position[1]] if axis == "step" and kind[1] else []
            starts += [position[0]] if axis == "epoch" and kind[0] else []
    return starts


def _is_before(record: Record, first: dict[PositionKind, Position]) -> bool:
    kind, position = _position_of(record)
    return kind not in first or position < first[kind]


def _first_positions(records: Iterable[Record]) -> dict[PositionKind, Position]:
    """The least position of each kind."""
    found: dict[PositionKind, Position] = {}
    for record in records:
        kind, position = _position_of(record)
        if any(kind):
            found[kind] = min(position, found.get(kind, position))
    return found


def _position_of(record: Record) -> tuple[PositionKind, Position]:
    epoch, step = getattr(record, "epoch", None), getattr(record, "step", None)
    return (epoch is not None, step is not None), (epoch or 0, step or 0)
