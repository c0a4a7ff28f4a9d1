"""What one line tells of how far a run is."""

from __future__ import annotations

from typing import NamedTuple

_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SECONDS = (1, 60, 3600)


class Count(NamedTuple):
    """So many of all: `done` and `total` as they were printed, of what `noun` names (may be empty).

    Where only a share was printed, `done` is in percent, and `total` is empty.
    """

    done: str
    total: str
    noun: str = ""

    @property
    def words(self) -> str:
        """The count as people read it: `step 30/100`, `total 36.67 %`."""
        return (
            f"{self.noun} {self.done}/{self.total}".strip()
            if self.total
            else f"{self.noun} {self.done} %".strip()
        )

    @property
    def fraction(self) -> float | None:
        """Between 0 and 1; None for what is no part of a whole."""
        done, total = number(self.done), number(self.total or "100")
        return done / total if 0 <= done <= total and total > 0 else None


class Sighting(NamedTuple):
    """The epoch that a line names, where in it or in the whole run it stands, how long that takes on.

    `is_begun`: the line comes when its epoch begins, not when it has ended.
    """

    epoch: Count | None = None
    within: Count | None = None
    left_s: float | None = None
    is_begun: bool = False


def number(text: str) -> float:
    """A number as bars write it: `45`, `45.0M`."""
    scale = _SCALES.get(text[-1:], 1.0)
    return float(text.rstrip("kKMGTP")) * scale


def seconds(text: str | None) -> float | None:
    """A span of time as bars write it: `01:30`, `1:02:03`, `1 day, 2:03:04`, `12s`; None for `?`."""
    days, _, clock = (text or "").rpartition(", ")
    if not clock[:1].isdigit():
        return None
    if clock.endswith("s"):
        return float(clock[:-1])
    parts = [float(part) for part in reversed(clock.split(":"))]
    whole_days = int(days.split()[0]) if days else 0
    return 86_400 * whole_days + sum(part * unit for part, unit in zip(parts, _SECONDS, strict=False))
