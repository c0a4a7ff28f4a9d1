"""The runs of a log; an attempt that resumes at a checkpoint continues the one before as one curve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from batchai_magics.metrics.measurement import ATTEMPT, LENGTH, TOTAL, Fact, Record
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable
from batchai_magics.metrics.runs.mean_rates import with_ranks
from batchai_magics.metrics.runs.timeline import Timeline

RUN_KEYS = (ATTEMPT, "tensorflow", "model")
"""The keys of facts that may start a run."""

Position = tuple[float, float]  # epoch and step; 0 for what a record does not have
PositionKind = tuple[bool, bool]  # whether it has an epoch and a step: only positions of a kind are compared


def runs(records: Iterable[Record]) -> list[MeasurementTable]:
    """Split the records of a log into runs; at least one, possibly empty.

    A new attempt of the job starts a run, unless it resumes after the first step of the attempt before: then
    it continues that run. A header starts a run if its rank has printed its total or, with unknown ranks,
    if as many totals were printed as the run has ranks: buffered ranks print one after the other. The steps
    of numbers are those of the timeline.
    """
    table = MeasurementTable.of(records)
    begins, facts = [0], list[Fact]()
    for row, fact in table.facts:
        if opens_run(fact, facts):
            begins.append(row)
            facts.clear()
        facts.append(fact)
    parts = [table.between(*part) for part in pairwise([*begins, table.row_count])]
    whole = parts[:1]
    for part in parts[1:]:
        is_resumed = part.facts[0][1].key == ATTEMPT and continues(part, whole[-1])
        whole[-1:] = [continued(part, whole[-1])] if is_resumed else [whole[-1], part]
    lengths, found = list[Fact](), list[MeasurementTable]()
    for run in whole:
        found.append(with_ranks(Timeline(above=lengths).add(run)))
        lengths += (fact for _, fact in run.facts if fact.key == LENGTH)
    return found


def opens_run(fact: Fact, run: Sequence[Fact]) -> bool:
    """Whether a fact starts a run, after one with these facts."""
    if fact.key not in RUN_KEYS or fact.key == ATTEMPT:
        return fact.key == ATTEMPT
    totals = [each.rank for each in run if each.key == TOTAL]
    if fact.rank is not None:
        return fact.rank in totals
    promised = max(map(count_ranks, run), default=0)
    return bool(totals) and len(totals) >= promised


def count_ranks(record: Fact) -> int:
    """The number of processes in a header's `Devices` line; 0 for any other line."""
    return record.value.count("horovod/") if record.key == "devices" else 0


def continues(attempt: MeasurementTable, previous: MeasurementTable) -> bool:
    """Whether an attempt goes on after the first step of the previous one; also before its first number."""
    first, first_before = _first_positions(attempt), _first_positions(previous)
    return all(first[kind] > first_before[kind] for kind in first.keys() & first_before.keys())


def continued(attempt: MeasurementTable, previous: MeasurementTable) -> MeasurementTable:
    """The previous records without the steps that the attempt repeats, then the attempt's."""
    first = _first_positions(attempt)
    kept = [
        lines.take(
            [i for i, (kind, at) in enumerate(_positions(lines)) if kind not in first or at < first[kind]]
        )
        for lines in previous.lines
    ]
    return previous.with_lines(kept).followed_by(attempt)


def attempt_starts(run: MeasurementTable, axis: str) -> list[float]:
    """Where later attempts of a run begin on the axis `step` or `epoch`; empty without such numbers."""
    begins = [row for row, fact in run.facts if fact.key == ATTEMPT]
    starts: list[float] = []
    for begin, end in pairwise([*begins, run.row_count]):
        if first := first_placed_line(run.between(begin, end)):
            lines, index = first
            places = {"step": lines.steps[0], "epoch": lines.epochs}.get(axis)
            place = None if places is None else places[index]
            starts += [] if place is None else [place]
    return starts


def first_placed_line(run: MeasurementTable) -> tuple[LineColumns, int] | None:
    """The first line that has a step or an epoch: the columns that it is in, and its index there."""
    found: tuple[int, LineColumns, int] | None = None
    for lines in run.lines:
        index = next((index for index, (kind, _) in enumerate(_positions(lines)) if any(kind)), None)
        if index is not None and (found is None or lines.rows[index] < found[0]):
            found = lines.rows[index], lines, index
    return found and found[1:]


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
