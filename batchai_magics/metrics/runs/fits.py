"""The fits of a run, such as folds, seeds and a refit: segments of its metrics, named by their headings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from batchai_magics.metrics.grammar.headings import REFIT
from batchai_magics.metrics.measurement import FIT, Fact


class Fit(NamedTuple):
    """A fit by its heading: which one of its rank's it is, and its name with those of outer headings."""

    number: int = 0
    name: str = ""


NO_FIT = Fit()


class FitHeadings:
    """The headings above each number, as records come: those of its rank, else those of any rank."""

    def __init__(self) -> None:
        self._names: dict[int | None, dict[str, str]] = {}  # of nested headings, by kind
        self._fits: dict[int | None, Fit] = {}
        self._latest = NO_FIT

    def enter(self, fact: Fact) -> None:
        """Enter a fact, which may be a heading. One that is printed again begins nothing."""
        if fact.key != FIT:
            return
        names = self._names.setdefault(fact.rank, {})
        kind = fact.value.partition(" ")[0]
        if [*names.values()][-1:] == [fact.value]:
            return
        outer = [] if REFIT in (kind, *names) else [*names]
        for inner in {*names}.difference(outer[: outer.index(kind)] if kind in outer else outer):
            del names[inner]
        names[kind] = fact.value
        number = self._fits.get(fact.rank, NO_FIT).number + 1
        self._latest = self._fits[fact.rank] = Fit(number, ", ".join(names.values()))

    def of(self, rank: int | None) -> Fit:
        """The fit that a number of a rank belongs to."""
        return self._fits.get(rank, self._latest) if self._fits else NO_FIT


@dataclass(slots=True)
class Segments:
    """The segments of a metric of one rank, as its values come.

    One begins where the position goes back, and where it repeats below another heading. It has the name of
    its heading; if it has none of its own, its number.
    """

    number: int = 0
    name: str = ""
    _last: float = 0.0  # position
    _fit: Fit = NO_FIT  # of the last value
    _first_fit: Fit = NO_FIT  # of the first value of the segment
    _names: set[str] = field(default_factory=set)

    def add(self, position: float, fit: Fit) -> bool:
        """Add the next value; whether a segment begins with it."""
        is_repeated = position == self._last and fit.number != self._fit.number
        begins = not self.number or position < self._last or is_repeated
        self._last, self._fit = position, fit
        if begins:
            self.number += 1
            has_own = self.number == 1 or fit.number != self._first_fit.number
            name = fit.name if has_own else ""
            if not name and self.number > 1:
                name = str(self.number)
            self.name = f"{name}, {self.number}" if name in self._names else name
            self._names.add(self.name)
            self._first_fit = fit
        return begins

    def follow(self, position: float) -> None:
        """Go on to a later position below the same heading."""
        self._last = position
