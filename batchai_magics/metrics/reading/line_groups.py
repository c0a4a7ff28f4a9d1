"""Groups the lines of a block by their plans, and turns the numbers of each group into columns."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import Any

from batchai_magics.metrics.formats.format_table import LINE_TEXTS
from batchai_magics.metrics.grammar.line_interest import interest_in, may_matter
from batchai_magics.metrics.grammar.line_reading import Kind
from batchai_magics.metrics.grammar.metric_names import split_phase
from batchai_magics.metrics.grammar.position_grammar import count
from batchai_magics.metrics.reading.line_plan import DIGITS, Groups, Layout, LinePlan, PlanKey
from batchai_magics.metrics.reading.plan_cache import PlanCache, SkeletonPlans
from batchai_magics.metrics.reading.process_lines import LineSpan
from batchai_magics.metrics.reading.readings import LineGroup
from batchai_magics.metrics.reading.timestamps import Timestamp, WriteClock, json_timestamp, wall_time

_MANY_LINES = 4  # which one search reads faster than one for each
_NAMED_TIME = re.compile(rb"\b(?:timestamp|time|ts)=([\d.:TZ+-]{9,64})(?=[\s,;|]|\Z)")
_UNKNOWN: SkeletonPlans | None = SkeletonPlans(b"")


@dataclass(slots=True)
class Lines:
    """Successive lines of a file without their ends; `ends` are offsets in the file.

    `rank` is that of all lines, None if they tell it; a tag may tell the rank and the time of each. `first`
    is the number of the first line in its file. `is_continued`: the first is the rest of a line that was too
    long. `has_end`: the last one has its newline. `raw` are the lines with their tags.
    """

    texts: list[bytes]
    ends: Sequence[int]
    rank: int | None
    first: int
    default_rank: int | None = None
    ranks: list[int | None] | None = None
    stamps: list[Timestamp | None] | None = None
    raw: list[bytes] | None = None
    is_continued: bool = False
    has_end: bool = True
    _joined: bytes | None = None

    @property
    def joined(self) -> bytes:
        """The lines with newlines between them."""
        if self._joined is None:
            self._joined = b"\n".join(self.texts)
        return self._joined

    def rank_at(self, row: int) -> int | None:
        """The rank of a line, as far as its file or its tag tells it."""
        return self.rank if self.ranks is None else self.ranks[row]

    def stamp_at(self, row: int) -> Timestamp | None:
        """The time in a line's tag."""
        return None if self.stamps is None else self.stamps[row]

    def is_whole(self, row: int) -> bool:
        """Whether a line has its beginning and its end."""
        return not (self.is_continued and row == 0) and (self.has_end or row < len(self.texts) - 1)

    def slice(self, begin: int, end: int) -> Lines:
        """Some of the lines."""
        return replace(
            self,
            texts=self.texts[begin:end],
            ends=self.ends[begin:end],
            first=self.first + begin,
            ranks=self.ranks and self.ranks[begin:end],
            stamps=self.stamps and self.stamps[begin:end],
            raw=self.raw and self.raw[begin:end],
            _joined=None,
        )

    @property
    def span(self) -> LineSpan:
        """The lines, numbered as in their file."""
        return LineSpan(self.first, self.raw or self.texts, self.rank, self.default_rank)


