"""Compared runs in a cell's output: live, as refreshed HTML or as text; at the end a table and a figure."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics import Comparison, Scaling
from batchai_magics.metrics.charts.comparison_chart import Overlay
from batchai_magics.widgets.comparison.comparison_feed import ComparisonFeed, ScalingFeed, json_number
from batchai_magics.widgets.comparison.comparison_source import POLL_S, ComparisonSource
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.cell_output import Clock, EmbeddedOutput, RunInBackground, WaitFor
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.core.feed import FigureFeed, PageData
from batchai_magics.widgets.dashboards.dashboard_output import IDLE_S, DashboardOutput, LiveDashboard
from batchai_magics.widgets.dashboards.dashboard_view import DashboardView

if TYPE_CHECKING:
    from batchai_magics.widgets.core.publisher import Publisher

MAX_POINTS = 400  # per line: as many as a chart can resolve
MIN_POINTS = 50
POINTS = 40_000  # over all runs, of one metric
MESSAGE_BYTES = 100_000
MAX_KNOTS = 100  # of each x axis besides steps
FIRST_CHARTS = 2  # whose lines are sent unasked


class ComparisonView(DashboardView):
    """Overlaid lines of runs, or a scaling study; the page says which metrics it draws.

    A page that says hello is sent all lines again.
    """

    script = "comparison_view"

    def __init__(self, feed: ComparisonFeed, *, view_id: str, work: RunInBackground, clock: Clock) -> None:
        self._runs = feed
        self._sent: dict[tuple[int, str], int] = {}  # versions of lines by run and metric
        self._drawn: tuple[str, ...] = ()  # metrics that pages have asked for
        super().__init__(feed, view_id=view_id, work=work, clock=clock)

    def reset_page(self) -> None:
        """A page has said hello: it has no lines yet."""
        self._sent = {}

    def hear(self, content: PageData) -> None:
        """The page says which metrics it draws."""
        if content.get("kind") == "draw":
            self._drawn = tuple(dict.fromkeys([*self._drawn, *map(str, content.get("metrics", ()))]))

    def next_message(self, limit_bytes: int) -> PageData | None:
        """The lines of the next runs for which the page is out of date, as many as fit."""
        told: list[PageData] = []
        size, limit = 0, min(limit_bytes, MESSAGE_BYTES)
        names = self._drawn or self._first_metrics()
        for index, version in enumerate(self._runs.line_versions):
            stale = [name for name in names if self._sent.get((index, name)) != version]
            if not stale:
                continue
            self._sent.update(((index, name), version) for name in stale)
            columns = line_columns(self._runs.lines[index], stale, max_points(len(self._runs.runs)))
            told.append({"run": index, **columns})
            size += len(str(columns))
            if size >= limit:
                break
        return {"kind": "lines", "runs": told} if told else None

    def _first_metrics(self) -> tuple[str, ...]:
        """The metrics of the first charts, which a page shows unless it says otherwise."""
        charts = [chart for chart in self.facts["charts"] if chart["is_default"]][:FIRST_CHARTS]
        return tuple(line["name"] for chart in charts for line in chart["lines"])


def max_points(runs: int) -> int:
    """How many points a line of so many runs may have."""
    return max(MIN_POINTS, min(MAX_POINTS, POINTS // max(1, runs)))


def line_columns(lines: Overlay, names: Collection[str], limit: int) -> PageData:
    """A run's lines, downsampled with the last point kept, and other x axes by step (`RunLines`)."""
    drawn = {traits.name: values for traits, values in lines.metrics.items()}
    return {
        "metrics": {name: _columns(drawn.get(name, {}), limit) for name in names},
        "scales": {
            _SCALES[name]: _columns(places, MAX_KNOTS)
            for name, places in lines.x_values.items()
            if places and name in _SCALES and not (name == "seconds" and "time" in lines.x_values)
        },
    }


_SCALES = {"epoch": "epoch", "time": "time", "seconds": "time", "images": "images"}


def _columns(values: Mapping[float, float], limit: int) -> list[list[float | None]]:
    """Steps and values."""
    steps = _downsampled(sorted(values), limit)
    return [[json_number(step) for step in steps], [json_number(values[step]) for step in steps]]


def _downsampled(steps: list[float], limit: int) -> list[float]:
    """Every n-th step and the last one.

    As n is a power of two, points stay where they are while a line grows, and equal steps stay equal.
    """
    stride = 1
    while len(steps) > stride * limit:
        stride *= 2
    chosen = steps[::stride]
    return chosen if not steps or chosen[-1] == steps[-1] else [*chosen, steps[-1]]


def show(value: Comparison | Scaling, publisher: Publisher, *, ui: str) -> None:
    """Shows runs beneath the cell and follows those that run until they end.

    `ui` is `html` (a table and a figure, refreshed), `text` (the table, replaced by the final one), or
    anything else for a live view. At the end the table and the figure stay; a page keeps the live view.
    """
    key, feed = _shared_feed(value, publisher)
    for older in publisher.outputs(key):
        if isinstance(older, (ComparisonOutput, TextComparisonOutput)):
            older.close()  # only the newest static output of the same runs is refreshed
    output = _OUTPUTS.get(ui, _live_output)(key, feed, publisher)
    output.open()
    publisher.add(output)


