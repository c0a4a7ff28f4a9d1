"""Compared runs in a cell's output: live, as refreshed HTML or as text; at the end a table and a figure."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from batchai_magics.metrics import Comparison, Scaling
from batchai_magics.metrics.charts.comparison_chart import Overlay
from batchai_magics.widgets.comparison.comparison_feed import (
    POLL_S,
    ComparisonFeed,
    ComparisonSource,
    ScalingFeed,
    json_number,
)
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.cell_output import Clock, RunInBackground, WaitFor
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.core.feed import PageData
from batchai_magics.widgets.dashboards.dashboard_output import DashboardOutput, LiveDashboard
from batchai_magics.widgets.dashboards.dashboard_view import DashboardView

if TYPE_CHECKING:
    from batchai_magics.widgets.core.publisher import Publisher

MAX_POINTS = 400  # per line: as many as a chart can resolve


class ComparisonView(DashboardView):
    """Overlaid lines of runs, or a scaling study. A page that says hello is sent all lines again."""

    script = "comparison_view"

    def __init__(self, feed: ComparisonFeed, *, view_id: str, work: RunInBackground, clock: Clock) -> None:
        self._runs = feed
        self._sent = [0] * len(feed.runs)
        super().__init__(feed, view_id=view_id, work=work, clock=clock)

    def reset_page(self) -> None:
        """A page has said hello: it has no lines yet."""
        self._sent = [0] * len(self._sent)

    def next_message(self, limit_bytes: int) -> PageData | None:
        """The lines of the next run for which the page is out of date."""
        for index, version in enumerate(self._runs.line_versions):
            if self._sent[index] != version:
                self._sent[index] = version
                return {"kind": "lines", "run": index, **line_columns(self._runs.lines[index])}
        return None


def line_columns(lines: Overlay) -> PageData:
    """A run's lines as columns of equal length, downsampled evenly with the last point kept (`Lines`)."""
    steps = _downsampled(sorted({*lines.rates, *lines.losses}))

    def column(values: Mapping[float, float]) -> list[float | None]:
        return [json_number(values.get(step)) for step in steps]

    over = {name: column(places) for name, places in lines.x_values.items() if places}
    return {"rates": column(lines.rates), "losses": column(lines.losses), "over": over}


def _downsampled(steps: list[float]) -> list[float]:
    if len(steps) <= MAX_POINTS:
        return steps
    stride = (len(steps) - 1) / (MAX_POINTS - 1)
    return [steps[round(i * stride)] for i in range(MAX_POINTS)]


def show(value: Comparison | Scaling, publisher: Publisher, *, ui: str) -> None:
    """Shows runs, some of them still running, beneath the cell and follows them until they end.

    `ui` is `html` (a table and a figure, refreshed), `text` (the table, replaced by the final one), or
    anything else for a live view. At the end the table and the figure stay.
    """
    made = (ScalingFeed if isinstance(value, Scaling) else ComparisonFeed)(value.runs, clock=publisher.clock)
    if isinstance(value, Comparison):
        made.preferences = value.preferences
    elif isinstance(made, ScalingFeed):
        made.metric = value.metric
    names = [job.id.key for job in made.jobs.values()]
    key = " ".join([made.kind, *(run.name for run in value.runs), *names])
    for older in publisher.outputs(key):
        if isinstance(older, (ComparisonOutput, TextComparisonOutput)):
            older.close()  # only the newest static output of the same runs is refreshed
    source = ComparisonSource(made.jobs, clock=publisher.clock)
    feed = publisher.feed(key, lambda: (source, made), max_interval_s=POLL_S)
    output = _OUTPUTS.get(ui, _live_output)(key, feed, publisher)
    output.open()
    publisher.add(output)


def show_static(value: Comparison | Scaling, *, ui: str) -> None:
    """Shows the table and below it the figure; as text, the table only."""
    if ui == "text":
        display.show({"text/plain": _static_text(value)}, "")
        return
    display.show({"text/html": value._repr_html_(), "text/plain": repr(value)}, "")
    names = ", ".join(run.name for run in value.runs)
    display.show(display.figure(value.plot(), f"Chart of {names}"), "")


class TextComparisonOutput(DashboardOutput):
    """The table as text, replaced once by the final one."""

    feed: ComparisonFeed

    def send_next(self, limit_bytes: int) -> int:
        """Replaces the table when all jobs have ended; returns the size in bytes."""
        return self.freeze() if self.feed.is_over else 0

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Shows the final table if all jobs have ended."""
        _freeze_if_ended(self, self.feed, wait_for)

    def _render(self) -> Bundle:
        return {"text/plain": self.feed.bundle()["text/plain"]}


class ComparisonOutput(DashboardOutput):
    """The table and below it the figure, refreshed until all jobs have ended."""

    feed: ComparisonFeed

    def open(self) -> None:
        """Shows both beneath the running cell."""
        super().open()
        display.show(self.feed.chart(), self.second_id)

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Shows the final table and figure if all jobs have ended."""
        _freeze_if_ended(self, self.feed, wait_for)

    def _freeze(self) -> int:
        return super()._freeze() + _show_chart(self.feed, self.second_id)

    def _is_over(self) -> bool:
        return self.feed.is_over

    def _update(self, bundle: Bundle, display_id: str) -> int:
        return super()._update(bundle, display_id) + _show_chart(self.feed, self.second_id)


class LiveComparison(LiveDashboard):
    """The live view, updated until all jobs have ended, with or without a page; then table and figure."""

    feed: ComparisonFeed

    @property
    def is_unwatched(self) -> bool:
        """Always False: jobs are followed to their ends for the final figure."""
        return False

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Shows the final table and figure if all jobs have ended and no page shows them live."""
        if not self.view.has_page:
            _freeze_if_ended(self, self.feed, wait_for)

    def _freeze(self) -> int:
        self.view.has_page = False
        return DashboardOutput._freeze(self) + _show_chart(self.feed, self.second_id)

    def _is_over(self) -> bool:
        return self.feed.is_over


def _live_output(key: str, feed: ComparisonFeed, publisher: Publisher) -> DashboardOutput:
    view = ComparisonView(
        feed, view_id=uuid.uuid4().hex, work=publisher.run_in_background, clock=publisher.clock
    )
    return LiveComparison(key, view, feed, clock=publisher.clock)


_OUTPUTS: dict[str, Callable[[str, ComparisonFeed, Publisher], DashboardOutput]] = {
    "html": lambda key, feed, publisher: ComparisonOutput(key, feed, clock=publisher.clock),
    "text": lambda key, feed, publisher: TextComparisonOutput(key, feed, clock=publisher.clock),
}


def _freeze_if_ended(output: DashboardOutput, feed: ComparisonFeed, wait_for: WaitFor) -> None:
    if not output.is_frozen and feed.has_ended and wait_for(lambda: feed.is_over):
        output.freeze()


def _show_chart(feed: ComparisonFeed, display_id: str) -> int:
    bundle = feed.chart()
    display.update(bundle, display_id)
    return sum(map(len, bundle.values()))


def _static_text(value: Comparison | Scaling) -> str:
    """The table and the jobs still running, since a text output is not updated."""
    going = [run.name for run in value.runs if run.is_running]
    rest = f"\nStill running: {', '.join(going)}. The same line tells more later." if going else ""
    return f"{value!r}{rest}"
