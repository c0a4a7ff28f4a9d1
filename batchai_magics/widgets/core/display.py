"""What reaches the cell's output: mime bundles under a display id. Only here IPython is asked to show."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bundle = Mapping[str, str]

EMPTY: Bundle = {"text/html": "", "text/plain": ""}
MAX_PNG_BYTES = 120_000
HELLO_S = 20.0  # that a page may take to show a view, until it says hello


def show(bundle: Bundle, display_id: str) -> None:
    """Shows a bundle beneath the running cell."""
    from IPython.display import display

    display(dict(bundle), raw=True, display_id=display_id or None)  # type: ignore[no-untyped-call]  # IPython has no types here


def update(bundle: Bundle, display_id: str) -> None:
    """Replaces what is shown under the id, wherever it is; may be called from any thread."""
    from IPython.display import display

    display(dict(bundle), raw=True, display_id=display_id, update=True)  # type: ignore[no-untyped-call]  # as above


def has_frontend() -> bool:
    """Whether a kernel shows outputs here: rich ones, that can change. A terminal cannot."""
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


def hello_by(now: float) -> float:
    """Until when, by the clock of `now`, the page that asked for a view may say hello."""
    return now + HELLO_S if is_asked_by_page() else now


def is_asked_by_page() -> bool:
    """Whether a page asked for the running cell. nbclient and papermill do not say which cell it is."""
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    parent = kernel.get_parent("shell") if kernel else {}
    return "cellId" in (parent.get("metadata") or {})


def hidden_by(view_id: str, bundle: Bundle) -> Bundle:
    """A picture that a live view of that id hides, and that hides what is left of it where it cannot live.

    A notebook saved while the view was live names a model that is no more when it is opened again. There
    JupyterLab writes an error, without any element: what stands before the picture and has none is not shown.
    """
    if "text/html" not in bundle:
        return bundle
    mark = f'data-batchai-snapshot="{html.escape(view_id)}"'
    lost = f".jp-OutputArea-child:has(+ .jp-OutputArea-child [{mark}]):not(:has(.jp-OutputArea-output *))"
    style = f"<style>{lost} {{ display: none; }}</style>"
    return {**bundle, "text/html": f"<div {mark}>{style}{bundle['text/html']}</div>"}


def figure(ax: Axes, text: str) -> Bundle:
    """The figure that an Axes belongs to, as a PNG of bounded size, and what it says in words."""
    from batchai_magics.metrics import figure_png

    png = figure_png(ax)
    if len(png) > MAX_PNG_BYTES:
        png = figure_png(ax, dpi=60)
    return {"image/png": base64.b64encode(png).decode(), "text/plain": text}
