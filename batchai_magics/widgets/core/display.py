"""What reaches the cell's output: mime bundles under a display id. Only here IPython is asked to show."""

from __future__ import annotations

from collections.abc import Mapping

Bundle = Mapping[str, str]

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