class PlanLines:
    """The lines of one plan in a block: their rows, the groups of each, and their numbers as columns.

    `next_place` is that of the first line which was not read in its turn, `kept` are the places of those with
    numbers to keep.
    """

    __slots__ = (
        "_rows_of_values",
        "columns",
        "found",
        "is_member",
        "is_of_bar",
        "is_simple",
        "kept",
        "next_place",
        "plan",
        "rows",
    )

    def __init__(self, plan: LinePlan) -> None:
        self.plan = plan
        self.rows: Sequence[int] = []
        self.found: list[Groups] = []
        self.columns = LineGroup(plan.metrics)
        self.is_simple, self.is_of_bar, self.is_member = _is_simple(plan), is_of_bar(plan), _is_member(plan)
        self.next_place = 0
        self.kept: list[int] = []
        self._rows_of_values: list[tuple[float, ...]] | None = None

    def add(self, rows: Sequence[int], found: list[Groups]) -> None:
        """Add lines that follow those that are there."""
        self.rows = [*self.rows, *rows] if self.found else rows
        self.found = self.found + found if self.found else found

    def add_line(self, row: int, found: Groups) -> None:
        """Add one line."""
        if not isinstance(self.rows, list):
            self.rows = [*self.rows]
        self.rows.append(row)
        self.found.append(found)

    @property
    def values(self) -> list[tuple[float, ...]]:
        """The numbers of each line."""
        if self._rows_of_values is None:
            self._rows_of_values = [*zip(*self.columns.values, strict=True)] or [()] * len(self.rows)
        return self._rows_of_values

    def read(self, lines: Lines) -> None:
        """Turn the texts of the numbers into columns, without times."""
        plan, rows, read = self.plan, self.rows, self.columns
        layout, size = plan.layout, len(rows)
        nothing: list[Any] = [None] * size
        read.rows = rows
        read.steps = [*nothing] if layout.step < 0 else self._counts(layout.step, count)
        read.epochs = [*nothing] if layout.epoch < 0 else self._counts(layout.epoch, layout.count_epoch)
        if lines.ranks or (layout.rank >= 0 and lines.rank is not None):
            read.ranks = [
                rank_of(lines, row, plan, found) for row, found in zip(rows, self.found, strict=True)
            ]
        else:
            read.ranks = [lines.rank] * size if layout.rank < 0 else [*map(int, self._texts(layout.rank))]
        is_all = size == len(lines.texts)
        read.ends = [*lines.ends] if is_all else [lines.ends[row] for row in rows]
        read.times = nothing
        read.values = [
            array("d", map(convert, self._texts(place)))
            for convert, place in zip(plan.converters, layout.numbers, strict=True)
        ]

    def _counts(self, place: int, convert: Callable[[bytes], Any]) -> list[Any]:
        """The numbers in a group of the expression, most of which are integers."""
        if convert is not float:
            with suppress(ValueError):
                return [*map(int, self._texts(place))]
        return [*map(convert, self._texts(place))]

    def _texts(self, place: int) -> Iterable[bytes]:
        """The texts of a group of the expression."""
        return map(itemgetter(place), self.found)

    def times(self, lines: Lines, clock: WriteClock | None) -> list[float | None]:
        """When each line was printed, as far as no line above tells it."""
        columns, layout = self.columns, self.plan.layout
        if layout.clock.glog_at >= 0 or (clock is None and lines.stamps is None and layout.is_timeless):
            return columns.times
        if clock is None and lines.stamps is None and layout.has_only_stamp and layout.clock.stamp:
            return layout.clock.stamp.seconds_of(self._lines_of(lines.texts))
        stamps = self.timestamps(lines)
        if clock is None:
            return [stamp and stamp.seconds for stamp in stamps]
        return [wall_time(stamp, clock.at(end)) for stamp, end in zip(stamps, columns.ends, strict=True)]

    def timestamps(self, lines: Lines) -> Sequence[Timestamp | None]:
        """The time that each line tells, but for one in glog's form."""
        layout, texts = self.plan.layout, self._lines_of(lines.texts)
        times: Sequence[Timestamp | None] = [None] * len(texts)
        if layout.clock.stamp is not None:
            times = [*map(layout.clock.stamp.parse, texts)]
        if layout.clock.is_named:
            named = map(_NAMED_TIME.search, texts)
            times = [
                _json_timestamp(found[1]) if found else time for found, time in zip(named, times, strict=True)
            ]
        if layout.seconds >= 0 and any(self._texts(layout.seconds)):
            told = map(_json_timestamp, self._texts(layout.seconds))
            times = [own or time for own, time in zip(told, times, strict=True)]
        if lines.stamps:
            times = [time or lines.stamps[row] for row, time in zip(self.rows, times, strict=True)]
        return times

    def _lines_of(self, texts: Sequence[bytes]) -> Sequence[bytes]:
        return texts if len(self.rows) == len(texts) else [texts[row] for row in self.rows]


