"""What a line says about the lines after it: the epoch, the iteration, the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass, field

_MOST_RANKS = 4096
_MOST_SEEN = 1024


@dataclass(slots=True)
class Memory:
    """What one process has told so far, as far as its later lines need it."""

    epoch: int | None = None
    step: int | None = None
    shown: dict[str, float] = field(default_factory=dict)  # of this epoch and step
    times: dict[int, tuple[float, int]] = field(default_factory=dict)  # of each worker: when, at which step
    columns: tuple[str, ...] = ()  # of a table
    lines_left: int = 0  # before the table is given up
    year: int | None = None  # of glog's stamps, which tell none …
    month: int = 0  # … and the month of the last one
    _seen: dict[object, None] = field(default_factory=dict)

    def is_new(self, key: object) -> bool:
        """Whether this was not asked before, as far as is remembered."""
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > _MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        return True

    def year_of(self, month: int) -> int | None:
        """The year of a stamp in this month, close to the last one; None while no year was told."""
        months_back = self.month - month
        if self.year is None or not self.month or months_back < -6:  # not in order, at the turn of a year
            return self.year and self.month and self.year - 1
        self.year += months_back > 6
        self.month = month
        return self.year

    def moves_to(self, epoch: int | None, step: int | None) -> None:
        """Forget what was shown if this is another step."""
        if (epoch, step) != (self.epoch, self.step):
            self.epoch, self.step, self.shown = epoch, step, {}


class Memories:
    """The memories of all processes whose lines are in one stream."""

    def __init__(self) -> None:
        self._of: dict[int | None, Memory] = {}

    @property
    def has_table(self) -> bool:
        """Whether a line without any literal may be the row of a table."""
        return bool(self._of) and any(memory.lines_left for memory in self._of.values())

    def of(self, rank: int | None) -> Memory:
        """The memory of one process."""
        if rank not in self._of and len(self._of) >= _MOST_RANKS:
            self._of.clear()
        return self._of.setdefault(rank, Memory())
