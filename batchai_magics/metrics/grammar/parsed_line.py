"""What the grammar reads on a line: its positions, its numbers, and what it is for the lines around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from batchai_magics.metrics.grammar.metric_names import is_quality
from batchai_magics.metrics.grammar.position_grammar import Position

Span = tuple[int, int]

BRANCH = b"\xe2\x94\x80\xe2\x94\x80 "
"""Every line of a printed tree contains this."""


class NamedNumber(NamedTuple):
    """A number on a line: its metric's name and unit, its phase (None: the line's), and its span.

    `is_full`: a format gives the name of the record, so that it gets no phase. Divided by `divisor`, the
    number is in its unit.
    """

    name: str
    unit: str
    phase: str | None
    begin: int
    end: int
    is_full: bool = False
    divisor: float = 1.0


class LineKind(Enum):
    """What a line is for the lines around it."""

    STEP = "a position and named numbers"
    HEADING = "only a position, which holds for the lines below"
    LOOSE = "named numbers, whose position stands above"
    BAR = "a progress bar without numbers"
    PHASE = "only a phase, which holds for the next line"
    RULE = "a line of dashes or a brace, which may stand below a heading"
    OBJECT = "positions and named numbers, which need nothing of the lines above"
    REDRAWN = "numbers of the epoch above, which may be printed again"
    BELOW = "numbers at the position of the line above, if there is one"
    YEAR = "the year of the times on the lines below, which lack it"


class ParsedLine(NamedTuple):
    """What the grammar reads on one line; spans are in its text.

    `is_bar`: a progress bar, which is redrawn. `is_plain`: the numbers of a loose line follow nothing but a
    phase, so that any known position applies. `is_dict`: a printed dict. `is_result`: a loose line of
    results only, which needs no position. `is_member`: it belongs to a block below a position. `is_whole`:
    all numbers are whole. `is_assigned`: all follow a `=`, as in no YAML. `is_list`: a heading in the form of
    the lines of names and numbers below it. `is_wrapped`: the rest of the line above, far to the right.
    `is_opening`: the heading of a phase that may open a group of settings, as in YAML. `seconds` is a time
    since 1970 or a date, `total` the total of the steps, `names` are digits of names, and totals that tell
    which count is the step. `has_last`: some numbers count only if the step equals the total.
    `is_self_terminating`: no longer line begins like this one. `has_fixed_width`: its numbers have the same
    number of decimals on all lines.
    """

    kind: LineKind
    step: Span | None = None
    epoch: Span | None = None
    rank: Span | None = None
    numbers: tuple[NamedNumber, ...] = ()
    phase: str | None = None
    prefix_end: int = 0
    is_bar: bool = False
    is_plain: bool = False
    is_result: bool = False
    is_dict: bool = False
    is_member: bool = False
    is_whole: bool = False
    is_assigned: bool = False
    is_list: bool = False
    is_wrapped: bool = False
    is_opening: bool = False
    seconds: Span | None = None
    total: Span | None = None
    names: tuple[Span, ...] = ()
    has_last: bool = False
    is_self_terminating: bool = False
    has_fixed_width: bool = False


@dataclass
class LineScan:
    """The state of scanning one message; `at` is the next character."""

    text: bytes
    end: int
    begin: int
    at: int
    phase: str | None
    has_origin: bool
    group: str = ""
    head: str = ""  # of `MAE e 0.11  f 0.21`
    section: str | None = None
    positions: list[Position] = field(default_factory=list)
    numbers: list[NamedNumber] = field(default_factory=list)
    assigned: int = 0  # numbers after a `=`
    excluded: int = 0  # numbers that are no metrics
    strong: int = 0  # numbers that alone make the line a step line
    early_words: int = 0  # unexplained words before the position
    stray_words: int = 0  # and after it, within a sentence
    lone_words: int = 0  # and after it, between separators
    is_bar: bool = False
    is_labelled: bool = False  # the bar
    rank: Span | None = None
    last_base: str = ""
    last_phase: str | None = None  # of a name such as `val loss`, and of the qualities after it

    def enter_phase(self, phase: str) -> None:
        """Set the phase of the numbers from here on, or of the whole line before its first number."""
        if self.numbers:
            self.section = phase
        else:
            self.phase = phase

    @property
    def qualities(self) -> list[NamedNumber]:
        """The numbers that say how well a model does."""
        return [number for number in self.numbers if is_quality(number.name)]

    @property
    def words(self) -> int:
        """The unexplained words after the position."""
        return self.stray_words + self.lone_words

    def digits_of(self, number: NamedNumber) -> bytes:
        """A number as it is printed."""
        return self.text[number.begin : number.end]
