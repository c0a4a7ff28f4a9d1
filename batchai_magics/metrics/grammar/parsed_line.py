"""What the grammar reads on a line: its positions, its numbers, and what it is for the lines around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from batchai_magics.metrics.grammar.metric_names import is_quality
from batchai_magics.metrics.grammar.position_grammar import Position

Span = tuple[int, int]

BRANCH = b"\xe2\x94\x80\xe2\x94\x80 "
"""What every line of a printed tree has."""


class NamedNumber(NamedTuple):
    """A number on a line: its metric's name and unit, its phase (None: that of the line), and its span.

    `is_full`: the name is that of the record, as a format gives it; `divisor` turns the number into its unit.
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
    """What the grammar reads on one line; spans are positions in it.

    `is_bar`: a progress bar, which is drawn again and again. `is_plain`: nothing is before the numbers of a
    loose line but a phase, so that it is read wherever a position is known. `is_dict`: a printed dict.
    `is_result`: a loose line that states results and nothing else, so that it needs no position. `is_whole`:
    all numbers have digits only. `is_assigned`: all stand behind a `=`, as
    in no YAML. `is_list`: a heading that looks like the lines of names and numbers below
    it. `is_wrapped`: the rest of the line above, far to the right. `is_opening`: the heading of a phase that
    may open a group of settings, as in YAML. `seconds` is a time since 1970 or a date, `total` how far the
    steps go, `names` are digits of names. `has_last`: some of the numbers count only where the step is the
    total. `is_self_terminating`: no longer line begins like this one. `has_fixed_width`: its numbers have as
    many decimals on all lines.
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
    """The state of reading one message."""

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
    assigned: int = 0  # numbers behind a `=`
    excluded: int = 0  # numbers that are no metrics
    strong: int = 0  # numbers that alone make the line a step line
    early_words: int = 0  # words before the position that nothing explains
    stray_words: int = 0  # and behind it, within a sentence
    lone_words: int = 0  # and behind it, between separators
    is_bar: bool = False
    is_labelled: bool = False  # the bar
    rank: Span | None = None
    last_base: str = ""
    last_phase: str | None = None  # of a name such as `val loss`, and of the qualities behind it

    def enter_phase(self, phase: str) -> None:
        """Let the numbers from here on be of a phase; behind others, only these are."""
        if self.numbers:
            self.section = phase
        else:
            self.phase = phase

    @property
    def qualities(self) -> list[NamedNumber]:
        """The numbers that say how well a model does."""
        return [each for each in self.numbers if is_quality(each.name)]

    @property
    def words(self) -> int:
        """The words behind the position that nothing explains."""
        return self.stray_words + self.lone_words

    def digits_of(self, number: NamedNumber) -> bytes:
        """A number as it is printed."""
        return self.text[number.begin : number.end]
