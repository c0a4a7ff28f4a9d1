"""What is known of an experiment's jobs: looked at by the publisher, read by all its views."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from batchai_magics.backends.base import Backend
from batchai_magics.cards.jobs import JobsCard, cluster_of, to_html, to_text
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.jobs.progress import counts
from batchai_magics.metrics.progress.progress_reader import Progress
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from batchai_magics.widgets.boards.rates import RateReader
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.core.feed import BoardFeed
from batchai_magics.widgets.job.facts import execution_of

LONGEST_S = 4.0  # between two looks while nothing happens
MOST_ROWS = 200  # the newest ones are shown
MOST_READS = 8  # log files of one look


@dataclass(frozen=True)
class JobsSeen:
    """The jobs of an experiment, newest first, which are not what they were."""

    jobs: tuple[JobResource, ...]


@dataclass(frozen=True)
class RatesSeen:
    """A job has told new images/sec, or how far it is."""

    job: str
    values: list[float]
    progress: Progress | None = None


class JobsSource:
    """An experiment's jobs, looked at again and again. It is never over.

    An experiment that is not there (yet) has no jobs.
    """

    is_over = False

    def __init__(
        self, backend: Backend, experiment: ResourceId, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._backend = backend
        self._experiment = experiment
        self._clock = clock
        self._due_at = 0.0
        self._last: tuple[JobResource, ...] | None = None
        self._readers: dict[str, RateReader] = {}
        self.is_behind = False  # logs of ended jobs are still to be read

    def poll(self) -> list[JobsSeen | RatesSeen]:
        """What is new: the jobs, if any has changed, and the images/sec of some.

        The jobs are listed, all in one question, as often as the backend's pace allows.
        """
        is_due = self._last is None or self._clock() >= self._due_at
        jobs = self._jobs() if is_due else self._last or ()
        news: list[JobsSeen | RatesSeen] = []
        if jobs != self._last:
            self._last = jobs
            news.append(JobsSeen(jobs))
        return [*news, *self._rates(jobs[:MOST_ROWS])]

    def _jobs(self) -> tuple[JobResource, ...]:
        self._due_at = self._clock() + self._backend.capabilities.pace.look_s
        try:
            listed = self._backend.list(self._experiment, Kind.JOB)
        except NotFoundError:
            return ()
        return tuple(job for job in reversed(listed) if isinstance(job, JobResource))

    def _rates(self, jobs: tuple[JobResource, ...]) -> list[RatesSeen]:
        """Reads a few logs in one look, in turn."""
        waiting = self._waiting([job for job in jobs if job.execution])
        news = [_advanced(job, reader) for job, reader in waiting[:MOST_READS]]
        self.is_behind = any(job.state.is_final for job, _ in waiting[MOST_READS:])
        return [seen for seen in news if seen]

    def _waiting(self, jobs: list[JobResource]) -> list[tuple[JobResource, RateReader]]:
        """The jobs whose logs are not read to their ends, those first that were looked at least."""
        known = self._readers
        self._readers = {
            job.output_path_segment: known.get(job.output_path_segment) or _reader(self._backend, job)
            for job in jobs
        }
        pairs = [(job, self._readers[job.output_path_segment]) for job in jobs]
        waiting = [(job, reader) for job, reader in pairs if not reader.is_drained]
        return sorted(waiting, key=lambda pair: pair[1].looks)


class JobsFeed(BoardFeed[JobsSeen | RatesSeen]):
    """An experiment's latest jobs and their images/sec. `version` grows when a job changes."""

    noun = "experiment"

    def __init__(self, experiment: ResourceId) -> None:
        super().__init__()
        self.id = experiment
        self.jobs: tuple[JobResource, ...] = ()
        self.rates: dict[str, list[float]] = {}
        self.rate_versions: dict[str, int] = {}
        self._progress: dict[str, Progress | None] = {}

    def take(self, event: JobsSeen | RatesSeen) -> None:
        """Takes what is new."""
        if isinstance(event, RatesSeen):
            self.rates[event.job] = event.values
            self._progress[event.job] = event.progress
            self.rate_versions[event.job] = self.rate_versions.get(event.job, 0) + 1
            return
        self.jobs = event.jobs
        names = {job.id.name for job in self.jobs}
        self.rates = {name: values for name, values in self.rates.items() if name in names}
        self.version += 1

    @property
    def progress(self) -> dict[str, Progress]:
        """How far the jobs are, or came, that tell it, by name."""
        names = (job.id.name for job in self.jobs if counts(job))
        return {name: progress for name in names if (progress := self._progress.get(name))}

    def job(self, name: str) -> ResourceId | None:
        """The id of a job by its name."""
        return next((job.id for job in self.jobs if job.id.name == name), None)

    @property
    def is_at_rest(self) -> bool:
        """Whether every job has ended."""
        return all(job.state.is_final for job in self.jobs)

    @property
    def way_back(self) -> str:
        """The command that lists the jobs again."""
        return f"%batchai job list -e {self.id.name} -w {self.id.workspace}"

    def facts(self) -> dict[str, Any]:
        """What the head of the view shows (`JobsFacts` in frontend/boards/messages.d.ts)."""
        return {"name": self.id.name, "total": len(self.jobs), "problem": self.problem}

    def rows(self) -> list[dict[str, Any]]:
        """The newest jobs (`JobRow` in frontend/boards/messages.d.ts)."""
        return [_row(job) for job in self.jobs[:MOST_ROWS]]

    def bundle(self) -> Bundle:
        """The jobs as a still picture: HTML and text."""
        now = datetime.now(timezone.utc)
        card = JobsCard(self.id.name, self.jobs, now, dict(self.rates), self.way_back, self.progress)
        return {"text/html": to_html(card), "text/plain": to_text(card)}


def _reader(backend: Backend, job: JobResource) -> RateReader:
    began = job.execution.started.timestamp() if job.execution else None
    has_succeeded = job.state is ExecutionState.SUCCEEDED
    return RateReader(backend, job.id, began=began, tells_progress=not has_succeeded)


def _advanced(job: JobResource, reader: RateReader) -> RatesSeen | None:
    try:
        is_news = reader.advance()
        return RatesSeen(job.id.name, reader.values, reader.progress) if is_news else None
    except BatchAIError:  # deleted since it was listed: the next list says so
        return None


def _row(job: JobResource) -> dict[str, Any]:
    return {
        **execution_of(job),
        "name": job.id.name,
        "state": job.word,
        "nodes": job.spec.node_count,
        "toolkit": job.spec.toolkit.value,
        "cluster": cluster_of(job),
    }
