"""Compared runs in a cell's output: live, as refreshed HTML or as text; at the end a table and a figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from batchai_magics.jobs.job_handle import Job
from batchai_magics.metrics import Comparison, Scaling
from batchai_magics.widgets.comparison.comparison_view import (
    ComparisonModel,
    ComparisonStream,
    FigureModel,
    ScalingModel,
)
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.cell_output import EmbeddedOutput, KernelWidget, WaitFor
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.core.view_stream import Clock
from batchai_magics.widgets.dashboards.dashboard import DashboardStream
from batchai_magics.widgets.dashboards.dashboard_output import IDLE_S, DashboardOutput, LiveDashboard

if TYPE_CHECKING:
    from batchai_magics.widgets.core.publisher import Publisher


def show(value: Comparison | Scaling, publisher: Publisher, *, ui: str) -> None:
    """Shows runs beneath the cell and follows those that run until they end; `ui` as for `show_figure`."""
    key, model = shared_model(value, publisher)
    show_figure(key, model, lambda: _view(model, publisher), publisher, ui=ui)


def show_figure(
    key: str, model: FigureModel, make_view: Callable[[], DashboardStream], publisher: Publisher, *, ui: str
) -> None:
    """Shows a model beneath the cell until everything in it has ended.

    `ui` is `html` (a table and a figure, refreshed), `text` (the table, replaced by the final one), or
    anything else for a live view. At the end the table and the figure stay; a page keeps the live view.
    """
    for older in publisher.outputs(key):
        if isinstance(older, ComparisonOutput):
            older.close()  # only the newest static output of the same runs is refreshed
    output: DashboardOutput
    if ui in ("html", "text"):
        output = ComparisonOutput(key, model, clock=publisher.clock, is_text=ui == "text")
    else:
        output = LiveComparison(key, make_view(), model, clock=publisher.clock)
    output.open()
    publisher.add(output)


def embed(value: Comparison, publisher: Publisher) -> str:
    """Creates a live view for embedding in another one; returns its widget's id."""
    key, model = shared_model(value, publisher)
    view = _view(model, publisher)
    widget = KernelWidget(view)
    publisher.add(EmbeddedOutput(key, model, view))
    return str(widget.model_id)


def shared_model(value: Comparison | Scaling, publisher: Publisher) -> tuple[str, ComparisonModel]:
    """The model that all views of these runs share, with its key."""
    model: ComparisonModel
    if isinstance(value, Scaling):
        model = ScalingModel(value.runs, metric=value.metric, clock=publisher.clock)
    else:
        model = ComparisonModel(value.runs, preferences=value.preferences, clock=publisher.clock)
    sources = (run.source.id.key if isinstance(run.source, Job) else run.name for run in value.runs)
    key = " ".join([model.kind, *sources, *(job.id.key for job in model.jobs.values())])
    return key, publisher.model(key, lambda: model)


def _view(model: ComparisonModel, publisher: Publisher) -> ComparisonStream:
    return ComparisonStream(model, work=publisher.run_in_background, clock=publisher.clock)


def show_static(value: Comparison | Scaling, *, ui: str) -> None:
    """Shows the table and below it the figure; as text, the table only."""
    if ui == "text":
        running = ", ".join(run.name for run in value.runs if run.is_running)
        rest = f"\nStill running: {running}. Run the same line again later for more." if running else ""
        display.show({"text/plain": f"{value!r}{rest}"}, "")  # a text output is not updated
        return
    display.show({"text/html": value._repr_html_(), "text/plain": repr(value)}, "")
    names = ", ".join(run.name for run in value.runs)
    display.show(display.figure(value.plot(), f"Chart of {names}"), "")