def embed(value: Comparison, publisher: Publisher) -> str:
    """Creates a live view for embedding in another one; returns its model's id."""
    key, feed = _shared_feed(value, publisher)
    inner = EmbeddedComparison(key, _view(feed, publisher), feed, clock=publisher.clock)
    publisher.add(inner)
    return str(inner.view.model_id)


def _shared_feed(value: Comparison | Scaling, publisher: Publisher) -> tuple[str, ComparisonFeed]:
    """The feed that all views of these runs share, with its key."""
    made = (ScalingFeed if isinstance(value, Scaling) else ComparisonFeed)(value.runs, clock=publisher.clock)
    if isinstance(value, Comparison):
        made.preferences = value.preferences
    elif isinstance(made, ScalingFeed):
        made.metric = value.metric
    names = [job.id.key for job in made.jobs.values()]
    key = " ".join([made.kind, *(run.name for run in value.runs), *names])
    source = ComparisonSource(made.jobs, clock=publisher.clock)
    return key, publisher.feed(key, lambda: (source, made), max_interval_s=POLL_S)


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

    feed: FigureFeed[Any]

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

    feed: FigureFeed[Any]

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
    """The live view, which a page keeps when all jobs have ended; beside it the table, then the figure."""

    feed: FigureFeed[Any]

    def __init__(self, key: str, view: DashboardView, feed: FigureFeed[Any], *, clock: Clock) -> None:
        super().__init__(key, view, feed, clock=clock)
        self._has_figure_place = display.is_asked_by_page()  # else nothing keeps the view, nor its snapshot
        self._is_final = False  # the table and the figure beside the view are the final ones

    @property
    def is_unwatched(self) -> bool:
        """Whether polling can pause: jobs are followed to their ends for the final figure."""
        return self.feed.is_over and super().is_unwatched

    def open(self) -> None:
        """Shows the view, its hidden snapshot and the place of the figure beneath the running cell."""
        super().open()
        if self._has_figure_place:
            display.show(display.EMPTY, self.figure_id)

    @property
    def figure_id(self) -> str:
        """The display id of the figure: where no page has asked for the view, the snapshot's."""
        return f"{self.id}-figure" if self._has_figure_place else self.second_id

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        sent = super().send_next(limit_bytes)
        if sent or self.is_frozen or not self.feed.is_over or self._is_final:
            return sent
        self._is_final = True
        sent = self._update(self._snapshot(), self.second_id)
        return sent + (_show_chart(self.feed, self.figure_id) if self._has_figure_place else 0)

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Shows the final table and figure if all jobs have ended and no page can show the view."""
        if not (self.view.has_page or self._is_hello_pending):
            _freeze_if_ended(self, self.feed, wait_for)

    def republish(self) -> int:
        """Publishes the table and the figure again for a page that says hello."""
        if self.is_closed or not self.view.has_page:
            return 0
        with self._freezing:
            return self._freeze()

    def _freeze(self) -> int:
        self.view.has_page = False
        display.update(display.EMPTY, self.second_id)
        return DashboardOutput._freeze(self) + _show_chart(self.feed, self.figure_id)

    def _is_over(self) -> bool:
        """Whether all jobs have ended, and no page shows the view or it has not been used for a long time."""
        if not self.feed.is_over:
            return False
        is_watched = (self.view.has_page and not self.view.is_stale) or self._is_hello_pending
        if not is_watched:
            return True
        if self.view.is_in_use or self._updated_version != self.feed.version:
            self._changed_at = self._clock()
        return self._clock() - self._changed_at > IDLE_S


class EmbeddedComparison(EmbeddedOutput, LiveComparison):
    """Compared runs embedded in another view."""


def _view(feed: ComparisonFeed, publisher: Publisher) -> ComparisonView:
    return ComparisonView(
        feed, view_id=uuid.uuid4().hex, work=publisher.run_in_background, clock=publisher.clock
    )


def _live_output(key: str, feed: ComparisonFeed, publisher: Publisher) -> DashboardOutput:
    return LiveComparison(key, _view(feed, publisher), feed, clock=publisher.clock)


_OUTPUTS: dict[str, Callable[[str, ComparisonFeed, Publisher], DashboardOutput]] = {
    "html": lambda key, feed, publisher: ComparisonOutput(key, feed, clock=publisher.clock),
    "text": lambda key, feed, publisher: TextComparisonOutput(key, feed, clock=publisher.clock),
}


def _freeze_if_ended(output: DashboardOutput, feed: FigureFeed[Any], wait_for: WaitFor) -> None:
    if not output.is_frozen and feed.has_ended and wait_for(lambda: feed.is_over):
        output.freeze()


def _show_chart(feed: FigureFeed[Any], display_id: str) -> int:
    bundle = feed.chart()
    display.update(bundle, display_id)
    return sum(map(len, bundle.values()))


def _static_text(value: Comparison | Scaling) -> str:
    """The table and the jobs still running, since a text output is not updated."""
    going = [run.name for run in value.runs if run.is_running]
    rest = f"\nStill running: {', '.join(going)}. Run the same line again later for more." if going else ""
    return f"{value!r}{rest}"
