"""The epochs of lines that do not print theirs: taken from the lines above them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.columns.value_tables import NO_COUNT, ValueRows, ValueTable
from batchai_magics.metrics.formats.line_plan import Role
from batchai_magics.metrics.grammar.line_context import LineContext
from batchai_magics.metrics.reading.bar_steps import UnplacedDict
from batchai_magics.metrics.reading.parser_state import RankStates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

_TELLING = (Role.STEP, Role.OBJECT, Role.BAR)
_ASKING = (Role.STEP, Role.DICT)


def placed(lines: ValueRows, states: RankStates) -> ValueRows:
    """The lines with the epochs of those above them; notes the last positions of each process."""
    tables = [replace(each, epoch=each.epoch.copy(), is_whole=each.is_whole.copy()) for each in lines.tables]
    _enter_bars([table for table in tables if table.role is Role.BAR], states)
    order = np.argsort(np.concatenate([table.row for table in tables]), kind="stable")
    step, rank, epoch, is_whole = (
        np.concatenate([getattr(table, name) for table in tables])[order]
        for name in ("step", "rank", "epoch", "is_whole")
    )
    is_telling, is_asking = (
        np.concatenate([np.full(len(table), table.role in roles) for table in tables])[order]
        for roles in (_TELLING, _ASKING)
    )
    for each in np.unique(rank).tolist():
        rows = np.flatnonzero(rank == each)
        context, told = states.of(_or_none(each)).context, is_telling[rows]
        above, is_above_whole = _carried(np.where(told, epoch[rows], np.nan), is_whole[rows], context)
        if told.any():
            last = int(np.flatnonzero(told)[-1])
            context.note(_or_none(int(step[rows[last]])), _epoch(above[last], is_above_whole[last]))
        is_open = is_asking[rows] & np.isnan(epoch[rows])
        epoch[rows[is_open]], is_whole[rows[is_open]] = above[is_open], is_above_whole[is_open]
    back, begin = np.empty(len(order), np.int64), 0
    back[order] = np.arange(len(order))
    for table in tables:
        places = back[begin : begin + len(table)]
        table.epoch[:], table.is_whole[:] = epoch[places], is_whole[places]
        begin += len(table)
    return ValueRows(tables)


def unplaced_in(lines: ValueRows) -> list[UnplacedDict]:
    """The printed dicts among some lines whose time is known; another stream may tell their steps."""
    found = [
        (row, UnplacedDict(records[0].rank, records[0].epoch, records[0].wall_time))
        for table in lines.tables
        for row, records in (table.lines() if table.role is Role.DICT else ())
        if records[0].wall_time is not None
    ]
    return [each for _, each in sorted(found, key=lambda pair: pair[0])]


def first_repeated(lines: ValueRows, states: RankStates) -> int | None:
    """The row of the first bar among some lines, if it is at the step of a bar that the parser has read."""
    bars = [table for table in lines.tables if table.role is Role.BAR]
    if not bars:
        return None
    bar = min(bars, key=lambda table: int(table.row[0]))
    state = states.of(_or_none(int(bar.rank[0])))
    is_repeated = bool(state.reported) and _or_none(int(bar.step[0])) == state.step
    return int(bar.row[0]) if is_repeated else None


def _enter_bars(bars: Sequence[ValueTable], states: RankStates) -> None:
    """Give bars the epoch that was announced; the next line of a process is compared to its last bar."""
    for each in {int(table.rank[0]) for table in bars}:
        state = states.of(_or_none(each))
        for table in bars:
            table.epoch[:], table.is_whole[:] = np.nan if state.epoch is None else state.epoch, True
        last = max(bars, key=lambda table: int(table.row[-1]))
        numbers = zip(last.metrics, last.values[-1].tolist(), strict=True)
        state.step, state.reported = (
            _or_none(int(last.step[-1])),
            {metric.name: value for metric, value in numbers},
        )


def _carried(epoch: Array, is_whole: Array, context: LineContext) -> tuple[Array, Array]:
    """The epochs; a row without one has the epoch of the row above, the first ones that of the context."""
    has_epoch = ~np.isnan(epoch)
    if has_epoch.all():
        return epoch, is_whole
    above = np.maximum.accumulate(np.where(has_epoch, np.arange(len(epoch)), -1))
    first = np.nan if context.epoch is None else context.epoch
    return (
        np.where(above >= 0, epoch[above], first),
        np.where(above >= 0, is_whole[above], isinstance(context.epoch, int)),
    )


def _or_none(count: int) -> int | None:
    return None if count == NO_COUNT else count


def _epoch(epoch: float, is_whole: bool) -> float | None:
    return None if np.isnan(epoch) else int(epoch) if is_whole else float(epoch)
