"""The runs of a log, with what their headers tell.

An attempt that resumes at a checkpoint continues the one before as one curve.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import itemgetter

from batchai_magics.metrics.measurement import ATTEMPT, TOTAL, Fact, Record
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable
from batchai_magics.metrics.runs.mean_rates import GLOBAL_RATES, with_ranks
from batchai_magics.metrics.runs.timeline import Timeline

RUN_KEYS = (ATTEMPT, "tensorflow", "model")
"""The keys of facts that may start a run."""

# step lines of tf_cnn_benchmarks then contain the rate of all processes
_ALL_REDUCE = "distributed_all_reduce"
_QUOTED = re.compile(r"'([^']*)'")

Position = tuple[float, float]  # epoch and step; 0 for what a record does not have
PositionKind = tuple[bool, bool]  # whether it has an epoch and a step: only positions of a kind are compared


def last_run(records: Iterable[Record]) -> MeasurementTable:
    """The records of the last run of a log, possibly none; the steps of numbers are those of the timeline.

    A new attempt of the job starts a run, unless it resumes after the first step of the attempt before: then
    it continues that run. A header starts a run if its rank has printed its total or, with unknown ranks,
    if as many totals were printed as the run has ranks: buffered ranks print one after the other.
    """
    table = MeasurementTable.of(records)
    begins, facts = [0], list[Fact]()
    for row, fact in table.facts:
        if opens_run(fact, facts):
            begins.append(row)
            facts.clear()
        facts.append(fact)
    run, *parts = (table.between(*part) for part in pairwise([*begins, table.row_count]))
    above = list[Fact]()  # of earlier runs
    for part in parts:
        if part.facts[0][1].key == ATTEMPT and continues(part, run):
            run = continued(part, run)
        else:
            above += (fact for _, fact in run.facts)
            run = part
    return with_ranks(Timeline(above).add(run))


def opens_run(fact: Fact, run: Sequence[Fact]) -> bool:
    """Whether a fact starts a run, after one with these facts."""
    if fact.key not in RUN_KEYS or fact.key == ATTEMPT:
        return fact.key == ATTEMPT
    totals = [previous.rank for previous in run if previous.key == TOTAL]
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
    remaining = [
        lines.take(
            [i for i, (kind, at) in enumerate(_positions(lines)) if kind not in first or at < first[kind]]
        )
        for lines in previous.lines
    ]
    return previous.with_lines(remaining).followed_by(attempt)


def attempt_starts(run: MeasurementTable, axis: str) -> list[float]:
    """Where later attempts of a run begin on the axis `step` or `epoch`; empty without such numbers."""
    begins = [row for row, fact in run.facts if fact.key == ATTEMPT]
    starts: list[float] = []
    for begin, end in pairwise([*begins, run.row_count]):
        if first := first_placed_line(run.between(begin, end)):
            lines, index = first
            column = {"step": lines.steps[0], "epoch": lines.epochs}.get(axis)
            position = None if column is None else column[index]
            starts += [] if position is None else [position]
    return starts


def first_placed_line(run: MeasurementTable) -> tuple[LineColumns, int] | None:
    """The first line that has a step or an epoch: the columns that it is in, and its index there."""
    first: tuple[int, LineColumns, int] | None = None
    for lines in run.lines:
        index = next((index for index, (kind, _) in enumerate(_positions(lines)) if any(kind)), None)
        if index is not None and (first is None or lines.rows[index] < first[0]):
            first = lines.rows[index], lines, index
    return first and first[1:]


@dataclass(frozen=True)
class RunHeader:
    """The parameters of one run; None if the log does not contain them.

    Attributes:
        model: The model that the program named.
        dataset: The data set.
        variable_update: How variables are updated: `horovod`, `parameter_server`, ….
        batch_size_global: Images per step of all devices.
        batch_size_per_device: Images per step of a device.
        devices: The names of the devices.
        device_count: Their number.
        is_rate_global: Each rank prints the speed of all; then nothing is known of single ranks. That is so
            in tf_cnn_benchmarks with `distributed_all_reduce` and in CNTK, whose processes divide the samples
            of all by their own time.
        ranks: The number of processes; 0 if it is unknown.
    """

    model: str | None = None
    dataset: str | None = None
    variable_update: str | None = None
    batch_size_global: int | None = None
    batch_size_per_device: int | None = None
    devices: tuple[str, ...] = ()
    device_count: int | None = None
    is_rate_global: bool = False
    ranks: int = 0


def run_header(run: MeasurementTable, *, ranks_seen: int) -> RunHeader:
    """The header of one run, in which `ranks_seen` processes printed records; `ranks` are as announced."""
    facts = [*map(itemgetter(1), run.facts)]
    names = run.names
    entries = {fact.key: fact.value for fact in facts}
    devices = _devices(facts)
    counted = max(_count(entries, "device_count") or 0, _printed_devices(run))
    device_count = len(devices) or counted or None
    # a bare `batch_size` is per device if devices are counted
    bare = ("batch_size",) if device_count or ranks_seen <= 1 else ()
    per_device, in_all = _count(entries, "batch_size_per_device", *bare), _count(entries, "batch_size_global")
    if bare and in_all is None and per_device is not None:
        in_all = per_device * (device_count or 1)
    return RunHeader(
        model=entries.get("model"),
        dataset=entries.get("dataset"),
        variable_update=entries.get("variables"),
        batch_size_global=in_all,
        batch_size_per_device=per_device,
        devices=devices,
        device_count=device_count,
        is_rate_global=entries.get("variables") == _ALL_REDUCE or not names.isdisjoint(GLOBAL_RATES),
        ranks=max(counted, *map(count_ranks, facts), 0),
    )


def _devices(facts: Sequence[Fact]) -> tuple[str, ...]:
    """All devices in the headers, without duplicates: Horovod ranks each print all, others their own."""
    named = (fact.value for fact in facts if fact.key == "devices")
    return tuple(dict.fromkeys(device for value in named for device in _QUOTED.findall(value)))


def _printed_devices(run: MeasurementTable) -> int:
    """The number of devices that a line of a program's own tells."""
    printed = (lines.value("devices") for lines in run.lines if "devices" in lines.names)
    return int(max(filter(math.isfinite, chain.from_iterable(printed)), default=0))


def _count(entries: Mapping[str, str], *keys: str) -> int | None:
    """The first of these entries that is a number; Python 3 printed `64.0` for some months of 2018."""
    for key in keys:
        with suppress(KeyError, ValueError, OverflowError):
            return int(float(entries[key]))
    return None


def _first_positions(table: MeasurementTable) -> dict[PositionKind, Position]:
    """The least position of each kind."""
    firsts: dict[PositionKind, Position] = {}
    for lines in table.lines:
        for kind, position in _positions(lines):
            if any(kind):
                firsts[kind] = min(position, firsts.get(kind, position))
    return firsts


def _positions(lines: LineColumns) -> Iterator[tuple[PositionKind, Position]]:
    for epoch, step in zip(lines.epochs, lines.steps[0], strict=True):
        yield (epoch is not None, step is not None), (epoch or 0, step or 0)
