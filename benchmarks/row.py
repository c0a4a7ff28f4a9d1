"""One measured number against another, and the table of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan


@dataclass(frozen=True)
class Row:
    """What was measured, our value, and the value that it is held against, in one unit.

    `theirs` is NaN where it could not be measured; `is_at_least`: it was given up, and may be any more.
    """

    what: str
    ours: float
    against: str
    theirs: float
    unit: str
    is_at_least: bool = False

    @property
    def ratio(self) -> str:
        """Ours over theirs: below 1 is less than what it is held against."""
        if isnan(self.theirs) or not self.theirs:
            return "–"
        return f"{'<' * self.is_at_least}{self.ours / self.theirs:.3g}"

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        theirs = "none" if isnan(self.theirs) else "> " * self.is_at_least + _amount(self.theirs, self.unit)
        return self.what, _amount(self.ours, self.unit), theirs, self.ratio, self.against


def table(rows: Iterable[Row]) -> str:
    """The rows as aligned text."""
    cells = [("measured", "ours", "theirs", "ours/theirs", "theirs is"), *(row.cells for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(line.rstrip() for line in lines)


def _amount(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"
