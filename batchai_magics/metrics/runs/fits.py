"""The fits of a log, such as folds, seeds and runs: segments of its metrics, named by their headings."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from batchai_magics.metrics.column import Column
from batchai_magics.metrics.grammar.headings import REFIT
from batchai_magics.metrics.measurement import ATTEMPT, FIT, Fact
from batchai_magics.metrics.measurement_table import MeasurementTable, Rank, indices_by_rank
from batchai_magics.metrics.runs.run_starts import RunStarts

NO_FIT = 0
"""The number of the fit above the first heading."""

_Change = tuple[int, int]  # a row, and the number of the fit from there on


class FitHeadings:
    """Numbers the fits of a log by their headings, incrementally. Each run of an attempt begins a fit.

    Attributes:
        names: The name of each fit, preceded by its outer headings.
    """

    def __init__(self) -> None:
        self.names = [""]
        self._numbers = {(0, ""): NO_FIT}  # by the count of its rank's headings, and its name
        self._nested: dict[Rank, dict[str, str]] = {}  # the names of nested headings, by kind
        self._counts: dict[Rank, int] = {}
        self._repeatable: dict[str, int] = {}  # the counts of the fits of earlier attempts, by name
        self._fits: dict[Rank, int] = {}  # the latest of each rank
        self._latest = NO_FIT
        self._starts = RunStarts()
        self._runs = [NO_FIT]  # the first fit of each run of an attempt
        self._run = 0  # the latest one
        self._least_count = 0  # of the headings in it

    def marked(self, table: MeasurementTable) -> MeasurementTable:
        """The next lines of the run with the fits of their ranks, or of any rank if theirs has none."""
        of_any: list[_Change] = [(-1, self._latest)]
        of_ranks = {rank: [(-1, fit)] for rank, fit in self._fits.items()}
        for row, fact in table.facts:
            if self.enter(fact):
                of_any.append((row, self._latest))
                of_ranks.setdefault(fact.rank, [])
                for rank in of_ranks if fact.key != FIT else [fact.rank]:
                    of_ranks[rank].append((row, self._latest))
        if len(self.names) == 1:
            return table
        return table.with_lines(
            replace(lines, fits=_fits_of(lines.rows, lines.ranks, of_any, of_ranks)) for lines in table.lines
        )

    def enter(self, fact: Fact) -> bool:
        """Take a fact; returns whether it starts another fit, which a repeated heading does not.

        A fit or a run that another attempt repeats is the same one.
        """
        if self._starts.is_next(fact):
            return self._enter_run(self._run + 1)
        if fact.key == ATTEMPT:
            self._repeatable = {name: count for count, name in self._numbers}
            return self._run > 0 and self._enter_run(0)
        if fact.key != FIT:
            return False
        names = self._nested.setdefault(fact.rank, {})
        kind = fact.value.partition(" ")[0]
        if [*names.values()][-1:] == [fact.value]:
            return False
        outer = [] if REFIT in (kind, *names) else [*names]
        for inner in {*names}.difference(outer[: outer.index(kind)] if kind in outer else outer):
            del names[inner]
        names[kind] = fact.value
        name = ", ".join(names.values())
        count = self._repeatable.get(name) or self._counts.get(fact.rank, self._least_count) + 1
        self._counts[fact.rank] = count
        fit = count, name
        if fit not in self._numbers:
            self._numbers[fit] = len(self.names)
            self.names.append(fit[1])
        self._latest = self._fits[fact.rank] = self._numbers[fit]
        return True

    def _enter_run(self, run: int) -> bool:
        """Enter a run of an attempt, in which all ranks are; returns that another fit starts."""
        if run == len(self._runs):
            self._least_count = max(count for count, _ in self._numbers) + 1
            self._runs.append(len(self.names))
            self._numbers[self._least_count, ""] = len(self.names)
            self.names.append("")
        self._run, self._latest = run, self._runs[run]
        self._nested.clear()
        self._counts.clear()
        self._fits = dict.fromkeys(self._fits, self._latest)
        return True


def fit_names(facts: Iterable[Fact]) -> Sequence[str]:
    """The names of the fits of a run with these facts, by their numbers."""
    headings = FitHeadings()
    for fact in facts:
        headings.enter(fact)
    return headings.names


def _fits_of(
    rows: Column, ranks: Column, of_any: Sequence[_Change], of_ranks: dict[Rank, list[_Change]]
) -> Column:
    """The fit of each line, given where those of any rank and of each rank begin."""
    fits = [NO_FIT] * len(rows)
    for rank, indices in indices_by_rank(ranks).items():
        changes = of_ranks.get(rank, [])
        before = of_any[: bisect_left(of_any, changes[0][0], key=itemgetter(0))] if changes else of_any
        rank_rows = rows.at(indices)
        for (begin, fit), (end, _) in pairwise([*before, *changes, (rows[-1] + 1, NO_FIT)]):
            for index in range(bisect_left(rank_rows, begin), bisect_left(rank_rows, end)):
                fits[indices[index]] = fit
    return Column(fits)


class Segment(NamedTuple):
    """The values of a segment: those from index `begin` up to, but excluding, `end`."""

    begin: int
    end: int
    number: int
    name: str


@dataclass(slots=True)
class Segments:
    """Splits the values of a metric of one rank into segments; `fit_names` are those of its run.

    One begins where the position goes back, and where it repeats below another heading. It has the name of
    its heading; if it has none of its own, its number. The last one of `max_count` has all further values.
    """

    fit_names: Sequence[str]
    max_count: int = sys.maxsize
    _number: int = 0
    _name: str = ""
    _last: float = 0.0  # position
    _fit: int = NO_FIT  # of the last value
    _first_fit: int = NO_FIT  # of the first value of the segment
    _names: set[str] = field(default_factory=set)

    def split(self, positions: Sequence[float], fits: Sequence[int], *, is_rising: bool) -> list[Segment]:
        """The next values, by segment; the first of them may go on with the one before.

        `is_rising`: they are of one fit and never fall, so that only the first one can begin a segment.
        """
        if is_rising:
            self._begins_with(positions[0], fits[0])
            self._last = positions[-1]
            return [Segment(0, len(positions), self._number, self._name)]
        segments = list[Segment]()
        for index, (position, fit) in enumerate(zip(positions, fits, strict=True)):
            if self._begins_with(position, fit) or not segments:
                segments[-1:] = [segment._replace(end=index) for segment in segments[-1:]]
                segments.append(Segment(index, len(positions), self._number, self._name))
        return segments

    def _begins_with(self, position: float, fit: int) -> bool:
        """Take the next value; returns whether a segment begins with it."""
        is_repeated = position == self._last and fit != self._fit
        begins = not self._number or position < self._last or is_repeated
        self._last, self._fit = position, fit
        if not begins or self._number == self.max_count:
            return False
        self._number += 1
        has_heading = self._number == 1 or fit != self._first_fit
        name = self.fit_names[fit] if has_heading else ""
        if not name and self._number > 1:
            name = str(self._number)
        self._name = f"{name}, {self._number}" if name in self._names else name
        self._names.add(self._name)
        self._first_fit = fit
        return True
