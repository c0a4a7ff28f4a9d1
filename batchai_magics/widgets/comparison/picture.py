"""Runs side by side that do not change any more, or cannot where they are shown."""

from __future__ import annotations

from batchai_magics.metrics import Comparison, Scaling
from batchai_magics.widgets.core import display


def show_still(value: Comparison | Scaling, *, ui: str) -> None:
    """Shows the table, and below it the figure where pictures can be shown; as text, the table alone."""
    if ui == "text":
        display.show({"text/plain": _text(value)}, "")
        return
    display.show({"text/html": value._repr_html_(), "text/plain": repr(value)}, "")
    names = ", ".join(run.name for run in value.runs)
    display.show(display.figure(value.plot(), f"Chart of {names}"), "")


def _text(value: Comparison | Scaling) -> str:
    """The table, and which jobs run on: where a text was shown once, nothing tells their ends."""
    going = [run.name for run in value.runs if run.is_running]
    rest = f"\nStill running: {', '.join(going)}. The same line tells more later." if going else ""
    return f"{value!r}{rest}"
