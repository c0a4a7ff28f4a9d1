"""The source of compared runs: several jobs followed side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.follow import METRICS_FILES, Event, Follower
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.runs.labels import Labels

POLL_S = 1.0  # poll interval of the jobs
LABELS_INTERVAL_S = 10.0  # between two reads of their labels


@dataclass(frozen=True)
class RunEvents:
    """New events of a run's job."""

    run_index: int
    events: Sequence[Event]


@dataclass(frozen=True)
class RunDeleted:
    """The job of a run was deleted; it keeps the records read so far."""

    run_index: int


@dataclass(frozen=True)
class LabelsRead:
    """The labels of runs by index: tags and parameters, which may have changed."""

    labels: Mapping[int, Labels]


ComparisonEvent = RunEvents | RunDeleted | LabelsRead


class ComparisonSource:
    """Jobs by run index, each followed to its end; of their logs only stdout is read.

    A job that is deleted meanwhile ends with the records read so far.
    """

    def __init__(self, jobs: Mapping[int, Job], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due_at = clock()
        self._jobs = jobs
        self._labels_due_at = clock() + LABELS_INTERVAL_S
        self._followers = {
            index: Follower(
                job.backend, job.id, [FileRef(job.id, file) for file in METRICS_FILES], job.patterns
            )
            for index, job in jobs.items()
        }

    @property
    def is_over(self) -> bool:
        """Whether all jobs have ended and their logs have been read."""
        return all(follower.is_over for follower in self._followers.values())

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""
        return any(follower.is_behind for follower in self._followers.values())

    def poll(self) -> list[ComparisonEvent]:
        """Returns the events since the last poll; polls at most once per second."""
        if self._clock() < self._due_at and not self.is_behind:
            return []
        self._due_at = self._clock() + POLL_S
        events = [event for index in self._followers for event in self._poll_run(index)]
        return [*events, *self._poll_labels()]

    def _poll_labels(self) -> list[ComparisonEvent]:
        """Reads the labels of the jobs, with one request, at intervals and once more at the end."""
        records = next((job.backend.records for job in self._jobs.values()), None)
        if records is None or (self._clock() < self._labels_due_at and not self.is_over):
            return []
        self._labels_due_at = self._clock() + LABELS_INTERVAL_S
        try:
            found = records.labels([job.id for job in self._jobs.values()])
        except BatchAIError:  # tried again at the next interval
            return []
        return [LabelsRead({i: found[job.id.key] for i, job in self._jobs.items() if job.id.key in found})]

    def _poll_run(self, index: int) -> list[ComparisonEvent]:
        follower = self._followers[index]
        try:
            events = follower.poll()
        except NotFoundError:
            follower.is_over = True
            return [RunDeleted(index)]
        return [RunEvents(index, events)] if events else []
