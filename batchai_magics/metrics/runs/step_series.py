"""The lines with numbers of a log as a table, and its runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.column import MISSING, Column
from batchai_magics.metrics.measurement import (
    ATTEMPT,
    LENGTH,
    RATE_UNIT,
    TOTAL,
    Fact,
    Measurement,
    Record,
    lines_of,
)
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable
from batchai_magics.metrics.runs.mean_rates import MEAN_RATES, with_ranks
from batchai_magics.metrics.runs.metric_traits import traits_of
from batchai_magics.metrics.runs.resumed_attempts import continued, continues, is_attempt
from batchai_magics.metrics.runs.timeline import on_timeline

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray


POSITIONS = ("step", "rank", "epoch")
"""The columns in front of the numbers of a line."""

_MANY_CELLS = 1 << 24  # of a table whose columns are sparse if few of them have a value
_SPARSE_SHARE = 8


def line_rows(records: Iterable[Record]) -> Iterator[dict[str, float | None]]:
    """The numbers of each line by name, behind its POSITIONS, in file order."""
    for line in lines_of(records):
        position = {name: getattr(line[0], name) for name in POSITIONS}
        yield {**position, **{number.name: number.value for number in line}}


def frame(records: Iterable[Record]) -> pandas.DataFrame:
    """The lines with numbers as a table.

    Args:
        records: Records, in file order.

    Returns:
        One row per line with numbers: those of POSITIONS that any line has, nullable integers if they are
        whole, and a column for each number; NaN stands for one that the line lacks. Of many lines with other
        numbers each, these columns are sparse.
    """
    import numpy as np
    import pandas as pd

    parts = [*MeasurementTable.of(records).lines]
    ends = [0, *accumulate(len(part.rows) for part in parts)]
    places = _row_positions(parts)
    in_order = sorted(parts, key=lambda part: part.rows[0])
    names = dict.fromkeys([*POSITIONS, *(name for part in in_order for name in part.names)])
    told: dict[str, list[tuple[NDArray[Any], Any]]] = {name: [] for name in names}
    for part, begin, end in zip(parts, ends, ends[1:], strict=False):
        for name, column in _columns_by_name(part).items():
            missing = MISSING if name in _COUNTS else math.nan
            if not column.is_missing:
                told[name].append((places[begin:end], column.fillna(missing)))
    filled_count = sum(len(part.names) * len(part.rows) for part in parts)
    is_sparse = ends[-1] * len(names) > max(_MANY_CELLS, _SPARSE_SHARE * filled_count)
    table: dict[str, Any] = {}
    for name, pieces in told.items():
        if is_sparse and pieces and name not in (*_COUNTS, "epoch"):
            table[name] = _sparse(pieces, ends[-1])
            continue
        values = np.full(ends[-1], MISSING if name in _COUNTS else math.nan)
        for at, numbers in pieces:
            values[at] = numbers
        is_missing = values == MISSING if name in _COUNTS else np.isnan(values)
        if parts and is_missing.all():
            continue
        table[name] = values
        if name in _COUNTS:
            table[name] = pd.arrays.IntegerArray(values, is_missing)
        elif name == "epoch" and (values[~is_missing] % 1 == 0).all():
            whole = np.where(is_missing, 0, values).astype(np.int64)
            table[name] = pd.arrays.IntegerArray(whole, is_missing)
    return pd.DataFrame(table, copy=False)


_COUNTS = ("step", "rank")


def _row_positions(parts: Sequence[LineColumns]) -> NDArray[Any]:
    """Where each line stands in file order, those of the first part first."""
    import numpy as np

    rows = np.concatenate(
        [np.empty(0, np.int64), *(np.full(len(part.rows), part.rows.fillna(0)) for part in parts)]
    )
    places = np.empty(len(rows), np.int64)
    places[np.argsort(rows, kind="stable")] = np.arange(len(rows))
    return places


def _sparse(pieces: Sequence[tuple[NDArray[Any], Any]], size: int) -> Any:
    """A column with values at some places, of which the others take no memory."""
    import numpy as np
    import pandas as pd

    places = np.concatenate([at for at, _ in pieces])
    values = np.concatenate([np.broadcast_to(numbers, len(at)) for at, numbers in pieces]).astype(float)
    order = np.argsort(places)
    sparse: Any = pd.arrays.SparseArray
    if hasattr(sparse, "from_indices"):
        return sparse.from_indices(values[order], places[order].astype(np.int32), size)
    index_type = type(sparse([math.nan]).sp_index)  # before pandas 3.1
    return sparse(values[order], sparse_index=index_type(size, places[order].astype(np.int32)))


def _columns_by_name(part: LineColumns) -> Mapping[str, Column]:
    positions = {"step": part.steps[0], "rank": part.ranks, "epoch": part.epochs}
    return {**positions, **dict(zip(part.names, part.values, strict=True))}


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
    lengths, found = list[Fact](), list[MeasurementTable]()
    for run in _with_resumed(parts):
        found.append(with_ranks(on_timeline(run, above=lengths)))
        lengths += (fact for _, fact in run.facts if fact.key == LENGTH)
    return found


def _with_resumed(parts: Sequence[MeasurementTable]) -> list[MeasurementTable]:
    """The runs, where an attempt that resumes is part of the run before."""
    result = [*parts[:1]]
    for part in parts[1:]:
        if is_attempt(part.facts[0][1]) and continues(part, result[-1]):
            result[-1] = continued(part, result[-1])
        else:
            result.append(part)
    return result


RUN_KEYS = (ATTEMPT, "tensorflow", "model")
"""The keys of facts that may start a run."""


def opens_run(fact: Fact, run: Sequence[Fact]) -> bool:
    """Whether a fact starts a run, after one with these facts."""
    if is_attempt(fact):
        return True
    return fact.key in RUN_KEYS and _has_ended(run, fact.rank)


def _has_ended(facts: Sequence[Fact], rank: int | None) -> bool:
    totals = [fact.rank for fact in facts if fact.key == TOTAL]
    if rank is not None:
        return rank in totals
    promised = max(map(count_ranks, facts), default=0)
    return bool(totals) and len(totals) >= promised


def count_ranks(record: Fact) -> int:
    """The number of processes in a header's `Devices` line; 0 for any other line."""
    return record.value.count("horovod/") if record.key == "devices" else 0


def records_of_frame(frame: pandas.DataFrame) -> list[Record]:
    """The records of a table, as `frame` or `tidy` makes it."""
    names = set(frame.columns)
    is_tidy, has_mean_rates = {"metric", "value"} <= names, names.issuperset(MEAN_RATES)
    units = dict.fromkeys(MEAN_RATES if has_mean_rates else (), RATE_UNIT)
    rows = [{str(name): _known(cell) for name, cell in row.items()} for row in frame.to_dict("records")]
    if is_tidy:
        values = (math.nan if row["value"] is None else row["value"] for row in rows)
        return [_value(row, row["metric"], value) for row, value in zip(rows, values, strict=True)]
    return [
        _value({"unit": units.get(name), "offset": number, **row}, name, cell)
        for number, row in enumerate(rows)
        for name, cell in row.items()
        if name not in POSITIONS and cell is not None
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
        row.get("offset") or 0,
        wall_time=time.timestamp() if time is not None else None,
        phase=traits_of(name).phase,
    )


def _known(cell: Any) -> Any:
    """The value of a cell; None for a missing one, which is NaN among numbers."""
    import pandas as pd

    return None if pd.isna(cell) else cell