class ComparisonOutput(DashboardOutput):
    """The table and below it the figure, refreshed until all jobs have ended.

    With `is_text`, it is the table as text, replaced once by the final one.
    """

    model: FigureModel

    def __init__(self, key: str, model: FigureModel, *, clock: Clock, is_text: bool) -> None:
        super().__init__(key, model, clock=clock)
        self._is_text = is_text
        self._opened: Bundle = {}

    def open(self) -> None:
        """Shows both beneath the running cell."""
        self._opened = self._render()
        display.show(self._opened, self.id)
        if not self._is_text:
            display.show(self.model.chart(), self.second_id)

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        return 0 if self._is_text and not self.model.is_over else super().send_next(limit_bytes)

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Shows the final table and figure if all jobs have ended."""
        _freeze_if_ended(self, self.model, wait_for)

    def _freeze(self) -> int:
        if self._is_text and self._render() == self._opened:  # a terminal would print it again
            self.is_frozen = True
            return 0
        return super()._freeze() + self._show_chart()

    def _is_over(self) -> bool:
        return self.model.is_over

    def _update(self, bundle: Bundle, display_id: str) -> int:
        return super()._update(bundle, display_id) + self._show_chart()

    def _render(self) -> Bundle:
        bundle = super()._render()
        return {"text/plain": bundle["text/plain"]} if self._is_text else bundle

    def _show_chart(self) -> int:
        return 0 if self._is_text else _show_chart(self.model, self.second_id)


class LiveComparison(LiveDashboard):
    """The live view, which a page keeps when all jobs have ended; beside it the table, then the figure."""

    model: FigureModel

    def __init__(self, key: str, view: DashboardStream, model: FigureModel, *, clock: Clock) -> None:
        super().__init__(key, view, model, clock=clock)
        self._has_figure_output = display.is_requested_by_page()  # else the figure replaces the snapshot
        self._is_final = False  # the table and the figure beside the view are the final ones

    @property
    def is_unwatched(self) -> bool:
        """Whether polling can pause: jobs are followed to their ends for the final figure."""
        return self.model.is_over and super().is_unwatched

    def open(self) -> None:
        """Shows the view, its hidden snapshot and an empty output for the figure beneath the running cell."""
        super().open()
        if self._has_figure_output:
            display.show(display.EMPTY, self.figure_id)

    @property
    def figure_id(self) -> str:
        """The display id of the figure; without a page that requested the view, the snapshot's."""
        return f"{self.id}-figure" if self._has_figure_output else self.second_id

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        sent = super().send_next(limit_bytes)
        if sent or self.is_frozen or not self.model.is_over or self._is_final:
            return sent
        self._is_final = True
        return self._refresh()

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Shows the final table and figure if all jobs have ended and no page can show the view."""
        if not (self.view.has_page or self._is_hello_pending):
            _freeze_if_ended(self, self.model, wait_for)

    def republish(self) -> int:
        """Publishes the table and the figure again for a page that says hello."""
        if self.is_closed or not self.view.has_page:
            return 0
        with self._freezing:
            return self._freeze()

    def _outputs_below(self) -> dict[str, Bundle]:
        has_figure = self._has_figure_output and self.model.is_over
        return super()._outputs_below() | ({self.figure_id: self.model.chart()} if has_figure else {})

    def _last_outputs(self) -> dict[str, Bundle]:
        return super()._last_outputs() | {self.figure_id: self.model.chart()}

    def _is_over(self) -> bool:
        """Whether all jobs have ended, and no page shows the view or it has not been used for a long time."""
        if not self.model.is_over:
            return False
        is_watched = (self.view.has_page and not self.view.is_unwatched) or self._is_hello_pending
        if not is_watched:
            return not self.view.is_in_use
        if self.view.is_in_use or self._updated_version != self.model.version:
            self._changed_at = self._clock()
        return self._clock() - self._changed_at > IDLE_S


def _freeze_if_ended(output: DashboardOutput, model: FigureModel, wait_for: WaitFor) -> None:
    if not output.is_frozen and model.has_ended and wait_for(lambda: model.is_over):
        output.freeze()


def _show_chart(model: FigureModel, display_id: str) -> int:
    bundle = model.chart()
    display.update(bundle, display_id)
    return sum(map(len, bundle.values()))