class Block:
    """Lines taken apart: those of each plan, and the single ones that are read in their turn."""

    def __init__(self, lines: Lines, cache: PlanCache) -> None:
        self.lines = lines
        self.single: dict[int, SkeletonPlans] = {}
        self.groups: list[PlanLines] = []
        self._cache = cache
        self._by_plan: dict[int, PlanLines] = {}
        for plans, rows in self._by_skeleton().items():
            self._add(plans, rows)
        self.groups = [*self._by_plan.values()]
        for group in self.groups:
            group.read(lines)

    def owners(self) -> list[PlanLines | SkeletonPlans | None]:
        """Who reads each line: those of its plan, or code; None for a line with nothing to read."""
        owners: list[PlanLines | SkeletonPlans | None] = [None] * len(self.lines.texts)
        for group in self.groups:
            for row in group.rows:
                owners[row] = group
        for row, plans in self.single.items():
            owners[row] = plans
        return owners

    def _by_skeleton(self) -> Mapping[SkeletonPlans, Sequence[int]]:
        """The rows of lines that may matter, by their skeletons."""
        known = self._cache.known
        skeletons = self.lines.joined.translate(None, DIGITS).split(b"\n")
        if skeletons.count(skeletons[0]) == len(skeletons):
            plans = known.get(skeletons[0], _UNKNOWN)
            if plans is not _UNKNOWN:
                return {plans: range(len(skeletons))} if plans else {}
        rows = defaultdict[SkeletonPlans, list[int]](list)
        unknown = defaultdict[bytes, list[int]](list)
        for row, skeleton in enumerate(skeletons):
            plans = known.get(skeleton, _UNKNOWN)
            if plans is _UNKNOWN:
                unknown[skeleton].append(row)
            elif plans is not None:
                rows[plans].append(row)
        if unknown:
            self._learn(unknown, rows)
        return rows

    def _learn(self, unknown: dict[bytes, list[int]], rows: dict[SkeletonPlans, list[int]]) -> None:
        """Add the rows of new skeletons of which a line may matter; others that repeat are remembered."""
        texts = self.lines.texts
        found = self._interesting([own[0] for own in unknown.values()])
        found |= self._interesting(
            [row for own in unknown.values() if own[0] not in found for row in own[1:]]
        )
        silent = []
        for skeleton, own in unknown.items():
            first = next((row for row in own if row in found), None)
            if first is None:
                silent.append(skeleton)
            elif plans := self._cache.of(texts[first]):
                rows[plans] = own
        if len(silent) <= _MANY_LINES or 2 * len(silent) < sum(map(len, unknown.values())):
            self._cache.silence(each for each in silent if not may_matter(each))  # with any digits

    def _interesting(self, rows: Sequence[int]) -> set[int]:
        lines = [self.lines.texts[row] for row in rows]
        ends = [*accumulate([len(line) + 1 for line in lines])]
        return {rows[place] for place in interest_in(b"\n".join(lines), ends, LINE_TEXTS)}

    def _add(self, plans: SkeletonPlans, rows: Sequence[int]) -> None:
        lines = self.lines
        if plans.opens_table or not (lines.has_end and not lines.is_continued):
            self.single |= dict.fromkeys(rows, plans)
            return
        if len(rows) >= _MANY_LINES:
            rows = self._add_at_once(plans, rows)
        for row in rows:
            self._add_line(plans, row)

    def _add_line(self, plans: SkeletonPlans, row: int) -> None:
        found = self._cache.find(plans, self.lines.texts[row])
        if found:
            self._group(found[0]).add_line(row, found[1])
        elif plans.has_code:
            self.single[row] = plans

    def _add_at_once(self, plans: SkeletonPlans, rows: Sequence[int]) -> Sequence[int]:
        """Read lines with one search for each layout; gives the rows that are left."""
        if not plans.layouts:
            self._add_line(plans, rows[0])
            rows = rows[1:]
        unread: list[int] = []
        for layout in plans.layouts:
            if len(rows) < _MANY_LINES:
                break
            joined = self._joined(rows)
            found = layout.expression.findall(joined)
            others: Sequence[int] = []
            if len(found) != len(rows):
                rows, others = self._matching(layout, joined, rows)
            unread += self._add_found(layout, rows, found)
            rows = others
        return sorted([*unread, *rows]) if unread else rows

    def _joined(self, rows: Sequence[int]) -> bytes:
        lines = self.lines
        return (
            lines.joined if len(rows) == len(lines.texts) else b"\n".join([lines.texts[row] for row in rows])
        )

    def _matching(
        self, layout: Layout, joined: bytes, rows: Sequence[int]
    ) -> tuple[Sequence[int], Sequence[int]]:
        """The rows of lines of a layout, and the other rows."""
        starts = accumulate([len(self.lines.texts[row]) + 1 for row in rows], initial=0)
        row_at = dict(zip(starts, rows, strict=False))
        matching = [row_at.pop(match.start()) for match in layout.expression.finditer(joined)]
        return matching, [*row_at.values()]

    def _add_found(self, layout: Layout, rows: Sequence[int], found: list[Groups]) -> list[int]:
        """Add lines of a layout; gives the rows of those whose plan is not known."""
        if not found:
            return []
        keys = layout.keys_of(found, map(self.lines.texts.__getitem__, rows))
        parts = {keys[0]: (rows, found)} if keys.count(keys[0]) == len(keys) else _by_key(keys, rows, found)
        left: list[int] = []
        for key, (own_rows, own_found) in parts.items():
            plan = layout.plan_at(key)
            if plan is None:
                left += own_rows
            else:
                self._group(plan).add(own_rows, own_found)
        return left

    def _group(self, plan: LinePlan) -> PlanLines:
        group = self._by_plan.get(id(plan))
        if group is None:
            group = self._by_plan[id(plan)] = PlanLines(plan)
        return group


