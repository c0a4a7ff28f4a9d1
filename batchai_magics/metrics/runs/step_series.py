"""Step records as tables and as one series per process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.measurement import (
    TOTAL,
    Fact,
    Measurement,
    Record,
    StepRecord,
    step_record,
)
from batchai_magics.metrics.runs.metric_traits import traits_of
from batchai_magics.metrics.runs.other_programs import ABSENT, steps_of_values, value_frame
from batchai_magics.metrics.runs.resumed_attempts import continued, continues, is_attempt
from batchai_magics.metrics.runs.timeline import on_timeline

if TYPE_CHECKING:
    import pandas

    from batchai_magics.metrics.columns.record_columns import Columns, StepColumns


COLUMNS = ("step", "rank", "images_per_sec", "uncertainty", "jitter", "loss", "top_1", "top_5")
"""The fields of a step line, in the order of every table and JSON object of them."""

_FLOATS = COLUMNS[2:]


def frame(records: Iterable[Record]) -> pandas.DataFrame:
    """The step lines as a table.

    Args:
        records: Records, in file order.

    Returns:
        One row per step line, with those of COLUMNS that have a value; `rank` is a nullable integer, NaN
        stands for a number that the line lacks. For other programs, one row per line with numbers: `step` is
        nullable too, and `epoch` and a column for each other number follow.
    """
    every = list(records)
    steps = [record for record in every if isinstance(record, StepRecord)]
    if not steps and any(isinstance(record, Measurement) for record in every):
        return without_empty_columns(value_frame(every, COLUMNS))
    return without_empty_columns(_step_frame(steps))


def without_empty_columns(table: pandas.DataFrame) -> pandas.DataFrame:
    """The table without columns that have no value; a table without rows keeps all."""
    if table.empty:
        return table
    names = [name for name in table if table[name].notna().any()]
    return table if len(names) == len(table.columns) else table[names]


def _step_frame(steps: Sequence[StepRecord]) -> pandas.DataFrame:
    import pandas as pd

    columns = {
        "step": pd.array([record.step for record in steps], dtype="int64"),
        "rank": pd.array([record.rank for record in steps], dtype="Int64"),
        **{name: pd.array([getattr(record, name) for record in steps], dtype="float64") for name in _FLOATS},
    }
    return pd.DataFrame(columns)


def runs(records: Iterable[Record]) -> list[list[Record]]:
    """Split the records of a log into runs; at least one, possibly empty.

    A new attempt of the job starts a run, unless it resumes after the first step of the attempt before: then
    it continues that run. A header starts a run if its rank has printed its total or, with unknown ranks,
    if as many totals were printed as the run has ranks: buffered ranks print one after the other. The steps
    of numbers are those of the timeline.
    """
    result: list[list[Record]] = [[]]
    for record in records:
        if _opens_run(record, result[-1]):
            result.append([])
        result[-1].append(record)
    return list(map(on_timeline, _with_resumed(result)))


def _with_resumed(parts: Sequence[list[Record]]) -> list[list[Record]]:
    """The runs, where an attempt that resumes is part of the run before."""
    result = [*parts[:1]]
    for part in parts[1:]:
        if is_attempt(part[0]) and continues(part, result[-1]):
            result[-1] = continued(part, result[-1])
        else:
            result.append(part)
    return result


RunOfColumns = tuple[Sequence[Record], Iterator[tuple[int, Sequence[StepRecord]]]]


def runs_of_columns(columns: Columns) -> RunOfColumns:
    """The last run of a log: its other records, and the steps of each process as in `by_rank`.

    Step records are created on demand, for one process at a time.
    """
    if any(is_attempt(record) for _, record in columns.other_records):
        return _last_run_of_attempts(columns)
    run: list[Record] = []
    first_step = 0
    for place, record in columns.other_records:
        if _opens_run(record, run):
            run, first_step = [], place
        run.append(record)
    return run, _columns_by_rank(columns.steps.take(slice(first_step, None)))


def _last_run_of_attempts(
    columns: Columns,
) -> tuple[Sequence[Record], Iterator[tuple[int, Sequence[StepRecord]]]]:
    """The same for a log with several attempts, of which all records are made."""
    records: list[Record] = list(columns.steps.records())
    for place, record in reversed(list(columns.other_records)):
        records.insert(place, record)
    run = runs(records)[-1]
    others = [record for record in run if not isinstance(record, StepRecord)]
    return others, iter(by_rank(run).items())


def _columns_by_rank(steps: StepColumns) -> Iterator[tuple[int, Sequence[StepRecord]]]:
    slots = steps.rank_slots()
    for slot in sorted(set(slots.tolist())):
        yield slot, list(steps.take(slots == slot).records())


def _opens_run(record: Record, run: list[Record]) -> bool:
    if is_attempt(record):
        return True
    is_first_line = isinstance(record, Fact) and record.key in ("tensorflow", "model")
    return is_first_line and _has_ended(run, record.rank)


def _has_ended(run: list[Record], rank: int | None) -> bool:
    facts = [record for record in run if isinstance(record, Fact)]
    totals = [fact.rank for fact in facts if fact.key == TOTAL]
    if rank is not None:
        return rank in totals
    promised = max(map(count_ranks, facts), default=0)
    return bool(totals) and len(totals) >= promised


def total_of(run: Sequence[Record]) -> Fact | None:
    """The last total that a run has printed."""
    return next((each for each in reversed(run) if isinstance(each, Fact) and each.key == TOTAL), None)


def count_ranks(record: Fact) -> int:
    """The number of processes in a header's `Devices` line; 0 for any other line."""
    return record.value.count("horovod/") if record.key == "devices" else 0


