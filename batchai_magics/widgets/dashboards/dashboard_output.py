"""A cluster or a list of jobs in a cell's output: live or as refreshed HTML, frozen when idle, or as text."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from batchai_magics.backends.base import Backend
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.cell_output import REFRESH_INTERVAL_S, CellOutput, Clock, LiveOutput, WaitFor
from batchai_magics.widgets.core.display import EMPTY, Bundle
from batchai_magics.widgets.core.feed import DashboardFeed
from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES
from batchai_magics.widgets.dashboards.cluster_dashboard import MAX_POLL_S as CLUSTER_POLL_S
from batchai_magics.widgets.dashboards.cluster_dashboard import ClusterFeed, ClusterSource, ClusterView
from batchai_magics.widgets.dashboards.dashboard_view import DashboardView
from batchai_magics.widgets.dashboards.jobs_dashboard import MAX_POLL_S as JOBS_POLL_S
from batchai_magics.widgets.dashboards.jobs_dashboard import JobsFeed, JobsSource, JobsView

if TYPE_CHECKING:
    from batchai_magics.commands.output.command_result import SelectedJobs
    from batchai_magics.widgets.core.publisher import Publisher

IDLE_S = 600.0  # without a change, after which a dashboard is frozen


class DashboardOutput(CellOutput):
    """HTML that is refreshed until it is closed, or until nothing has changed for `IDLE_S`."""

    feed: DashboardFeed[Any]

    def __init__(self, key: str, feed: DashboardFeed[Any], *, clock: Clock) -> None:
        super().__init__(key, feed, clock=clock)
        self._changed_at = self._updated_at

    def open(self) -> None:
        """Shows it beneath the running cell."""
        display.show(self._render(), self.id)

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self._is_over():
            return self.freeze()
        return self._update(self._render(), self.id) if self._is_due(REFRESH_INTERVAL_S, limit_bytes) else 0

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Does nothing: the output can still be refreshed after its cell has ended."""

    def _render(self) -> Bundle:
        return self.feed.bundle()

    def _is_over(self) -> bool:
        """Whether the resource was deleted, or nothing has changed for a long time."""
        if self.feed.is_over:
            return True
        if self._is_active:
            self._changed_at = self._clock()
        return self._clock() - self._changed_at > IDLE_S

    def _is_due(self, interval_s: float, limit_bytes: int) -> bool:
        """Whether a refresh is due and fits the budget."""
        is_late = self._clock() - self._updated_at >= interval_s
        return limit_bytes >= OVERHEAD_BYTES and self._is_active and is_late

    @property
    def _is_active(self) -> bool:
        """Whether the output is stale, or soon will be."""
        return self._updated_version != self.feed.version or not self.feed.is_at_rest


class LiveDashboard(LiveOutput, DashboardOutput):
    """A live view, with a snapshot for the saved notebook; polling pauses while no page shows it."""

    view: DashboardView

    def __init__(
        self, key: str, view: DashboardView, feed: DashboardFeed[Any], *, clock: Clock, is_kept: bool = False
    ) -> None:
        super().__init__(key, feed, clock=clock)
        self.id = view.view_id
        self.second_id = f"{self.id}-second"
        self._attach(view, is_kept=is_kept)
        self._is_awaiting_page = False  # frozen until a page says hello

    @property
    def is_unwatched(self) -> bool:
        """Whether no page shows the view, so that polling can pause."""
        return self.view.is_stale

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self._is_over() and not self.view.is_in_use and not (self._is_kept and not self.feed.is_over):
            return self.freeze()
        sent = self.view.send_next(limit_bytes)
        if sent or not self._is_due(self._snapshot_interval_s, limit_bytes):
            return sent
        return self._update(self._snapshot(), self.second_id)

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Freezes the view unless a page has said hello, or may still do so within `HELLO_S`.

        A page that says hello later gets the live view back.
        """
        if not (self.view.has_page or self.view.is_removed or self._is_hello_pending):
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
        self.view.has_page = False
        display.update(EMPTY, self.second_id)
        return super()._freeze()


class Subject(Protocol):
    """What a dashboard shows: a cluster, or the jobs of an experiment."""

    @property
    def backend(self) -> Backend:
        """The backend that holds it."""

    @property
    def id(self) -> ResourceId:
        """The id of the cluster or the experiment."""

    @property
    def selected(self) -> SelectedJobs | None:
        """The jobs of the experiment that are shown; None for all."""


class Opener(Protocol):
    """Embeds a job's live view, or a comparison of several jobs, in another view."""

    def __call__(self, *jobs: Job) -> str:
        """Returns the id of the embedded view's model."""


