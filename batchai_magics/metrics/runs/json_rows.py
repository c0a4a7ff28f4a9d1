"""Step records as JSON text, written from their columns: quick, and in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from batchai_magics.metrics.json_values import json_value
from batchai_magics.metrics.reading.bulk.columns import NO_RANK, Array, StepColumns

_ROWS = 8192  # a piece
_ACCURACIES = ("top_1", "top_5")
_PLAIN = 1e11  # a smaller number with three decimals is written as it was printed


def json_rows(steps: StepColumns, names: Sequence[str], *, indent: int) -> Iterator[str]:
    """The objects of an array, indented by so many blanks, as `json.dumps` writes them with two blanks more.

    A rank or an accuracy that is not told is null; `json_value` says what becomes of a NaN.
    """
    margin = " " * indent
    lines = ",\n".join(f'{margin}  "{name}": %s' for name in names)
    template = f"{margin}{{\n{lines}\n{margin}}}"
    for start in range(0, len(steps), _ROWS):
        part = steps.take(slice(start, start + _ROWS))
        columns = [_texts(part, name) for name in names]
        yield ",\n" * (start > 0) + ",\n".join(map(template.__mod__, zip(*columns, strict=True)))


def _texts(steps: StepColumns, name: str) -> Iterable[str]:
    column = getattr(steps, name)
    if name == "rank":
        return ["null" if rank == NO_RANK else str(rank) for rank in column.tolist()]
    if name not in _ACCURACIES:
        return _numbers(column)
    if not steps.has_accuracy.any():
        return repeat("null", len(column))
    return [
        text if is_there else "null"
        for text, is_there in zip(_numbers(column), steps.has_accuracy.tolist(), strict=True)
    ]


def _numbers(column: Array) -> Iterable[str]:
    """Each number as JSON; few are so large or odd that `json_value` has to say what becomes of them."""
    if (abs(column) < _PLAIN).all():
        return map(repr, column.tolist())
    return [json.dumps(json_value(value)) for value in column.tolist()]
