"""How far a run is, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """`fraction` of all that a run has to do, between 0 and 1, and the same in the run's own words.

    `ends` is when it will be done, in seconds since 1970; None where nobody can tell. `is_of_epoch`: all
    this is of the epoch that runs, since the run does not say how many there are.
    """

    fraction: float
    words: str
    ends: float | None = None
    is_of_epoch: bool = False

    @property
    def percent(self) -> int:
        """The fraction in whole percent; 100 only when all is done."""
        return int(self.fraction * 100)

    def left_s(self, now: float) -> float | None:
        """How long it takes from `now` on, in seconds."""
        return None if self.ends is None else max(0.0, self.ends - now)

    def sentence(self, now: float) -> str:
        """It in one line: `45 %, epoch 5/10, 3 min left`."""
        left_s = self.left_s(now)
        left = f"{span(left_s)} left{' in this epoch' * self.is_of_epoch}" if left_s else ""
        return ", ".join(filter(None, (f"{self.percent} %", self.words, left)))

    @property
    def reached(self) -> str:
        """How far it came, of a run that ended there: `step 120/500, 24 %`."""
        return ", ".join(filter(None, (self.words, f"{self.percent} %")))


def span(seconds: float) -> str:
    """A span of time by its two greatest units: `2 h 5 min`, `12 min`, `40 s`."""
    whole = max(0, int(seconds))
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    for (much, unit), (more, finer) in (((days, "d"), (hours, "h")), ((hours, "h"), (minutes, "min"))):
        if much:
            return f"{much} {unit} {more} {finer}" if more else f"{much} {unit}"
    return f"{minutes} min" if minutes else f"{whole} s"
