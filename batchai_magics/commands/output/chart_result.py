"""A chart as the result of a command: a file in the shell, an image in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import UsageError
from batchai_magics.metrics.charts.figure import figure_png, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class ChartResult:
    """A chart and the file it was saved to, if any. Notebooks display it as an image."""

    axes: Axes
    path: Path | None = None

    @classmethod
    def of(cls, axes: Axes, path: Path | None) -> ChartResult:
        """The chart, saved to `path` if given."""
        return cls(axes, save_figure(axes, path) if path else None)

    @property
    def in_notebook(self) -> ChartResult:
        """The chart itself."""
        return self

    def to_data(self) -> Any:
        """The file's path; raises UsageError for a chart without a file, which only a notebook can show."""
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