def by_rank(records: Iterable[Record]) -> dict[int, list[StepRecord]]:
    """The step records of each process of one run: rank → records in file order, ascending by rank.

    Lines of other programs are converted. If ranks are unknown, the k-th repetition of a step is assigned to
    process k: identities are arbitrary then, but each step of each process is counted once.
    """
    result: defaultdict[int, list[StepRecord]] = defaultdict(list)
    repetitions: defaultdict[int, int] = defaultdict(int)
    every = list(records)
    for record in [each for each in every if isinstance(each, StepRecord)] or steps_of_values(every):
        slot = repetitions[record.step] if record.rank is None else record.rank
        repetitions[record.step] += record.rank is None
        result[slot].append(record)
    return dict(sorted(result.items()))


def combined_rates(series: Mapping[int, Sequence[StepRecord]], ranks: int = 0) -> dict[float, float]:
    """The rate of `ranks` processes (default: those seen) at each step that all seen processes printed."""
    if not series:
        return {}
    share = (ranks or len(series)) / len(series)
    rates = [{record.step: record.images_per_sec for record in steps} for steps in series.values()]
    common = set.intersection(*(set(rate) for rate in rates))
    return {step: share * sum(rate[step] for rate in rates) for step in sorted(common)}


class StepValues:
    """Accumulates one number of several processes by step, or by another position."""

    def __init__(self) -> None:
        self._sums: dict[float, float] = {}
        self._counts: dict[float, int] = {}
        self._series_count = 0

    def add(self, values: Mapping[float, float]) -> None:
        """Add the values of one process by step."""
        self._series_count += 1
        if not self._sums:
            self._sums, self._counts = dict(values), dict.fromkeys(values, 1)
            return
        sums, counts = self._sums, self._counts
        for step, value in values.items():
            if step in sums:
                sums[step] += value
                counts[step] += 1
            else:
                sums[step], counts[step] = value, 1

    def means(self) -> dict[float, float]:
        """The value at each step, ascending: the mean of the processes that printed it."""
        if self._series_count == 1:
            return dict(sorted(self._sums.items()))
        return {step: total / self._counts[step] for step, total in sorted(self._sums.items())}

    def sums(self, share: float = 1.0, *, ranks: int = 0) -> dict[float, float]:
        """The value of all processes at each step that all have printed, ascending, times `share`.

        All are `ranks`, by default those whose values were added.
        """
        needed = ranks or self._series_count
        return {
            step: share * total for step, total in sorted(self._sums.items()) if self._counts[step] >= needed
        }


def step_values(name: str, series: Iterable[Sequence[StepRecord]]) -> StepValues:
    """One number of the step lines of several processes; lines that lack it are left out."""
    values = StepValues()
    for steps in series:
        add_steps(values, name, steps)
    return values


def add_steps(values: StepValues, name: str, steps: Sequence[StepRecord]) -> None:
    """Add one number of the step lines of a process, if it has any."""
    column = [getattr(record, name) for record in steps]
    numbers = [record.step for record in steps]
    if None in column or ABSENT in column:  # the latter by identity: a printed NaN is another object
        is_told = [value is not None and value is not ABSENT for value in column]
        numbers, column = list(compress(numbers, is_told)), list(compress(column, is_told))
    if column:
        values.add(dict(zip(numbers, column, strict=True)))


def mean_losses(series: Mapping[int, Sequence[StepRecord]]) -> dict[float, float]:
    """The loss at each step, ascending: the mean of the processes that printed it."""
    return step_values("loss", series.values()).means()


_PLACES = ("step", "epoch", "rank")


def records_of_frame(frame: pandas.DataFrame) -> list[Record]:
    """The records of a table, as `frame` or `tidy` makes it."""
    is_tidy = {"metric", "value"} <= set(frame.columns)
    has_steps = {"images_per_sec", "uncertainty", "jitter"} <= set(frame.columns)
    rows = [{str(name): _known(cell) for name, cell in row.items()} for row in frame.to_dict("records")]
    if is_tidy:
        return [_value(row, row["metric"], row["value"]) for row in rows]
    if has_steps:
        return [step_record([*(row.get(name) for name in COLUMNS), 0, None]) for row in rows]
    return [
        _value(row, name, cell)
        for row in rows
        for name, cell in row.items()
        if name not in _PLACES and cell is not None
    ]


def _value(row: Mapping[str, Any], name: str, value: float) -> Measurement:
    time = row.get("wall_time")
    return Measurement(
        name,
        value,
        row.get("unit") or "",
        row.get("step"),
        row.get("epoch"),
        row.get("rank"),
        wall_time=time.timestamp() if time is not None else None,
        phase=traits_of(name).phase,
    )


def _known(cell: Any) -> Any:
    """The value of a cell; None for a missing one."""
    import pandas as pd

    return None if cell is pd.NA or cell is pd.NaT else cell
