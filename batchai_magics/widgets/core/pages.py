"""The pages that show a view: the bundle they load, and which of them are open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from batchai_magics.errors import BatchAIError

STATIC = Path(__file__).parents[1] / "static"
PAGE_TIMEOUT_S = 75.0  # a page sends a heartbeat every 20 s, a hidden one every 60 s


@cache
def script(name: str = "job_view") -> str:
    """Returns a view's ES module. Raises BatchAIError if it has not been built."""
    return _read(f"{name}.js")


@cache
def style(name: str = "job_view") -> str:
    """Returns a view's style sheet. Raises BatchAIError if it has not been built."""
    return _read(f"{name}.css")


@dataclass
class _Page:
    turn: int
    is_open: bool
    last_seen_at: float


class Pages:
    """The pages of one view. Their messages may arrive out of order.

    A busy kernel receives a page's first messages late, but those sent over a subshell immediately. So each
    page numbers the times it has shown the view: its hello and the matching bye have the same `turn`.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pages: dict[str, _Page] = {}

    @property
    def count(self) -> int:
        """How many pages there have been."""
        return len(self._pages)

    @property
    def is_any_open(self) -> bool:
        """Whether a page shows the view and has sent a heartbeat lately."""
        now = self._clock()
        return any(page.is_open and now - page.last_seen_at < PAGE_TIMEOUT_S for page in self._pages.values())

    def hello(self, content: Mapping[str, Any]) -> bool:
        """Records a page that shows the view; returns False if it has said bye since."""
        name, turn = _page_and_turn(content)
        known = self._pages.get(name)
        if turn and known and (known.turn > turn or (known.turn == turn and not known.is_open)):
            return False
        self._pages[name] = _Page(turn, True, self._clock())
        return True

    def alive(self, content: Mapping[str, Any]) -> None:
        """Records any other message of a page."""
        known = self._pages.get(_page_and_turn(content)[0])
        if known:
            known.last_seen_at = self._clock()

    def bye(self, content: Mapping[str, Any]) -> None:
        """Records a page that has removed the view."""
        name, turn = _page_and_turn(content)
        known = self._pages.get(name)
        if known is None or not turn or known.turn <= turn:
            self._pages[name] = _Page(turn, False, self._clock())


def _read(name: str) -> str:
    try:
        return (STATIC / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BatchAIError(
            f"the live view has not been built: {STATIC / name} is missing",
            hint="run `pip install -e .` (or `npm ci && npm run build`) in the source folder, "
            "or set BATCHAI_UI=html to do without",
        ) from None


def _page_and_turn(content: Mapping[str, Any]) -> tuple[str, int]:
    return str(content.get("page", "")), int(content.get("turn", 0))
