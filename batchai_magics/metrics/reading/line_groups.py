"""Turns the numbers of a block's lines into columns, and groups the lines by what their plans mean."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain, repeat
from typing import Any, TypeVar, cast

from batchai_magics.metrics.column import Column
from batchai_magics.metrics.grammar.line_interest import has_interest, interest_in, may_matter
from batchai_magics.metrics.grammar.parsed_line import LineKind
from batchai_magics.metrics.grammar.prefix_grammar import row_start
from batchai_magics.metrics.measurement import MetricName, Record, measurement
from batchai_magics.metrics.measurement_table import LineColumns
from batchai_magics.metrics.reading.line_plan import Converter, Groups, Layout, LinePlan, PlanKey
from batchai_magics.metrics.reading.line_splitter import Lines
from batchai_magics.metrics.reading.plan_cache import PlanCache, SkeletonPlans
from batchai_magics.metrics.reading.run_facts import FACT_LITERALS
from batchai_magics.metrics.timestamps import (
    DIGITS,
    DIGITS_TO_ZERO,
    MIN_TIMESTAMP_BYTES,
    Timestamp,
    WriteClock,
    json_timestamp,
    timestamp_slices,
    wall_time,
)

MAX_TABLE_LINE_BYTES = 8 * 1024
_MANY_LINES = 4  # from which on one search for all is faster than one per line
_NAMED_TIME = re.compile(rb"\b(?:timestamp|time|ts)=([\d.:TZ+-]{9,64})(?=[\s,;|]|\Z)")
_MAX_TIME_BYTES = 64  # of a field
_COLUMNS = "rows", "ranks", "ends", "steps", "epochs", "times", "stamps", "totals"  # beside `values`
_Key = TypeVar("_Key")
_UNKNOWN: SkeletonPlans | None = SkeletonPlans(b"")


class PlanLines:
    """The lines of one plan in a block: their rows, their texts, and their numbers as columns.

    Converted, they may be those of all plans with one meaning.

    `rank` is the rank of all lines; None if they have several or none. `is_ranked`: some have a rank.
    `texts` has for each line the text before it, then its groups. `next_index` is the index of the first line
    not yet entered in order. `stamps` are times in other forms on lines that begin with glog's. `totals` are
    the texts of the totals beside the steps.
    """

    __slots__ = (
        "_renamed", "ends", "epochs", "is_ranked", "kept_indices", "lines", "next_index", "plan", "rank",
        "ranks", "rows", "stamps", "steps", "texts", "times", "totals", "values",
    )  # fmt: skip

    steps: list[int | None]
    epochs: list[float | None]
    ends: list[int]
    times: list[float | None]
    stamps: Sequence[Timestamp | None]
    totals: Groups
    values: list[Sequence[float]]

    def __init__(self, plan: LinePlan, lines: Lines) -> None:
        self.plan, self.lines = plan, lines
        self.rows: Sequence[int] = []
        self.texts: list[bytes] = []
        self.ranks: list[int | None] = []
        self.rank: int | None = None
        self.is_ranked = False
        self.next_index = 0
        self.kept_indices: list[int] = []  # of lines whose numbers are kept
        self._renamed: dict[tuple[MetricName, ...], list[int]] = {}  # the same, as other metrics

    def add(self, rows: Sequence[int], texts: list[bytes], ranks: list[int | None]) -> None:
        """Append lines."""
        if not self.texts:
            self.rows, self.texts, self.ranks = rows, texts, ranks
            return
        if not isinstance(self.rows, list):
            self.rows = [*self.rows]
        self.rows.extend(rows)
        self.texts += texts
        self.ranks += ranks

    def keep(self, indices: Sequence[int], metrics: tuple[MetricName, ...]) -> None:
        """Keep the numbers of lines as these metrics: the plan's, or others."""
        if metrics is self.plan.metrics:
            self.kept_indices += indices
        else:
            self._renamed.setdefault(metrics, []).extend(indices)

    @property
    def labelled_row(self) -> int | None:
        """The row of the first line without a tag if the lines print their rank and are not simple."""
        if self.plan.layout.rank < 0 or self.plan.is_simple:
            return None
        return next((row for row in self.rows if self.lines.rank_at(row) is None), None)

    @property
    def indices_by_metrics(self) -> Iterator[tuple[tuple[MetricName, ...], Sequence[int]]]:
        """The metrics of the numbers to keep, each with the indices of its lines."""
        if self.kept_indices and self.plan.metrics:
            yield self.plan.metrics, self.kept_indices
        yield from self._renamed.items()

    def lines_at(self, metrics: tuple[MetricName, ...], indices: Sequence[int]) -> LineColumns:
        """The numbers of some of the lines, as these metrics."""
        lists = (self.rows, self.steps, self.epochs, self.ranks, self.ends, self.times)
        columns = [*map(Column, lists), *(Column(array("d", values)) for values in self.values)]
        if len(indices) < len(self.rows):
            columns = [column.take(indices) for column in columns]
        return LineColumns.at_steps(metrics, *columns)

    def measurements(self) -> Iterator[tuple[int, list[Record]]]:
        """The row of each line with numbers to keep, and these as records."""
        for metrics, indices in self.indices_by_metrics:
            for index in indices:
                position = (
                    self.steps[index],
                    self.epochs[index],
                    self.ranks[index],
                    self.ends[index],
                    self.times[index],
                )
                yield (
                    self.rows[index],
                    [
                        measurement((name, column[index], unit, *position, phase))
                        for (name, unit, phase), column in zip(metrics, self.values, strict=True)
                    ],
                )

    def numbers(self, index: int) -> list[tuple[MetricName, float]]:
        """The numbers of a line."""
        return [*zip(self.plan.metrics, [column[index] for column in self.values], strict=True)]

    def convert(self, clock: WriteClock | None) -> None:
        """Turn the texts of the numbers into columns; `clock` tells when the lines were written."""
        plan, rows, lines = self.plan, self.rows, self.lines
        layout, size = plan.layout, len(rows)
        nothing: list[Any] = [None] * size
        self.steps = (
            [*nothing] if layout.step < 0 else _converted(self._column(layout.step), layout.count_step)
        )
        self.epochs = (
            [*nothing] if layout.epoch < 0 else _converted(self._column(layout.epoch), layout.count_epoch)
        )
        self.ends = [*lines.ends] if size == len(lines.texts) else [lines.ends[row] for row in rows]
        self.rank = self.ranks[0] if self.ranks.count(self.ranks[0]) == size else None
        self.is_ranked = self.ranks.count(None) < size
        self.totals = self._column(layout.total) if layout.total >= 0 else ()
        self.values = [
            _converted(self._column(group), convert)
            for convert, group in zip(plan.converters, layout.numbers, strict=True)
        ]
        self.times, self.stamps = nothing, ()
        if layout.clock.glog_at >= 0:
            self.stamps = self._stamps()
        elif not (clock is None and lines.stamps is None and layout.is_timeless):
            self.times = self._times(clock)

    def by_rank(self) -> Sequence[PlanLines]:
        """The converted lines of each rank; simple ones stay together."""
        if self.plan.is_simple or self.rank is not None or not self.is_ranked:
            return [self]
        return [*map(self._at, self.indices_by_rank().values())]

    def indices_by_rank(self) -> Mapping[int | None, Sequence[int]]:
        """The indices of the lines of each rank."""
        if self.rank is not None or not self.is_ranked:
            return {self.rank: range(len(self.ranks))}
        indices = defaultdict[int | None, list[int]](list)
        for index, rank in enumerate(self.ranks):
            indices[rank].append(index)
        return indices

    @classmethod
    def joined(cls, plan: LinePlan, groups: Sequence[PlanLines]) -> PlanLines:
        """The converted lines of groups whose plans have the meaning of this one, in order."""
        if len(groups) == 1:
            groups[0].plan = plan
            return groups[0]
        lines = cls(plan, groups[0].lines)
        for name in _COLUMNS:
            setattr(lines, name, [*chain.from_iterable(getattr(group, name) for group in groups)])
        of_metrics = zip(*(group.values for group in groups), strict=True)
        lines.values = [[*chain.from_iterable(columns)] for columns in of_metrics]
        return lines._at(sorted(range(len(lines.rows)), key=lines.rows.__getitem__))

    def _at(self, indices: Sequence[int]) -> PlanLines:
        """Some of the converted lines."""
        part = PlanLines(self.plan, self.lines)
        for name in _COLUMNS:
            column = getattr(self, name)
            setattr(part, name, [*map(column.__getitem__, indices)] if column else column)
        part.values = [[*map(column.__getitem__, indices)] for column in self.values]
        part.rank = part.ranks[0] if part.ranks.count(part.ranks[0]) == len(indices) else None
        part.is_ranked = part.ranks.count(None) < len(indices)
        return part

    def _column(self, group: int) -> Groups:
        """The texts of a group of the expression."""
        return self.plan.layout.column(self.texts, group)

    def _times(self, clock: WriteClock | None) -> list[float | None]:
        """When each line was printed."""
        is_unstamped = self.lines.stamps is None
        if clock is None and is_unstamped and not self.plan.layout.clock.is_named:
            return self._seconds()
        if clock and is_unstamped and self.plan.layout.is_timeless:
            return [*map(clock.at, self.ends)]
        stamps = self._stamps()
        if clock is None:
            return [stamp and stamp.seconds for stamp in stamps]
        return [wall_time(stamp, clock.at(end)) for stamp, end in zip(stamps, self.ends, strict=True)]

    def _seconds(self) -> list[float | None]:
        """The seconds since the epoch that each line tells in a prefix or a field."""
        # Keeps dense logs as fast as a loop of `re.search`: nested JSON 1.59 times, without 0.45
        layout, times = self.plan.layout, self.times
        if layout.clock.stamp is not None:
            times = layout.clock.stamp.seconds_of(self._own_texts)
        if layout.seconds < 0:
            return times
        field_times = _json_seconds(self._column(layout.seconds))
        if None not in field_times:
            return field_times
        return [
            prefix_time if field_time is None else field_time
            for field_time, prefix_time in zip(field_times, times, strict=True)
        ]

    def _stamps(self) -> Sequence[Timestamp | None]:
        """The time printed on each line or in its tag, except one in glog's form."""
        layout, texts, lines = self.plan.layout, self._own_texts, self.lines
        times: Sequence[Timestamp | None] = [None] * len(texts)
        if layout.clock.stamp is not None:
            times = [*map(layout.clock.stamp.parse, texts)]
        if layout.clock.is_named:
            named = map(_NAMED_TIME.search, texts)
            times = [
                _json_timestamp(match[1]) if match else time for match, time in zip(named, times, strict=True)
            ]
        if layout.seconds >= 0 and any(self._column(layout.seconds)):
            field_times = map(_json_timestamp, self._column(layout.seconds))
            times = [field_time or time for field_time, time in zip(field_times, times, strict=True)]
        if lines.stamps:
            times = [time or lines.stamps[row] for row, time in zip(self.rows, times, strict=True)]
        return times

    @property
    def _own_texts(self) -> Sequence[bytes]:
        texts = self.lines.texts
        return texts if len(self.rows) == len(texts) else [texts[row] for row in self.rows]


