"""Which step numbers are plausible: where ranks share a line, digits of two numbers may touch."""

from __future__ import annotations

import re
from math import gcd

from batchai_magics.metrics.reading.prefixes import PREFIX

MAX_DIGITS = 18
_DEFAULT_EVERY = 10  # --display_every, while no two steps were seen
_HEADER_NUMBER = re.compile(rb"(?:TensorFlow: +\d+\.|Num batches: +|Num epochs: +\d+\.)\Z")


class Pace:
    """The rhythm of a stream's step lines, learnt while reading: 1, then the multiples of one number."""

    def __init__(self) -> None:
        self.num_batches: int | None = None  # as the header says
        self.has_accuracy = False  # step lines carry accuracies
        self.every = 0  # the greatest common divisor of the steps over 1; 0 while there were none

    def see(self, step: int, *, has_accuracy: bool = False) -> None:
        """Learn from a step line that was read."""
        if has_accuracy:
            self.has_accuracy = True
        if self.every != 1 and step > 1:
            self.every = gcd(self.every, step)

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
