"""Clusters and lists of jobs, shown in the way that the settings ask for."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol

from batchai_magics.backends.base import Backend
from batchai_magics.jobs.handle import Job
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.widgets.boards.board import Board, LiveBoard
from batchai_magics.widgets.boards.cluster_feed import LONGEST_S as CLUSTER_LONGEST_S
from batchai_magics.widgets.boards.cluster_feed import ClusterFeed, ClusterSource
from batchai_magics.widgets.boards.jobs_feed import LONGEST_S as JOBS_LONGEST_S
from batchai_magics.widgets.boards.jobs_feed import JobsFeed, JobsSource
from batchai_magics.widgets.core import display

if TYPE_CHECKING:
    from batchai_magics.widgets.boards.board_view import BoardView
    from batchai_magics.widgets.core.publisher import Publisher


class Subject(Protocol):
    """What is shown: a cluster, or the jobs of an experiment."""

    @property
    def backend(self) -> Backend:
        """Where it is."""

    @property
    def id(self) -> ResourceId:
        """The cluster's id, or the experiment's."""


class Opener(Protocol):
    """Makes a job's live view inside another view, and gives its model's id."""

    def __call__(self, job: Job) -> str:
        """The id of the view's model."""


def show(subject: Subject, publisher: Publisher, open_job: Opener, *, ui: str) -> None:
    """Shows a cluster or a list of jobs beneath the running cell; `ui` as for a job, but not `text`."""
    key, feed = subject.id.key, _feed(subject, publisher)
    for older in publisher.showings(key):
        if not isinstance(older, LiveBoard):
            older.close()  # of two pictures of one thing, only the newest is refreshed
    board = Board(key, feed, clock=publisher.clock)
    if ui != "html":
        view = _view(subject, feed, publisher, open_job)
        board = LiveBoard(key, view, feed, clock=publisher.clock, is_kept=ui == "widget")
    board.open()
    publisher.add(board)


def show_text(subject: Subject) -> None:
    """Shows a cluster or a list of jobs as text, as it stands."""
    source, feed = _made(subject)
    while True:
        for event in source.poll():
            feed.take(event)  # type: ignore[arg-type]  # source and feed are of one kind
        if not source.is_behind:
            break
    display.show({"text/plain": feed.bundle()["text/plain"]}, "")


def _feed(subject: Subject, publisher: Publisher) -> ClusterFeed | JobsFeed:
    """The feed, which knows the state as it is now."""

    def make() -> tuple[ClusterSource | JobsSource, ClusterFeed | JobsFeed]:
        source, feed = _made(subject)
        for event in source.poll():
            feed.take(event)  # type: ignore[arg-type]  # as above
        return source, feed

    is_cluster = subject.id.kind is Kind.CLUSTER
    return publisher.feed(subject.id.key, make, longest_s=CLUSTER_LONGEST_S if is_cluster else JOBS_LONGEST_S)


def _made(subject: Subject) -> tuple[ClusterSource, ClusterFeed] | tuple[JobsSource, JobsFeed]:
    if subject.id.kind is Kind.CLUSTER:
        return ClusterSource(subject.backend, subject.id), ClusterFeed(subject.id)
    return JobsSource(subject.backend, subject.id), JobsFeed(subject.id)


def _view(
    subject: Subject, feed: ClusterFeed | JobsFeed, publisher: Publisher, open_job: Opener
) -> BoardView:
    view_id = uuid.uuid4().hex
    if isinstance(feed, ClusterFeed):
        from batchai_magics.widgets.boards.live_views import ClusterView

        return ClusterView(subject.backend, feed, view_id=view_id, work=publisher.do, clock=publisher.clock)
    from batchai_magics.widgets.boards.live_views import JobsView

    def open_one(id: ResourceId) -> str:
        return open_job(Job(subject.backend, id))

    return JobsView(feed, view_id=view_id, work=publisher.do, clock=publisher.clock, open_job=open_one)
