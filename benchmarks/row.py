"""One measured number against another, and the table of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What was measured, our value, and the value that it is held against, in one unit."""

    what: str
    ours: float
    against: str
    theirs: float
    unit: str

    @property
    def ratio(self) -> float:
        """Ours over theirs: below 1 is less than what it is held against."""
        return self.ours / self.theirs


def table(rows: Iterable[Row]) -> str:
    """The rows as aligned text."""
    cells = [("measured", "ours", "theirs", "ours/theirs", "theirs is")]
    cells += [
        (
            row.what,
            f"{row.ours:,.4g} {row.unit}",
            f"{row.theirs:,.4g} {row.unit}",
            f"{row.ratio:.3g}",
            row.against,
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(line.rstrip() for line in lines)
