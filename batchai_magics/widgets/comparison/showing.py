"""Runs side by side beneath a cell: live, as refreshed pictures or as text; at the end a still figure."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from batchai_magics.metrics import Comparison, Scaling
from batchai_magics.widgets.comparison.event_source import LOOK_S, ComparisonSource
from batchai_magics.widgets.comparison.feed import ComparisonFeed, ScalingFeed
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.core.showing import Wait
from batchai_magics.widgets.dashboards.dashboard_output import DashboardOutput, LiveDashboard

if TYPE_CHECKING:
    from batchai_magics.widgets.core.publisher import Publisher


def show(value: Comparison | Scaling, publisher: Publisher, *, ui: str) -> None:
    """Shows runs, some of which go on, beneath the running cell and follows them to their ends.

    `ui` is `html` (a table and a figure, refreshed), `text` (the table, replaced by the final one) or any
    other for a live view. At the end the table and the figure stay.
    """
    made = (ScalingFeed if isinstance(value, Scaling) else ComparisonFeed)(value.runs, clock=publisher.clock)
    names = [job.id.key for job in made.jobs.values()]
    key = " ".join([made.kind, *(run.name for run in value.runs), *names])
    for older in publisher.showings(key):
        if isinstance(older, (ComparisonBoard, TextComparison)):
            older.close()  # of two pictures of the same runs, only the newest is refreshed
    source = ComparisonSource(made.jobs, clock=publisher.clock)
    feed = publisher.feed(key, lambda: (source, made), longest_s=LOOK_S)
    board = _BOARDS.get(ui, _live)(key, feed, publisher)
    board.open()
    publisher.add(board)


def show_still(value: Comparison | Scaling, *, ui: str) -> None:
    """Shows the table, and below it the figure where pictures can be shown; as text, the table alone."""
    if ui == "text":
        display.show({"text/plain": _still_text(value)}, "")
        return
    display.show({"text/html": value._repr_html_(), "text/plain": repr(value)}, "")
    names = ", ".join(run.name for run in value.runs)
    display.show(display.figure(value.plot(), f"Chart of {names}"), "")


class TextComparison(DashboardOutput):
    """The table as text, replaced once by the final one."""

    feed: ComparisonFeed

    def send_next(self, limit_bytes: int) -> int:
        """Replaces the table when all jobs have ended; returns the size in bytes."""
        return self.freeze() if self.feed.is_over else 0

    def settle(self, wait_for: Wait) -> None:
        """A cell has ended: the final table, if the jobs have."""
        _settle(self, self.feed, wait_for)

    def _picture(self) -> Bundle:
        return {"text/plain": self.feed.bundle()["text/plain"]}


class ComparisonBoard(DashboardOutput):
    """The table and below it the figure, refreshed until all jobs have ended."""

    feed: ComparisonFeed

    def open(self) -> None:
        """Shows both beneath the running cell."""
        super().open()
        display.show(self.feed.chart(), self.second_id)

    def settle(self, wait_for: Wait) -> None:
        """A cell has ended: the final table and figure, if the jobs have."""
        _settle(self, self.feed, wait_for)

    def _freeze(self) -> int:
        return super()._freeze() + _show_chart(self.feed, self.second_id)

    def _is_over(self) -> bool:
        return self.feed.is_over

    def _update(self, bundle: Bundle, display_id: str) -> int:
        return super()._update(bundle, display_id) + _show_chart(self.feed, self.second_id)


class LiveComparison(LiveDashboard):
    """The live view, followed to the end of all jobs whether a page looks or not; then table and figure."""

    feed: ComparisonFeed

    @property
    def is_asleep(self) -> bool:
        """Whether nobody looks; jobs are followed to their ends all the same, for the figure."""
        return False

    def settle(self, wait_for: Wait) -> None:
        """A cell has ended: the final table and figure, if the jobs have and no page shows them live."""
        if not self.view.is_heard:
            _settle(self, self.feed, wait_for)

    def _freeze(self) -> int:
        self.view.is_heard = False
        return DashboardOutput._freeze(self) + _show_chart(self.feed, self.second_id)

    def _is_over(self) -> bool:
        return self.feed.is_over


def _live(key: str, feed: ComparisonFeed, publisher: Publisher) -> DashboardOutput:
    from batchai_magics.widgets.comparison.view import ComparisonView

    view = ComparisonView(feed, view_id=uuid.uuid4().hex, work=publisher.do, clock=publisher.clock)
    return LiveComparison(key, view, feed, clock=publisher.clock)


_BOARDS: dict[str, Callable[[str, ComparisonFeed, Publisher], DashboardOutput]] = {
    "html": lambda key, feed, publisher: ComparisonBoard(key, feed, clock=publisher.clock),
    "text": lambda key, feed, publisher: TextComparison(key, feed, clock=publisher.clock),
}


def _settle(board: DashboardOutput, feed: ComparisonFeed, wait_for: Wait) -> None:
    if not board.is_frozen and feed.has_ended and wait_for(lambda: feed.is_over):
        board.freeze()


def _show_chart(feed: ComparisonFeed, display_id: str) -> int:
    bundle = feed.chart()
    display.update(bundle, display_id)
    return sum(map(len, bundle.values()))


def _still_text(value: Comparison | Scaling) -> str:
    """The table, and which jobs run on: where a text was shown once, nothing tells their ends."""
    going = [run.name for run in value.runs if run.is_running]
    rest = f"\nStill running: {', '.join(going)}. The same line tells more later." if going else ""
    return f"{value!r}{rest}"
