"""Where the news of several jobs come from: their logs, followed side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import NotFoundError
from batchai_magics.follow import METRICS_FILE, Event, Follower, LogBytes, MetricsSeen, StateChanged
from batchai_magics.jobs.handle import Job
from batchai_magics.metrics.record import Record

LOOK_S = 1.0  # between two looks at the jobs
DELETED = "deleted"


@dataclass(frozen=True)
class RunGrew:
    """The run at `place` has told more. `is_restarted`: its log was cut, what it told before is void."""

    place: int
    records: Collection[Record]
    is_restarted: bool = False


@dataclass(frozen=True)
class RunMoved:
    """The run at `place` is in another state."""

    place: int
    state: str


@dataclass(frozen=True)
class Looked:
    """All jobs have been looked at."""


News = RunGrew | RunMoved | Looked


class ComparisonSource:
    """Jobs by their places, each followed to its end; of their logs only stdout is read.

    A job that is deleted meanwhile has ended with what it had told.
    """

    def __init__(self, jobs: Mapping[int, Job], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due_at = clock()
        self._followers = {
            place: Follower(job.backend, job.id, [FileRef(job.id, METRICS_FILE)], job.patterns)
            for place, job in jobs.items()
        }

    @property
    def is_over(self) -> bool:
        """Whether all jobs have ended and their logs are read."""
        return all(follower.is_over for follower in self._followers.values())

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read at once."""
        return any(follower.is_behind for follower in self._followers.values())

    def poll(self) -> list[News]:
        """The news since the last time, at most once a second."""
        if self._clock() < self._due_at and not self.is_behind:
            return []
        self._due_at = self._clock() + LOOK_S
        news = [item for place in self._followers for item in self._look(place)]
        return [*news, Looked()]

    def _look(self, place: int) -> list[News]:
        follower = self._followers[place]
        try:
            return [item for event in follower.poll() for item in _news_of(place, event)]
        except NotFoundError:
            follower.is_over, follower.is_behind = True, False
            return [RunMoved(place, DELETED)]


def _news_of(place: int, event: Event) -> list[News]:
    if isinstance(event, MetricsSeen):
        return [RunGrew(place, event.records)]
    if isinstance(event, StateChanged):
        return [RunMoved(place, event.job.word)]
    if isinstance(event, LogBytes) and event.restarted:
        return [RunGrew(place, (), is_restarted=True)]
    return []