class Block:
    """Lines grouped by their plans, and the single ones, which are read one by one in order.

    `rows` are those of the lines to group.
    `rank_label`: the row of the first line which shows that numbers in front of lines are ranks; else None.
    `labels`: the row of the first line of each plan that prints the rank of a line without a tag.
    """

    def __init__(self, lines: Lines, cache: PlanCache, clock: WriteClock | None, rows: Sequence[int]) -> None:
        self.lines = lines
        self.rank_label: int | None = None
        self.single: dict[int, SkeletonPlans] = {}
        self.fact_rows: list[int] = []  # of lines that may tell facts
        self.labels: list[tuple[int, LinePlan]] = []
        self._cache = cache
        self._by_plan: dict[LinePlan, PlanLines] = {}
        for plans, own_rows in self._by_skeleton(rows).items():
            self.fact_rows += own_rows if plans.tells_facts else ()
            if plans.opens_table or not (lines.has_end and not lines.is_continued):
                self.single |= dict.fromkeys(own_rows, plans)
                continue
            for row in self._add_at_once(plans, own_rows):
                self._add_line(plans, row)
        self.groups = self._by_meaning(clock)

    def _by_meaning(self, clock: WriteClock | None) -> list[PlanLines]:
        """The converted lines of each meaning."""
        groups = defaultdict[LinePlan, list[PlanLines]](list)
        for plan, group in self._by_plan.items():
            if plan.layout.rank >= 0 and (row := group.labelled_row) is not None:
                self.labels.append((row, plan))
            group.convert(clock)
            groups[self._cache.alike(plan)].append(group)
        return [PlanLines.joined(plan, parts) for plan, parts in groups.items()]

    def separate_ranks(self) -> None:
        """Make the lines of each rank a group, except simple ones."""
        self.groups = [part for group in self.groups for part in group.by_rank()]

    def owners(self) -> list[PlanLines | SkeletonPlans | None]:
        """For each line, its group, or its skeleton if it is read alone; None if there is nothing to read."""
        owners: list[PlanLines | SkeletonPlans | None] = [None] * len(self.lines.texts)
        for group in self.groups:
            for row in group.rows:
                owners[row] = group
        for row, plans in self.single.items():
            owners[row] = plans
        rules = defaultdict[SkeletonPlans, list[int]](list)
        for row, plans in self.single.items():
            if plans.is_rule and self._is_alone(owners[row + 1 : row + 2], row + 1):
                rules[plans].append(row)
        for plans, rows in rules.items():
            match = self._cache.find(plans, self.lines.texts[rows[0]])
            if match and not match.groups:
                group = PlanLines(match.plan, self.lines)
                group.add(rows, [b""] * len(rows), [self.lines.rank] * len(rows))
                group.convert(None)
                for row in rows:
                    owners[row] = group
        return owners

    def _is_alone(self, below: Sequence[PlanLines | SkeletonPlans | None], row: int) -> bool:
        """Whether the line below a rule belongs to no table, so that the rule is not a table's edge."""
        if self.lines.ranks is not None or not below or not isinstance(below[0], PlanLines):
            return False
        text = self.lines.texts[row]
        return len(text) <= MAX_TABLE_LINE_BYTES and _is_no_row(text.translate(DIGITS_TO_ZERO))

    def plans_at(self, row: int) -> SkeletonPlans | None:
        """The skeleton of a line that is not grouped; None if there is nothing to read."""
        return next(iter(self._by_skeleton([row])), None)

    def _by_skeleton(self, rows: Sequence[int]) -> Mapping[SkeletonPlans, Sequence[int]]:
        """The rows of lines that may matter, by their skeletons."""
        known, count, texts = self._cache.known, len(rows), self.lines.texts
        joined = self.lines.joined if count == len(texts) else b"\n".join([texts[row] for row in rows])
        if count == 0 or (count > _MANY_LINES and not has_interest(joined, FACT_LITERALS)):
            return {}
        text = joined.translate(None, DIGITS)
        first = text[: text.find(b"\n")] if count > 1 else text
        if len(text) + 1 == count * (len(first) + 1) and text + b"\n" == (first + b"\n") * count:
            plans = known[first] if first in known else self._learn({first: rows}).get(first)
            return {plans: rows} if plans else {}
        known_rows, unknown = defaultdict[SkeletonPlans, list[int]](list), defaultdict[bytes, list[int]](list)
        skeletons = text.split(b"\n")
        for row, skeleton, plans in zip(
            rows, skeletons, map(known.get, skeletons, repeat(_UNKNOWN)), strict=True
        ):
            if plans is _UNKNOWN:
                unknown[skeleton].append(row)
            elif plans is not None:
                known_rows[plans].append(row)
        learned = self._learn(unknown) if unknown else {}
        return known_rows | {plans: unknown[skeleton] for skeleton, plans in learned.items() if plans}

    def _learn(self, unknown: Mapping[bytes, Sequence[int]]) -> Mapping[bytes, SkeletonPlans | None]:
        """The plans of new skeletons of which a line may matter; repeated others are cached as silent."""
        texts = self.lines.texts
        relevant = {*interest_in(texts, [rows[0] for rows in unknown.values()], FACT_LITERALS)}
        rest = [row for rows in unknown.values() if rows[0] not in relevant for row in rows[1:]]
        relevant.update(interest_in(texts, rest, FACT_LITERALS) if rest else ())
        firsts = {
            skeleton: next(filter(relevant.__contains__, rows))
            for skeleton, rows in (unknown.items() if relevant else ())
            if not relevant.isdisjoint(rows)
        }
        labels = (row for row in firsts.values() if self._cache.tells_rank_label(texts[row]))
        self.rank_label = min(labels, default=None)
        learned = {skeleton: self._cache.of(texts[row]) for skeleton, row in firsts.items()}
        silent_count = len(unknown) - len(learned)
        if silent_count <= _MANY_LINES or 2 * silent_count < sum(map(len, unknown.values())):
            silent = (skeleton for skeleton in unknown if skeleton not in learned)
            self._cache.silence(
                skeleton for skeleton in silent if not may_matter(skeleton)
            )  # with any digits
        return learned

    def _add_line(self, plans: SkeletonPlans, row: int) -> None:
        match = None if plans.is_joined else self._cache.find(plans, self.lines.texts[row])
        if match:
            self._add(match.plan, [row], [b"", *match.groups])
        elif plans.is_joined:
            self.single[row] = plans

    def _add_at_once(self, plans: SkeletonPlans, rows: Sequence[int]) -> Sequence[int]:
        """Add lines with one search per layout; return the rows of those that were not added."""
        # Keeps dense logs as fast as a loop of `re.search`: Transformers 1.18 times, without 0.65
        unread, tried = list[int](), 0
        while len(rows) >= _MANY_LINES:
            if tried >= len(plans.layouts):
                self._add_line(plans, rows[0])
                rows = rows[1:]
                if tried >= len(plans.layouts):
                    break
            layout = plans.layouts[tried]
            is_all, texts = len(rows) == len(self.lines.texts), self.lines.texts
            joined = self.lines.joined if is_all else b"\n".join([texts[row] for row in rows])
            texts = layout.expression.split(joined)
            del texts[-1]  # after the last line
            between, others = texts[:: layout.stride], list[int]()
            if len(between) != len(rows):
                matching = [rows[index] for index in accumulate([text.count(b"\n") for text in between])]
                rows, others = matching, sorted({*rows}.difference(matching))
            unread += self._add_matches(plans, layout, rows, texts)
            rows, tried = others, tried + 1
        return sorted([*unread, *rows]) if unread else rows

    def _add_matches(
        self, plans: SkeletonPlans, layout: Layout, rows: Sequence[int], texts: list[bytes]
    ) -> list[int]:
        """Add lines that match a layout; return the rows of those without a plan."""
        if not texts:
            return []
        keys = layout.keys_of(texts, map(self.lines.texts.__getitem__, rows))
        if keys.count(keys[0]) == len(keys):
            parts: Mapping[PlanKey, tuple[Sequence[int], list[bytes]]] = {keys[0]: (rows, texts)}
        else:
            parts = _by_key(keys, rows, texts)
        unread: list[int] = []
        for key, (key_rows, key_texts) in parts.items():
            if layout.plan_at(key) is None:
                self._cache.find(plans, self.lines.texts[key_rows[0]])
            plan = layout.plan_at(key)
            if plan is None:
                unread += key_rows
            else:
                self._add(plan, key_rows, key_texts)
        return unread

    def _add(self, plan: LinePlan, rows: Sequence[int], texts: list[bytes]) -> None:
        """Add lines of a plan."""
        group = self._by_plan.get(plan)
        if group is None:
            group = self._by_plan[plan] = PlanLines(plan, self.lines)
        group.add(rows, texts, ranks_of(plan, self.lines, rows, texts))


