"""MIME bundles in a cell's output, under a display id. The only module that calls IPython's display."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bundle = Mapping[str, str]

EMPTY: Bundle = {"text/html": "", "text/plain": ""}
MAX_PNG_BYTES = 120_000
HELLO_S = 20.0  # timeout for a page to show a view and say hello


def show(bundle: Bundle, display_id: str) -> None:
    """Shows a bundle beneath the running cell."""
    from IPython.display import display

    display(dict(bundle), raw=True, display_id=display_id or None)  # type: ignore[no-untyped-call]  # IPython has no types here


def update(bundle: Bundle, display_id: str) -> None:
    """Replaces the output with this display id; may be called from any thread."""
    from IPython.display import display

    display(dict(bundle), raw=True, display_id=display_id, update=True)  # type: ignore[no-untyped-call]  # as above


def bundle_bytes(bundle: Bundle) -> int:
    """The approximate size of a bundle on the wire."""
    return OVERHEAD_BYTES + sum(map(len, bundle.values()))


def has_frontend() -> bool:
    """Whether this is a kernel, whose outputs can be rich and be updated; a terminal's cannot."""
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


def hello_deadline(now: float) -> float:
    """The time, on the clock of `now`, until which the requesting page may say hello."""
    return now + HELLO_S if is_requested_by_page() else now


def is_requested_by_page() -> bool:
    """Whether a page requested the running cell: nbclient and papermill send no cell id."""
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    parent = kernel.get_parent("shell") if kernel else {}
    return "cellId" in (parent.get("metadata") or {})


def snapshot_for(view_id: str, bundle: Bundle) -> Bundle:
    """Marks a bundle as the snapshot of a live view: the view hides it, and it hides the error of a dead one.

    A notebook saved while the view was live refers to a model that no longer exists when it is reopened.
    JupyterLab then shows a bare error text; the style hides an output before the snapshot without elements.
    """
    if "text/html" not in bundle:
        return bundle
    mark = f'data-batchai-snapshot="{html.escape(view_id)}"'
    selector = f".jp-OutputArea-child:has(+ .jp-OutputArea-child [{mark}]):not(:has(.jp-OutputArea-output *))"
    style = f"<style>{selector} {{ display: none; }}</style>"
    return {**bundle, "text/html": f"<div {mark}>{style}{bundle['text/html']}</div>"}


def rebind(names: Iterable[str], old: object, new: object) -> None:
    """Assigns `new` to those variables of the notebook that hold a handle of `old`'s resource."""
    from IPython.core.getipython import get_ipython

    variables = getattr(get_ipython(), "user_ns", {})
    for name in names:
        if _id_of(variables.get(name)) == _id_of(old):
            variables[name] = new


def _id_of(handle: object) -> object:
    return getattr(handle, "id", None)


def figure(ax: Axes, text: str) -> Bundle:
    """The figure of an Axes as a PNG of bounded size, with a text equivalent."""
    from batchai_magics.metrics import figure_png

    png = figure_png(ax)
    if len(png) > MAX_PNG_BYTES:
        png = figure_png(ax, dpi=60)
    return {"image/png": base64.b64encode(png).decode(), "text/plain": text}
