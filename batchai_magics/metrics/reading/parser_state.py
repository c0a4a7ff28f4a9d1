"""Parser state that later lines depend on: epoch, table columns, step interval."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.reading.bar_steps import BarCount, BarSteps, HeldDict, UnplacedDict
from batchai_magics.metrics.reading.line_context import LineContext, Values
from batchai_magics.metrics.reading.prefix_patterns import PREFIX
from batchai_magics.metrics.reading.process_lines import ProcessLines

_MAX_RANKS = 1 << 15
_MAX_LENGTHS = 64  # of a rank's counters; epochs of more lengths have none in common
MAX_DIGITS = 18
_DEFAULT_INTERVAL = 10  # tf_cnn_benchmarks' --display_every, until two steps were seen
_HEADER_NUMBER = re.compile(rb"(?:TensorFlow: +\d+\.|Num batches: +|Num epochs: +\d+\.)\Z")


@dataclass(slots=True)
class RankState:
    """What the parser remembers of one process."""

    epoch: float | None = None
    step: int | None = None
    # values already reported for this epoch and step
    reported: dict[str, float] = field(default_factory=dict)
    year: int | None = None  # year of glog timestamps, which may omit it …
    month: int = 0  # … and the month of the last one
    context: LineContext = field(default_factory=LineContext)
    lengths: set[tuple[str, bytes]] = field(default_factory=set)  # of counters, by the metric beside them

    def is_news(self, length: tuple[str, bytes]) -> bool:
        """Whether how far a counter goes was not told before."""
        return len(self.lengths) < _MAX_LENGTHS and length not in self.lengths

    def year_for(self, month: int) -> int | None:
        """The year of a timestamp in this month, assuming it is close to the last one; None if unknown."""
        months_back = self.month - month
        if self.year is None or not self.month or months_back < -6:  # out of order around New Year
            return self.year and self.month and self.year - 1
        self.year += months_back > 6
        self.month = month
        return self.year

    def enter_step(self, epoch: float | None, step: int | None) -> None:
        """Discard the reported values when the step changes."""
        if (epoch, step) != (self.epoch, self.step):
            self.epoch, self.step, self.reported = epoch, step, {}

    def report(self, numbers: Values) -> None:
        """Note the numbers of a line at the step."""
        self.reported = {metric.name: value for metric, value in numbers}
        self.context.note(self.step, self.epoch)


class RankStates:
    """The state of every process in one stream."""

    def __init__(self) -> None:
        self._by_rank: dict[int | None, RankState] = {}
        self.has_table = False  # a table of the grammar is open
        self.held: dict[int | None, HeldDict] = {}  # by the rank that printed it
        self.lines = ProcessLines(lambda rank, number: self.of(rank).context.has_ended(number))
        self._bar_steps = BarSteps()
        self.bar_counts: list[BarCount] = []
        self.unplaced: list[UnplacedDict] = []

    def release(
        self, rank: int | None, line: int = 0, done: int | None = None, total: float = 0
    ) -> list[Record]:
        """The numbers of a rank that are held; a bar on this line shows `done` of `total` steps.

        A bar has no tag if it follows a carriage return, so that one without a rank is that of all.
        """
        if rank is None and done is not None:
            held, self.held = [*self.held.values()], {}
        else:
            held = [self.held.pop(rank)] if rank in self.held else []
        return [record for each in held for record in self._bar_steps.placed(each, line, done, total)]

    def release_all(self) -> list[Record]:
        """The numbers that are held at the end."""
        return [record for rank in [*self.held] for record in self.release(rank)]

    def note_table(self) -> None:
        """Note whether a table is still open."""
        self.has_table = any(state.context.table.is_open for state in self._by_rank.values())

    def of(self, rank: int | None) -> RankState:
        """The state of one process."""
        state = self._by_rank.get(rank)
        if state is None:
            if len(self._by_rank) >= _MAX_RANKS:
                self._by_rank.clear()
            state = self._by_rank[rank] = RankState()
        return state


class StepCadence:
    """The interval of a stream's step lines, learned while reading: 1, then multiples of one number."""

    def __init__(self) -> None:
        self.num_batches: int | None = None  # from the header
        self.has_accuracy = False  # step lines include accuracies
        self.interval = 0  # greatest common divisor of the steps above 1; 0 until there are any

    def observe(self, step: int, *, has_accuracy: bool = False) -> None:
        """Learn from one step line."""
        if has_accuracy:
            self.has_accuracy = True
        if self.interval != 1 and step > 1:
            self.interval = gcd(self.interval, step)

    def observe_all(self, steps: Sequence[int | None], *, has_accuracy: bool) -> None:
        """Learn from many step lines."""
        if self.interval != 1:
            self.interval = gcd(self.interval, *[step for step in steps if step and step > 1])
        self.has_accuracy = self.has_accuracy or has_accuracy

    def split_step(self, left: bytes) -> tuple[int | None, bytes]:
        """Split the text before a rate into the step at its end and the rest.

        `left` is the text between the previous record and a rate; blanks separate the step from the rate. A
        number alone on its line is the step. After other text, its first digits may belong to that text
        (`TensorFlow:  1.8` and `1` give `1.81`): the longest plausible suffix is the step, after a number of
        the header the shortest.

        Returns:
            The step, or None if no suffix of the digits is plausible, and the text before it.
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
        return self._step_after(digits, before), before

    def _step_after(self, digits: bytes, before: bytes) -> int | None:
        whole = int(digits)
        if _is_separated(before) and 0 < whole <= (self.num_batches or whole):
            return whole
        is_decimal = before[-1:] == b"." and before[-2:-1].isdigit()
        end = self._plausible_step(digits, before, is_decimal)
        return end if end or is_decimal else whole or None

    def _plausible_step(self, digits: bytes, before: bytes, is_decimal: bool) -> int | None:
        is_header = _HEADER_NUMBER.search(before) is not None
        starts = range(1 if is_decimal or is_header else 0, len(digits))
        for start in reversed(starts) if is_header else starts:
            step = int(digits[start:])
            if digits[start] != ord("0") and self._fits(step):
                return step
        return None

    def _fits(self, step: int) -> bool:
        is_in_range = self.num_batches is None or step <= self.num_batches
        return is_in_range and (step == 1 or step % (self.interval or _DEFAULT_INTERVAL) == 0)


def _is_separated(before: bytes) -> bool:
    """Whether a blank separates the following digits from this text, and it is not a header number."""
    return before[-1:] in b" \t" and not _HEADER_NUMBER.search(before)
