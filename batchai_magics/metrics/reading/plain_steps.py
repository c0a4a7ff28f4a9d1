r"""Step lines in their usual shape, all those of a block at once.

`STEP\timages/sec: R +/- U (jitter = J)\tLOSS[\tT1\tT5]`, alone on its line or behind a plain tag: most
numbers of most logs stand in such lines. One split takes them out of the text; what is left between them, the
gaps, is for others to read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, count, repeat
from operator import add
from typing import NamedTuple, cast

from batchai_magics.metrics.reading.lines import Block
from batchai_magics.metrics.reading.times import Clock
from batchai_magics.metrics.record import StepRecord

_LITERAL = b"images/sec: "
_FEWEST = 4  # fewer ones are read sooner one by one
_TAG = rb"\[(?:[0-9]{1,18},)?([0-9]{1,6})\]<std(?:out|err|diag)>: ?"
_RATE = rb"([0-9]+\.[0-9])"
_STEP = rb"([1-9][0-9]{0,17})\timages/sec: " + _RATE + rb" \+/- " + _RATE + rb" \(jitter = " + _RATE + rb"\)"
_LOSS = rb"\t([0-9]+\.[0-9]{3}|nan|inf)"
_ACCURACIES = rb"\t(nan|[0-9]\.[0-9]{3})\t(nan|[0-9]\.[0-9]{3})"

# By whether there are tags, and accuracies. Each begins with a byte string, so that it is searched for fast.
_LINES = {
    (is_tagged, has_accuracy): re.compile(
        rb"\n("
        + (_TAG if is_tagged else b"")
        + _STEP
        + _LOSS
        + (_ACCURACIES if has_accuracy else b"")
        + rb")(?=\n)"
    )
    for is_tagged in (False, True)
    for has_accuracy in (False, True)
}

# As `StepRecord._make`, which is Python and takes half as long again.
_make = cast("Callable[[Iterable[object]], StepRecord]", partial(tuple.__new__, StepRecord))


class Gap(NamedTuple):
    """Whole lines between step lines; `row` is that of the step line behind them."""

    data: bytes
    offset: int
    row: int


class PlainSteps(NamedTuple):
    """The plain step lines of a block, and the text before each of them and behind the last one.

    Each text begins with the newline that ends the line before it.
    """

    records: Sequence[StepRecord]
    texts: Sequence[bytes]
    offset: int  # of the block

    @property
    def rest(self) -> bytes:
        """All text that is no plain step line, each line behind a newline."""
        return b"".join(self.texts)

    def gaps_with(self, marks: Sequence[bytes]) -> Iterator[Gap]:
        """The gaps that hold one of these byte strings."""
        texts, last = self.texts, len(self.texts) - 1
        for row in sorted({row for mark in marks for row, text in enumerate(texts) if mark in text}):
            offset = self.records[row - 1].offset if row else self.offset
            yield Gap(texts[row][1:] if row == last else texts[row][1:] + b"\n", offset, row)


def has_many_steps(data: bytes) -> bool:
    """Whether lines may hold so many records that it is worth while to read them all at once."""
    return data.count(_LITERAL) >= _FEWEST


def no_steps(block: Block) -> PlainSteps:
    """All of a block as one gap."""
    return PlainSteps((), (b"\n" + block.data,), block.offset)


def read_plain_steps(
    block: Block, *, is_tagged: bool, has_accuracy: bool, rank: int | None, clock: Clock | None
) -> PlainSteps:
    """Take a block of whole lines apart; `rank` is that of lines without tags."""
    pattern = _LINES[is_tagged, has_accuracy]
    pieces: list[bytes] = pattern.split(b"\n" + block.data)
    width = pattern.groups + 1
    texts, lines, *columns = (pieces[column::width] for column in range(width))
    sizes = map(add, map(len, texts), map(len, lines))
    offsets = list(map(add, accumulate(sizes), count(block.offset + 1)))
    records = map(
        _make,
        zip(
            map(int, columns[is_tagged]),
            map(int, columns[0]) if is_tagged else repeat(rank),
            *(map(float, column) for column in columns[is_tagged + 1 : is_tagged + 5]),
            *((map(float, column) for column in columns[-2:]) if has_accuracy else (repeat(None),) * 2),
            offsets,
            map(clock.at, offsets) if clock else repeat(None),
            strict=False,
        ),
    )
    return PlainSteps(list(records), texts, block.offset)
