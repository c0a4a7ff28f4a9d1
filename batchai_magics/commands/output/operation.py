"""An operation of many steps: uploads, submits, deletes. It is carried out with a bar for people."""

from __future__ import annotations

import sys
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from batchai_magics.errors import interrupt_error

BYTES = "B"
_DELAY_S = 0.5  # what is done sooner needs no bar


@dataclass(frozen=True)
class Operation:
    """Steps to carry out, and the value they come to.

    Each step gives how much of `total` it did, in `unit`s. Who stops in between is told `way_back`.
    """

    title: str
    total: int
    unit: str
    steps: Generator[int, None, Any]
    way_back: str
    is_quiet: bool = False  # no bar is wanted


def carry_out(operation: Operation, *, is_shown: bool) -> Any:
    """The value that an operation comes to; an interrupt becomes an error that says how to go on."""
    try:
        return _carried_out(operation, is_shown=is_shown and not operation.is_quiet)
    except KeyboardInterrupt:
        operation.steps.close()
        raise interrupt_error(f"Stopped. {operation.way_back}") from None


def _carried_out(operation: Operation, *, is_shown: bool) -> Any:
    from tqdm import tqdm

    bar = tqdm(
        total=operation.total,
        desc=operation.title,
        unit=operation.unit,
        unit_scale=operation.unit == BYTES,
        delay=_DELAY_S,
        miniters=0,  # the time goes on where nothing else does
        disable=not is_shown,
        file=sys.stderr,
    )
    with bar:
        while True:
            try:
                done = next(operation.steps)
            except StopIteration as end:
                return end.value
            bar.update(done)
