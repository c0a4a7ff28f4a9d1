"""The epochs of lines that do not print theirs: taken from the lines above them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.grammar.line_context import LineContext
from batchai_magics.metrics.reading.bulk.value_rows import NO_COUNT, ValueRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Contexts = Callable[[int | None], LineContext]
"""What is known of a process, by its rank."""


def placed(lines: ValueRows, contexts: Contexts) -> ValueRows:
    """The lines with the epochs of those above them; notes the last positions of each process."""
    tables = [replace(each, epoch=each.epoch.copy(), is_whole=each.is_whole.copy()) for each in lines.tables]
    row = np.concatenate([table.row for table in tables])
    order = np.argsort(row, kind="stable")
    step, rank = (np.concatenate([getattr(t, name) for t in tables])[order] for name in ("step", "rank"))
    epoch, is_whole = (
        np.concatenate([getattr(t, name) for t in tables])[order] for name in ("epoch", "is_whole")
    )
    for each in np.unique(rank).tolist():
        rows = np.flatnonzero(rank == each)
        context = contexts(None if each == NO_COUNT else each)
        epoch[rows], is_whole[rows] = _carried(epoch[rows], is_whole[rows], context)
        last = int(rows[-1])
        context.note(_or_none(int(step[last])), _epoch(epoch[last], is_whole[last]))
    back, begin = np.empty(len(order), np.int64), 0
    back[order] = np.arange(len(order))
    for table in tables:
        places = back[begin : begin + len(table)]
        table.epoch[:], table.is_whole[:] = epoch[places], is_whole[places]
        begin += len(table)
    return ValueRows(tables)


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
