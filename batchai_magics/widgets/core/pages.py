"""The pages that show a view: the module and style they load, and which of them are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from batchai_magics.errors import BatchAIError

STATIC = Path(__file__).parents[1] / "static"
SILENT_AFTER_S = 75.0  # a page says something every 20 s, a hidden one every 60 s


@cache
def script(name: str = "job_view") -> str:
    """A view's ES module; raises BatchAIError when it has not been built."""
    return _read(f"{name}.js")


@cache
def style(name: str = "job_view") -> str:
    """A view's style sheet; raises BatchAIError when it has not been built."""
    return _read(f"{name}.css")


@dataclass
class _Page:
    turn: int
    is_here: bool
    heard_at: float


class Pages:
    """The pages of one view. What they say may come in another order than it was said.

    A kernel that is busy hears a page's first words late, those that come over a line of their own at once.
    So a page counts how often it has shown the view: `turn` of its hello and of the bye that belongs to it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pages: dict[str, _Page] = {}

    @property
    def is_any_here(self) -> bool:
        """Whether a page shows the view and was heard of lately."""
        now = self._clock()
        return any(page.is_here and now - page.heard_at < SILENT_AFTER_S for page in self._pages.values())

    def hello(self, content: Mapping[str, Any]) -> bool:
        """A page says that it shows the view; False for one that has said bye since."""
        name, turn = _who(content)
        known = self._pages.get(name)
        if turn and known and (known.turn > turn or (known.turn == turn and not known.is_here)):
            return False
        self._pages[name] = _Page(turn, True, self._clock())
        return True

    def alive(self, content: Mapping[str, Any]) -> None:
        """A page says something else."""
        known = self._pages.get(_who(content)[0])
        if known:
            known.heard_at = self._clock()

    def bye(self, content: Mapping[str, Any]) -> None:
        """A page says that it has taken the view out."""
        name, turn = _who(content)
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


def _who(content: Mapping[str, Any]) -> tuple[str, int]:
    return str(content.get("page", "")), int(content.get("turn", 0))