def show(subject: Subject, publisher: Publisher, open_jobs: Opener, *, ui: str) -> None:
    """Shows a cluster or a list of jobs beneath the cell; `ui` as in `widgets.show`, without `text`."""
    key, feed = _key(subject), _shared_feed(subject, publisher)
    for older in publisher.outputs(key):
        if not isinstance(older, LiveDashboard):
            older.close()  # only the newest HTML output of a resource is refreshed
    dashboard = DashboardOutput(key, feed, clock=publisher.clock)
    if ui != "html":
        view = _view(subject, feed, publisher, open_jobs)
        dashboard = LiveDashboard(key, view, feed, clock=publisher.clock, is_kept=ui == "widget")
    dashboard.open()
    publisher.add(dashboard)


def show_text(subject: Subject) -> None:
    """Shows the current state of a cluster or a list of jobs as text."""
    source, feed = _source_and_feed(subject)
    while True:
        for event in source.poll():
            feed.take(event)  # type: ignore[arg-type]  # source and feed have the same event type
        if not source.is_behind:
            break
    display.show({"text/plain": feed.bundle()["text/plain"]}, "")


def _shared_feed(subject: Subject, publisher: Publisher) -> ClusterFeed | JobsFeed:
    """The feed that all views of the resource share, filled with the current state."""

    def make() -> tuple[ClusterSource | JobsSource, ClusterFeed | JobsFeed]:
        source, feed = _source_and_feed(subject)
        for event in source.poll():
            feed.take(event)  # type: ignore[arg-type]  # as above
        return source, feed

    is_cluster = subject.id.kind is Kind.CLUSTER
    return publisher.feed(_key(subject), make, max_interval_s=CLUSTER_POLL_S if is_cluster else JOBS_POLL_S)


def _key(subject: Subject) -> str:
    """What identifies the feed that views share: the resource, and which of its jobs they show."""
    selected = subject.selected
    return f"{subject.id.key} {' '.join(sorted(selected.names))}" if selected else subject.id.key


def _source_and_feed(subject: Subject) -> tuple[ClusterSource, ClusterFeed] | tuple[JobsSource, JobsFeed]:
    if subject.id.kind is Kind.CLUSTER:
        return ClusterSource(subject.backend, subject.id), ClusterFeed(subject.id)
    selected = subject.selected
    names, options = (selected.names, f" {selected.options}") if selected else (None, "")
    source = JobsSource(subject.backend, subject.id, preferences=metric_preferences(), names=names)
    return source, JobsFeed(subject.id, options)


def _view(
    subject: Subject, feed: ClusterFeed | JobsFeed, publisher: Publisher, open_jobs: Opener
) -> DashboardView:
    view_id = uuid.uuid4().hex
    if isinstance(feed, ClusterFeed):
        return ClusterView(
            subject.backend, feed, view_id=view_id, work=publisher.run_in_background, clock=publisher.clock
        )

    def open_by_id(ids: Sequence[ResourceId]) -> str:
        return open_jobs(*(Job(subject.backend, id) for id in ids))

    return JobsView(
        feed, view_id=view_id, work=publisher.run_in_background, clock=publisher.clock, open_jobs=open_by_id
    )
