"""Caches the plans of one file's lines by their skeletons; plans are learned while reading."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from batchai_magics.metrics.grammar.line_grammar import is_too_long, read_line
from batchai_magics.metrics.grammar.line_interest import may_matter
from batchai_magics.metrics.grammar.metric_tables import MAY_BE_TABLE, may_open_table
from batchai_magics.metrics.grammar.parsed_line import LineKind, ParsedLine
from batchai_magics.metrics.grammar.plain_lines import has_decimal_commas, is_undecided, plain_line
from batchai_magics.metrics.grammar.prefix_grammar import NUMBER_IN_FRONT, read_prefixes, row_begin
from batchai_magics.metrics.grammar.program_lines import read_program_line
from batchai_magics.metrics.reading.joined_lines import split_behind_bars, split_joined
from batchai_magics.metrics.reading.line_plan import (
    Groups,
    Layout,
    LineClock,
    LinePlan,
    layout_of,
)
from batchai_magics.metrics.reading.run_facts import may_tell_facts
from batchai_magics.metrics.timestamps import (
    DIGITS,
    DIGITS_TO_ZERO,
    GLOG,
    MIN_TIMESTAMP_BYTES,
    timestamp_slices,
)

_MAX_SKELETONS = 1 << 16
_MAX_BYTES = 32 << 20  # of all skeletons
_MAX_LAYOUTS = 64
_MIN_LEAD_BYTES = 3
_MAX_FORMS = 256  # of the parts of a joined line, each of which the grammar reads
_RUN = re.compile(rb"\d+")
_RULE = re.compile(rb"-{8,}|={8,}")
_NAMED_TIME = re.compile(rb"\b(?:timestamp|time|ts)=")


class PlanMatch(NamedTuple):
    """The plan of a line, and the texts of its groups."""

    plan: LinePlan
    groups: Groups


class SkeletonPlans:
    """How the lines of a skeleton are read.

    `opens_table`: a line may be the edge or the header of a table. `is_joined`: several processes wrote lines
    without a newline between. `tells_facts`: a line may tell facts of the run. `is_rule`: it is all dashes.
    """

    __slots__ = ("_silent", "is_joined", "is_rule", "layouts", "opens_table", "tells_facts")

    def __init__(self, line: bytes) -> None:
        self.layouts: list[Layout] = []
        self.tells_facts = may_tell_facts(line)
        may_open = not self.tells_facts and MAY_BE_TABLE.search(line) is not None
        self.opens_table = may_open and may_open_table(line[row_begin(line) :])
        self.is_rule = _RULE.fullmatch(line) is not None
        self.is_joined = False
        self._silent: set[bytes] = set()

    def find(self, line: bytes) -> PlanMatch | None:
        """The plan and the groups of a line; None if no known plan matches."""
        for layout in self.layouts:
            if match := layout.expression.fullmatch(line):
                groups = match.groups(b"")
                if plan := layout.plan_at(layout.keys_of([b"", *groups], [line])[0]):
                    return PlanMatch(plan, groups)
        return None

    def has_nothing(self, line: bytes) -> bool:
        """Whether an earlier line with digits in the same places had nothing to read."""
        return _without_digits(line) in self._silent

    def silence(self, line: bytes) -> None:
        """Remember that lines with digits in the same places have nothing to read."""
        if len(self._silent) >= _MAX_LAYOUTS:
            self._silent.clear()
        self._silent.add(_without_digits(line))


class PlanCache:
    """The plans of one file's lines by skeleton; None for a skeleton with nothing to read."""

    def __init__(self, *, are_labels_ranks: bool = False) -> None:
        self._are_labels_ranks = are_labels_ranks
        self.known: dict[bytes, SkeletonPlans | None] = {b"": None}
        self._size_bytes = 0
        self._by_meaning: dict[Hashable, LinePlan] = {}
        self._alike: dict[LinePlan, LinePlan] = {}

    def alike(self, plan: LinePlan) -> LinePlan:
        """The plan that stands for all with its meaning."""
        alike = self._alike.get(plan)
        if alike is None:
            alike = self._alike[plan] = self._by_meaning.setdefault(plan.meaning, plan)
        return alike

    def silence(self, skeletons: Iterable[bytes]) -> None:
        """Remember that lines of these skeletons have no number to read."""
        for skeleton in skeletons:
            self._add(skeleton, None)

    def of(self, line: bytes) -> SkeletonPlans | None:
        """The plans for the skeleton of a line that may matter; None if it has nothing to read."""
        skeleton = line.translate(None, DIGITS)
        if skeleton in self.known:
            return self.known[skeleton]
        plans = SkeletonPlans(line)
        self._add(skeleton, plans)
        return plans

    def _add(self, skeleton: bytes, plans: SkeletonPlans | None) -> None:
        self._size_bytes += len(skeleton)
        if len(self.known) >= _MAX_SKELETONS or self._size_bytes > _MAX_BYTES:
            self.known.clear()
            self._by_meaning.clear()
            self._alike.clear()
            self.known[b""], self._size_bytes = None, len(skeleton)
        self.known[skeleton] = plans

    def find(self, plans: SkeletonPlans, line: bytes) -> PlanMatch | None:
        """The plan of a line, learned if it is new; None if the line has nothing to read or is joined."""
        match = plans.find(line)
        if match or plans.has_nothing(line):
            return match
        if self.parts_of(line):
            plans.is_joined = True
            return None
        plain = plain_line(line)
        reading = self._read(line, plain)
        if reading is None:
            plans.silence(line)
            return None
        layout = layout_of(line, reading, plain=plain, clock=clock_of(line, reading))
        return self._remember(plans, line, layout, reading, plain)

    def is_complete(self, line: bytes, plan: LinePlan) -> bool:
        """Whether a line without its newline is complete: no known plan continues its metrics."""
        if not plan.reading.is_self_terminating or line[-1:].isspace():
            return False
        count = len(plan.metrics)
        layouts = chain.from_iterable(plans.layouts for plans in self.known.values() if plans)
        known = chain.from_iterable(layout.plans.values() for layout in layouts)
        return not any(
            len(other.metrics) > count and other.metrics[:count] == plan.metrics for other in known
        )

    def parts_of(self, line: bytes) -> list[bytes]:
        """The parts of lines that several processes wrote without a newline between; empty for one line."""
        lead = _RUN.split(line, maxsplit=1)[0]
        if len(lead.strip()) >= _MIN_LEAD_BYTES and line.count(lead) > 1 and line.startswith(lead):
            parts = [lead + part for part in line.split(lead)[1:]]
            forms = {_without_digits(part): part for part in parts}
            readings = map(self._read, forms.values() if len(forms) <= _MAX_FORMS else ())
            are_steps = all(reading and reading.kind is LineKind.STEP for reading in readings)
            if len(forms) <= _MAX_FORMS and are_steps:
                return parts
        if (parts := split_behind_bars(line)) and self._is_read_apart(line, parts):
            return parts
        parts = split_joined(line)
        is_left_out = sum(map(len, parts)) < len(line)
        return parts if is_left_out or (len(parts) > 1 and any(map(_is_of_program, parts))) else []

    def _is_read_apart(self, line: bytes, parts: Sequence[bytes]) -> bool:
        """Whether the text after a progress bar has numbers that the line as a whole does not give."""
        whole, behind = self._read(line), self._read(parts[-1])
        if behind is None or behind.kind is LineKind.HEADING or not behind.numbers:
            return False
        return whole is None or all(number.end <= len(parts[0]) for number in whole.numbers)

    def tells_rank_label(self, line: bytes) -> bool:
        """Whether a line is the first to show that numbers in front of lines are ranks.

        It has such a number and a position, as printed by `srun -l`: `3: Epoch 2: loss 0.5`.
        """
        label = None if self._are_labels_ranks else NUMBER_IN_FRONT.match(line)
        reading = read_line(line) if label and may_matter(line) else None
        if label is None or reading is None:
            return False
        return reading.rank == label.span("rank") and (reading.step or reading.epoch) is not None

    def _read(self, line: bytes, plain: bytes | None = None) -> ParsedLine | None:
        plain = plain_line(line) if plain is None else plain
        if is_too_long(line) or not may_matter(plain):
            return None
        reading = read_line(plain, are_labels_ranks=self._are_labels_ranks)
        is_open = is_undecided(plain) and (reading is None or reading.kind is LineKind.HEADING)
        return None if is_open else reading

    def _remember(
        self,
        plans: SkeletonPlans,
        line: bytes,
        layout: Layout,
        reading: ParsedLine,
        plain: bytes,
    ) -> PlanMatch | None:
        known = next((other for other in plans.layouts if other.has_groups_of(layout)), None)
        if known is None:
            if len(plans.layouts) >= _MAX_LAYOUTS:
                plans.layouts.clear()
            plans.layouts.append(layout)
        layout = known or layout
        match = layout.expression.fullmatch(line)
        if match is None:
            return None
        groups = match.groups(b"")
        plan = LinePlan.of(layout, reading, line, plain)
        (key,) = layout.keys_of([b"", *groups], [line])
        layout.plans[key] = plan
        return PlanMatch(plan, groups)


def _is_of_program(part: bytes) -> bool:
    """Whether a part of a joined line is a line of a known program, or may tell facts of the run."""
    begin = read_prefixes(part).begin
    is_object = part.startswith(b'{"', begin)
    return is_object or read_program_line(part, (begin, 0)) is not None or may_tell_facts(part)


def _without_digits(line: bytes) -> bytes:
    """The form shared by lines that are read alike: all digits zero, and marked if commas are decimal."""
    mark = b"\n" if b"," in line and has_decimal_commas(line) else b""
    return line.translate(DIGITS_TO_ZERO) + mark


def clock_of(line: bytes, reading: ParsedLine) -> LineClock:
    """Where a line that the grammar reads has its time."""
    end = reading.prefix_end
    is_named = _NAMED_TIME.search(line) is not None
    if end < MIN_TIMESTAMP_BYTES - 4:
        return LineClock(is_named=is_named)
    stamp = timestamp_slices(line[:end].translate(DIGITS_TO_ZERO), 0, end)
    glog = GLOG.match(line) if stamp is None else None
    has_year = glog is not None and glog["year"] is not None
    return LineClock(stamp, 0 if glog else -1, is_named, has_year)