def _by_key(
    keys: Sequence[PlanKey], rows: Sequence[int], found: Sequence[Groups]
) -> Mapping[PlanKey, tuple[list[int], list[Groups]]]:
    """The rows and groups of each key."""
    parts: defaultdict[PlanKey, tuple[list[int], list[Groups]]] = defaultdict(lambda: ([], []))
    for key, row, groups in zip(keys, rows, found, strict=True):
        own_rows, own_found = parts[key]
        own_rows.append(row)
        own_found.append(groups)
    return parts


@lru_cache(4096)
def _json_timestamp(text: bytes) -> Timestamp | None:
    return json_timestamp(text.decode())


def _is_simple(plan: LinePlan) -> bool:
    """Whether a line depends on nothing but the epoch above it."""
    reading = plan.reading
    if reading.kind is Kind.STEP:
        return plan.layout.step >= 0 and not reading.is_bar
    return reading.kind is Kind.OBJECT or reading.kind is Kind.BENCHMARK


def is_of_bar(plan: LinePlan) -> bool:
    """Whether a line is a printed dict whose step only a bar tells."""
    reading = plan.reading
    return reading.is_dict and reading.step is None and reading.kind is Kind.STEP


def _is_member(plan: LinePlan) -> bool:
    """Whether a line is one number of a block, in the phase of that."""
    reading = plan.reading
    is_one = (
        reading.kind is Kind.LOOSE
        and reading.is_member
        and len(plan.metrics) == 1
        and plan.layout.clock.glog_at < 0
    )
    return is_one and not split_phase(plan.metrics[0].name)[0]


def rank_of(lines: Lines, row: int, plan: LinePlan, groups: Groups) -> int | None:
    """The rank of a line."""
    rank = lines.rank_at(row)
    place = plan.layout.rank
    if place >= 0 and (rank is None or (plan.reading.kind is Kind.OBJECT and plan.reading.is_member)):
        return int(groups[place])
    return rank
