"""Shared parts of all figures: style, size, export. Never uses pyplot, which has global state."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import cache, wraps
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from batchai_magics.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

FORMATS = ("svg", "pdf", "png")
RANK_COLOURS = ("#e69f00", "#009e73", "#cc79a7", "#b3741a", "#7a8fd6", "#6f9d3c", "#d55e00", "#3aa6dd")
"""A rank has the same colour in every chart, including the live view (`--ba-rank-0` etc.)."""

PALETTE = ("#1976d2", *RANK_COLOURS)
"""The colour of all processes together or of the first run, then of the others (after Okabe and Ito)."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
REFERENCE = "#7a7a7a"
INK = "#777777"
"""Text and axes: readable on light and dark pages, because figures have a transparent background."""

_PRINTED_INK = "#000000"
_PRINT_DPI = 300


_DRAWING = threading.RLock()

_P = ParamSpec("_P")
_T = TypeVar("_T")


def serialized(draw: Callable[_P, _T]) -> Callable[_P, _T]:
    """Run a drawing function in one thread at a time.

    The thread of a cell and the one that follows jobs both draw. Two threads saving one figure at different
    resolutions corrupt it, and matplotlib's settings are global.
    """

    @wraps(draw)
    def drawn(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with _DRAWING:
            return draw(*args, **kwargs)

    return drawn


def new_panels(
    *, rows: int = 1, columns: int = 1, size: tuple[float, float], widths: Sequence[float] | None = None
) -> list[Axes]:
    """The Axes of a new figure of `size` inches, row by row; stacked panels share their x axis."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained", facecolor="none")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(rows, columns, width_ratios=widths)
    first = figure.add_subplot(grid[0, 0], axes_class=_axes_class())
    panels = [first]
    for index in range(1, rows * columns):
        shared = first if columns == 1 else None
        panels.append(figure.add_subplot(grid[index // columns, index % columns], sharex=shared))
    for panel in panels:
        panel.set_facecolor("none")
        _set_colour(panel, INK)
    return panels


def _set_colour(ax: Axes, colour: str) -> None:
    """Set the colour of an Axes' frame and text, including its legend."""
    ax.tick_params(which="both", colors=colour)
    ax.spines[:].set_edgecolor(colour)
    for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
        text.set_color(colour)
    if legend := ax.get_legend():
        colour_legend(legend, colour)


def colour_legend(legend: Legend, colour: str = INK) -> None:
    """Set the text colour of a legend."""
    for text in (legend.get_title(), *legend.get_texts()):
        text.set_color(colour)


def decorate(ax: Axes, label: str) -> None:
    """Plain style: y label, faint grid, no box."""
    ax.set_ylabel(label)
    ax.grid(visible=True, color="#808080", alpha=0.2)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def show_message(ax: Axes, sentence: str) -> None:
    """Show a message instead of a plot."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, sentence, transform=ax.transAxes, ha="center", va="center", color=REFERENCE, wrap=True)


@serialized
def figure_png(ax: Axes, *, dpi: int = 100) -> bytes:
    """The whole figure of an Axes as a PNG image, at `dpi` dots per inch."""
    figure = ax.get_figure(root=True)
    buffer = BytesIO()
    if figure is not None:
        figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


@serialized
def save_figure(ax: Axes, path: str | os.PathLike[str]) -> Path:
    """Write the whole figure of an Axes; the suffix of the path is .svg, .pdf or .png.

    Raises:
        UsageError: The suffix is unknown or the file cannot be written.
    """
    import matplotlib
    from matplotlib.figure import Figure

    target = figure_path(path)
    form = target.suffix[1:].lower()
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure), "Axes that were drawn on have a figure"
    part = target.with_name(target.name + ".part")
    try:
        # Embedded fonts as journals require, and no date or random id, so that files are reproducible.
        with matplotlib.rc_context({"pdf.fonttype": 42, "svg.hashsalt": "batchai_magics"}):
            dated = {"svg": "Date", "pdf": "CreationDate"}.get(form)
            metadata = {dated: None} if dated else None
            _recolour(figure, _PRINTED_INK)
            try:
                figure.savefig(part, format=form, dpi=_PRINT_DPI, metadata=metadata, facecolor="white")
            finally:
                _recolour(figure, INK)
        return part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error


def _recolour(figure: Figure, colour: str) -> None:
    for ax in figure.axes:
        _set_colour(ax, colour)
    for legend in figure.legends:
        colour_legend(legend, colour)


def figure_path(path: str | os.PathLike[str]) -> Path:
    """The path, checked: its suffix is in FORMATS and its folder exists; else UsageError."""
    target = Path(path).expanduser()
    if target.suffix[1:].lower() not in FORMATS:
        known = ", ".join(f".{form}" for form in FORMATS)
        raise UsageError(f"{target}: no picture ends like that", hint=f"Let the name end in one of {known}.")
    if not target.parent.is_dir():
        raise UsageError(
            f"{target}: the folder {target.parent} does not exist", hint="Make the folder first."
        )
    return target


@cache
def _axes_class() -> type[Axes]:
    from matplotlib.axes import Axes

    class MetricsAxes(Axes):
        """Axes that display their figure as the value of a notebook cell."""

        def _repr_png_(self) -> bytes:
            return figure_png(self)

    return MetricsAxes
