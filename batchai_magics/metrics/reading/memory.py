"""What earlier lines say about later ones: the epoch, the columns of a table, the rhythm of the steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

from batchai_magics.metrics.reading.prefixes import PREFIX
from batchai_magics.metrics.record import StepRecord

_MOST_RANKS = 4096
_MOST_SEEN = 1024
MAX_DIGITS = 18
_DEFAULT_EVERY = 10  # --display_every, while no two steps were seen
_HEADER_NUMBER = re.compile(rb"(?:TensorFlow: +\d+\.|Num batches: +|Num epochs: +\d+\.)\Z")


@dataclass(slots=True)
class Memory:
    """What one process has told so far, as far as its later lines need it."""

    epoch: int | None = None
    step: int | None = None
    shown: dict[str, float] = field(default_factory=dict)  # of this epoch and step
    times: dict[int, tuple[float, int]] = field(default_factory=dict)  # of each worker: when, at which step
    columns: tuple[str, ...] = ()  # of a table
    lines_left: int = 0  # before the table is given up
    year: int | None = None  # of glog's stamps, which tell none …
    month: int = 0  # … and the month of the last one
    _seen: dict[object, None] = field(default_factory=dict)

    def is_new(self, key: object) -> bool:
        """Whether this was not asked before, as far as is remembered."""
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > _MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        return True

    def year_of(self, month: int) -> int | None:
        """The year of a stamp in this month, close to the last one; None while no year was told."""
        months_back = self.month - month
        if self.year is None or not self.month or months_back < -6:  # not in order, at the turn of a year
            return self.year and self.month and self.year - 1
        self.year += months_back > 6
        self.month = month
        return self.year

    def moves_to(self, epoch: int | None, step: int | None) -> None:
        """Forget what was shown if this is another step."""
        if (epoch, step) != (self.epoch, self.step):
            self.epoch, self.step, self.shown = epoch, step, {}


class Memories:
    """The memories of all processes whose lines are in one stream."""

    def __init__(self) -> None:
        self._of: dict[int | None, Memory] = {}

    @property
    def has_table(self) -> bool:
        """Whether a line without any literal may be the row of a table."""
        return bool(self._of) and any(memory.lines_left for memory in self._of.values())

    def of(self, rank: int | None) -> Memory:
        """The memory of one process."""
        if rank not in self._of and len(self._of) >= _MOST_RANKS:
            self._of.clear()
        return self._of.setdefault(rank, Memory())


class Pace:
    """The rhythm of a stream's step lines, learnt while reading: 1, then the multiples of one number."""

    def __init__(self) -> None:
        self.num_batches: int | None = None  # as the header says
        self.has_accuracy = False  # step lines carry accuracies
        self.every = 0  # the greatest common divisor of the steps over 1; 0 while there were none
        self.edge = b"\n"  # what stood left of the last step: two bytes, or the newline alone

    def see(self, step: int, *, has_accuracy: bool = False) -> None:
        """Learn from a step line that was read."""
        if has_accuracy:
            self.has_accuracy = True
        if self.every != 1 and step > 1:
            self.every = gcd(self.every, step)

    def see_all(self, records: Sequence[StepRecord]) -> None:
        """Learn from many step lines."""
        self.every = gcd(self.every, *(record.step for record in records if record.step > 1))
        self.has_accuracy = self.has_accuracy or any(record.top_1 is not None for record in records)

    def step(self, left: bytes) -> tuple[int | None, bytes]:
        """The step at the end of this text, None when no part of its digits can be one, and what is before.

        `left` is what stands left of a rate on its line and is no record; blanks part the step from the rate.
        Alone on its line a number is taken as it is. Behind other text its first digits may belong to that
        text: `TensorFlow:  1.8` and `1` make `1.81`, so the longest plausible end is taken, and behind a
        number of the header the shortest one.
        """
        text = left.rstrip(b" \t")
        if text.isdigit():
            before, digits = b"", text
        else:
            before = text.rstrip(b"0123456789")
            digits = text[len(before) :]
        if len(text) == len(left) or not 0 < len(digits) <= MAX_DIGITS:
            return None, left
        if not before or PREFIX.fullmatch(before):
            return int(digits) or None, before
        return self._step_behind(digits, before), before

    def _step_behind(self, digits: bytes, before: bytes) -> int | None:
        whole = int(digits)
        if _is_apart(before) and 0 < whole <= (self.num_batches or whole):
            return whole
        is_decimal = before[-1:] == b"." and before[-2:-1].isdigit()
        end = self._plausible_end(digits, before, is_decimal)
        return end if end or is_decimal else whole or None

    def _plausible_end(self, digits: bytes, before: bytes, is_decimal: bool) -> int | None:
        is_header = _HEADER_NUMBER.search(before) is not None
        starts = range(1 if is_decimal or is_header else 0, len(digits))
        for start in reversed(starts) if is_header else starts:
            step = int(digits[start:])
            if digits[start] != ord("0") and self._fits(step):
                return step
        return None

    def _fits(self, step: int) -> bool:
        is_in_range = self.num_batches is None or step <= self.num_batches
        return is_in_range and (step == 1 or step % (self.every or _DEFAULT_EVERY) == 0)


def _is_apart(before: bytes) -> bool:
    """Whether a blank parts this text, which is no number of a header, from what follows."""
    return before[-1:] in b" \t" and not _HEADER_NUMBER.search(before)
