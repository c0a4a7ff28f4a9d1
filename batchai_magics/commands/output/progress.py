"""Work is carried out, with a bar for people; it can be interrupted between two steps."""

from __future__ import annotations

import sys
from typing import Any

from batchai_magics.commands.output.refusal import interrupted
from batchai_magics.commands.output.work import BYTES, Work

_DELAY_S = 0.5  # what is done sooner needs no bar


def carry_out(work: Work, *, is_shown: bool) -> Any:
    """The value that the work comes to; an interrupt becomes an error that says how to go on."""
    try:
        return _carried_out(work, is_shown=is_shown and not work.is_quiet)
    except KeyboardInterrupt:
        work.steps.close()
        raise interrupted(f"Stopped. {work.way_back}") from None


def _carried_out(work: Work, *, is_shown: bool) -> Any:
    from tqdm import tqdm

    bar = tqdm(
        total=work.total,
        desc=work.title,
        unit=work.unit,
        unit_scale=work.unit == BYTES,
        delay=_DELAY_S,
        miniters=0,  # the time goes on where nothing else does
        disable=not is_shown,
        file=sys.stderr,
    )
    with bar:
        while True:
            try:
                done = next(work.steps)
            except StopIteration as end:
                return end.value
            bar.update(done)