def ranks_of(plan: LinePlan, lines: Lines, rows: Sequence[int], texts: list[bytes]) -> list[int | None]:
    """The rank of each line of a plan: from its file or tag, else as printed on the line."""
    ranks = [lines.rank] * len(rows) if lines.ranks is None else [lines.ranks[row] for row in rows]
    if plan.layout.rank < 0:
        return ranks
    printed = map(int, plan.layout.column(texts, plan.layout.rank))
    has_precedence = plan.reading.kind is LineKind.OBJECT and plan.reading.is_member
    return [
        printed_rank if rank is None or has_precedence else rank
        for rank, printed_rank in zip(ranks, printed, strict=True)
    ]


@lru_cache(1024)
def _is_no_row(form: bytes) -> bool:
    """Whether a line has neither a prefix nor the cells of a table, whatever the values of its digits."""
    return not (b"|" in form or b"{'" in form) and row_start(form) == (0, None)


def _by_key(
    keys: Sequence[_Key], rows: Sequence[int], texts: list[bytes]
) -> Mapping[_Key, tuple[list[int], list[bytes]]]:
    """The rows and texts of the lines with each key."""
    parts: defaultdict[_Key, tuple[list[int], list[bytes]]] = defaultdict(lambda: ([], []))
    stride = len(texts) // len(rows)
    for index, (key, row) in enumerate(zip(keys, rows, strict=True)):
        key_rows, key_texts = parts[key]
        key_rows.append(row)
        key_texts += texts[index * stride : (index + 1) * stride]
    return parts


def _converted(texts: Groups, convert: Converter) -> list[Any]:
    """The texts as numbers, converted once if all are equal, as epochs and learning rates often are."""
    if texts[0] == texts[-1] and texts.count(texts[0]) == len(texts):
        number = convert(texts[:1])
        if number[0] == number[0]:  # each NaN is another one
            return number * len(texts)
    return convert(texts)


def _json_seconds(texts: Sequence[bytes | None]) -> list[float | None]:
    """The seconds since the epoch in a field of lines of one layout; None for what is no time."""
    # Keeps dense logs as fast as a loop of `re.search`: nested JSON 1.59 times, without 0.48
    shapes = {text and text.translate(DIGITS_TO_ZERO) for text in texts}
    if len(shapes) == 1 and (shape := shapes.pop()) and shape.isascii() and len(shape) >= MIN_TIMESTAMP_BYTES:
        slices = timestamp_slices(shape, 0, _MAX_TIME_BYTES)
        if slices:
            return slices.seconds_of(cast("Sequence[bytes]", texts))
    return [stamp and stamp.seconds for stamp in map(_json_timestamp, texts)]


@lru_cache(4096)
def _json_timestamp(text: bytes | None) -> Timestamp | None:
    return json_timestamp(text.decode()) if text else None
