"""A chart as what a command gives: a file in the shell, a picture in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchai_magics.commands.output.table import Table
from batchai_magics.errors import UsageError
from batchai_magics.metrics.charts.figure import figure_png, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class Picture:
    """A chart, and the file that holds it if there is one. It shows itself in a notebook."""

    axes: Axes
    path: Path | None = None

    @classmethod
    def of(cls, axes: Axes, path: Path | None) -> Picture:
        """The chart, written to `path` if that is given."""
        return cls(axes, save_figure(axes, path) if path else None)

    @property
    def in_notebook(self) -> Picture:
        """The picture, which shows itself."""
        return self

    def to_data(self) -> Any:
        """The file's path; UsageError for a chart without one, which only a notebook can show."""
        if self.path is None:
            raise UsageError("the chart has no file to go to", hint="Name one: -o chart.svg (or .pdf, .png).")
        return {"file": str(self.path)}

    def to_table(self) -> Table:
        """The file's path."""
        return Table(("File",), ((self.to_data()["file"],),))

    def __repr__(self) -> str:
        return str(self.path or "a chart")

    def _repr_png_(self) -> bytes:
        return figure_png(self.axes)
