"""Turns tables of metrics back into records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.record import Record, ValueRecord, step_record
from batchai_magics.metrics.runs.metric_traits import traits_of
from batchai_magics.metrics.runs.step_series import COLUMNS

if TYPE_CHECKING:
    import pandas

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


def _value(row: Mapping[str, Any], name: str, value: float) -> ValueRecord:
    time = row.get("wall_time")
    return ValueRecord(
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
