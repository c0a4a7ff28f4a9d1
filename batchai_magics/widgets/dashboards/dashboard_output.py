"""A cluster or a list of jobs in a cell's output: live or as refreshed HTML, frozen when idle, or as text."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.models.resource_ids import Kind
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.cell_output import CellOutput, LiveOutput, WaitFor
from batchai_magics.widgets.core.display import EMPTY, Bundle, bundle_bytes
from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES
from batchai_magics.widgets.core.view_stream import Clock
from batchai_magics.widgets.dashboards.cluster_dashboard import ClusterModel, ClusterStream
from batchai_magics.widgets.dashboards.dashboard import DashboardModel, DashboardStream, OpenJobs
from batchai_magics.widgets.dashboards.jobs_dashboard import JobsModel, JobsStream

if TYPE_CHECKING:
    from batchai_magics.commands.output.command_result import LiveResult
    from batchai_magics.widgets.core.publisher import Publisher

IDLE_S = 600.0  # without a change, after which a dashboard is frozen


class DashboardOutput(CellOutput):
    """HTML that is refreshed until it is closed, or until nothing has changed for `IDLE_S`."""

    model: DashboardModel

    def __init__(self, key: str, model: DashboardModel, *, clock: Clock, id: str = "") -> None:
        super().__init__(key, model, clock=clock, id=id)
        self._changed_at = self._updated_at

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Does nothing: the output can still be refreshed after its cell has ended."""

    def _render(self) -> Bundle:
        return self.model.bundle()

    def _is_over(self) -> bool:
        """Whether the resource was deleted, or nothing has changed for a long time."""
        if self.model.is_over:
            return True
        if self._is_active:
            self._changed_at = self._clock()
        return self._clock() - self._changed_at > IDLE_S

    def _is_stale(self, *, is_late: bool) -> bool:
        return self._is_active and is_late

    @property
    def _is_active(self) -> bool:
        """Whether the output is stale, or soon will be."""
        return self._updated_version != self.model.version or not self.model.is_at_rest


class LiveDashboard(LiveOutput, DashboardOutput):
    """A live view, with a snapshot for the saved notebook; polling pauses while no page shows it."""

    view: DashboardStream

    def __init__(
        self, key: str, view: DashboardStream, model: DashboardModel, *, clock: Clock, is_kept: bool = False
    ) -> None:
        super().__init__(key, model, clock=clock)
        self._attach(view, is_kept=is_kept)
        self._is_awaiting_page = False  # frozen until a page says hello

    @property
    def is_unwatched(self) -> bool:
        """Whether no page shows the view, so that polling can pause."""
        return self.view.is_unwatched

    def _is_over(self) -> bool:
        return (
            super()._is_over() and not self.view.is_in_use and not (self._is_kept and not self.model.is_over)
        )

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Freezes the view unless a page has said hello, or may still do so within `HELLO_S`.

        A page that says hello later gets the live view back.
        """
        if not (self.view.has_page or self.view.is_removed or self._is_hello_pending):
            wait_for(lambda: not self.model.is_behind)  # the notebook keeps what is read by now
            self._is_awaiting_page = True
            self.freeze()

    def republish(self) -> int:
        """Answers a page that says hello: with the snapshot, or with the live view again."""
        if self.view.is_removed and not self._is_awaiting_page:
            self.close()
        if self.is_closed or not self.view.has_page:
            return 0
        with self._freezing:
            if not self._is_awaiting_page:
                return self._freeze()
            self._is_awaiting_page = self.is_frozen = False
            self._show_view(display.update)
            display.update(self._snapshot(), self.second_id)
            return OVERHEAD_BYTES

    def _freeze(self) -> int:
        outputs = self._last_outputs()
        sent = self.widget.replace_outputs(*outputs.values())
        self.view.has_page = False
        for id, bundle in outputs.items():
            display.update(bundle, id)
        self.is_frozen = True
        return sent + sum(map(bundle_bytes, outputs.values()))

    def _last_outputs(self) -> dict[str, Bundle]:
        """What replaces the view and the outputs below it, by display id."""
        return {self.id: self._render(), self.second_id: EMPTY}


def show(subject: LiveResult, publisher: Publisher, open_jobs: OpenJobs, *, ui: str) -> None:
    """Shows a cluster or a list of jobs beneath the cell; `ui` as in `widgets.show`, without `text`."""
    key = subject.id.key
    if subject.selected:
        key = f"{key} {' '.join(sorted(subject.selected.names))}"
    model = publisher.model(key, lambda: _polled_model(subject, publisher.clock))
    for older in publisher.outputs(key):
        if not isinstance(older, LiveDashboard):
            older.close()  # only the newest HTML output of a resource is refreshed
    clock, work = publisher.clock, publisher.run_in_background
    output = DashboardOutput(key, model, clock=clock)
    if ui != "html":
        view: DashboardStream
        if isinstance(model, ClusterModel):
            view = ClusterStream(model, work=work, clock=clock)
        else:
            view = JobsStream(model, work=work, clock=clock, open_jobs=open_jobs)
        output = LiveDashboard(key, view, model, clock=clock, is_kept=ui == "widget")
    output.open()
    publisher.add(output)


def show_text(subject: LiveResult) -> None:
    """Shows the current state of a cluster or a list of jobs as text."""
    model = _polled_model(subject, time.monotonic)
    while model.is_behind:
        model.poll()
    display.show({"text/plain": model.bundle()["text/plain"]}, "")


def _polled_model(subject: LiveResult, clock: Clock) -> ClusterModel | JobsModel:
    """A model with the current state of a cluster or of an experiment's jobs."""
    model: ClusterModel | JobsModel
    if subject.id.kind is Kind.CLUSTER:
        model = ClusterModel(subject.backend, subject.id, clock=clock)
    else:
        preferences = metric_preferences()
        model = JobsModel(
            subject.backend, subject.id, preferences=preferences, selected=subject.selected, clock=clock
        )
    model.poll()
    return model
