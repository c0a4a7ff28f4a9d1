"""The dashboard of an experiment's jobs: its polled source, the feed that views share, and the view."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from batchai_magics.backends.base import Backend
from batchai_magics.cards.job_list_card import JobListCard, cluster_of, to_html, to_text
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.jobs.job_logs import has_progress
from batchai_magics.metrics.progress.progress_reader import Progress
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.runs.labels import Labels, varying_parameters
from batchai_magics.widgets.core.cell_output import Clock, RunInBackground
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.core.feed import DashboardFeed, PageData
from batchai_magics.widgets.dashboards.dashboard_view import DashboardView, answer_to
from batchai_magics.widgets.dashboards.job_rates import RateReader, RatesUpdate
from batchai_magics.widgets.job.job_header import execution_of, progress_fields

MAX_POLL_S = 4.0  # longest poll interval, while nothing changes
MAX_ROWS = 200  # of the newest jobs
MAX_READS = 8  # log files per poll
LABELS_INTERVAL_S = 10.0  # between two reads of the labels of jobs
MAX_PARAMETERS = 5  # that differ between jobs


@dataclass(frozen=True)
class JobsSnapshot:
    """The jobs of an experiment, newest first, after a change."""

    jobs: tuple[JobResource, ...]


@dataclass(frozen=True)
class LabelsUpdate:
    """The tags and parameters of jobs by name, after a change."""

    labels: Mapping[str, Labels]


JobsEvent = JobsSnapshot | RatesUpdate | LabelsUpdate


class JobsSource:
    """Polls an experiment's jobs; never ends. An experiment that does not exist (yet) has no jobs.

    With `names`, it polls the jobs of these names only.
    """

    is_over = False

    def __init__(
        self,
        backend: Backend,
        experiment: ResourceId,
        *,
        preferences: MetricPreferences = NO_PREFERENCES,
        names: Collection[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = names
        self._preferences = preferences
        self._backend = backend
        self._experiment = experiment
        self._clock = clock
        self._due_at = 0.0
        self._last: tuple[JobResource, ...] | None = None
        self._readers: dict[str, RateReader] = {}
        self._labels: LabelsUpdate | None = None
        self._labelled: tuple[str, ...] = ()  # names of the jobs whose labels were read
        self._labels_due_at = 0.0
        self.is_behind = False  # logs of ended jobs remain to be read

    def poll(self) -> list[JobsEvent]:
        """Returns the jobs if any has changed, and new values of some.

        One request lists all jobs, at most as often as the backend's pace allows.
        """
        is_due = self._last is None or self._clock() >= self._due_at
        jobs = self._jobs() if is_due else self._last or ()
        news: list[JobsEvent] = []
        if jobs != self._last:
            self._last = jobs
            news.append(JobsSnapshot(jobs))
        return [*news, *self._read_labels(jobs[:MAX_ROWS]), *self._rates(jobs[:MAX_ROWS])]

    def _jobs(self) -> tuple[JobResource, ...]:
        self._due_at = self._clock() + self._backend.capabilities.pace.poll_interval_s
        try:
            listed = self._backend.list(self._experiment, Kind.JOB)
        except NotFoundError:
            return ()
        jobs = (job for job in reversed(listed) if isinstance(job, JobResource))
        return tuple(job for job in jobs if self._names is None or job.id.name in self._names)

    def _read_labels(self, jobs: tuple[JobResource, ...]) -> list[LabelsUpdate]:
        """Reads the labels of all jobs with one request: of new jobs immediately, else at intervals."""
        records, names = self._backend.records, tuple(job.id.name for job in jobs)
        if not records or (names == self._labelled and self._clock() < self._labels_due_at):
            return []
        self._labelled, self._labels_due_at = names, self._clock() + LABELS_INTERVAL_S
        try:
            found = records.labels([job.id for job in jobs])
        except BatchAIError:  # read again at the next interval
            return []
        update = LabelsUpdate({job.id.name: found[job.id.key] for job in jobs if job.id.key in found})
        if update == (self._labels or LabelsUpdate({})):
            return []
        self._labels = update
        return [update]

    def _rates(self, jobs: tuple[JobResource, ...]) -> list[RatesUpdate]:
        """Reads a few logs per poll, round-robin."""
        waiting = self._unread_jobs([job for job in jobs if job.execution])
        news = [reader.advance() for _, reader in waiting[:MAX_READS]]
        self.is_behind = any(job.state.is_final for job, _ in waiting[MAX_READS:])
        return [seen for seen in news if seen]

    def _unread_jobs(self, jobs: list[JobResource]) -> list[tuple[JobResource, RateReader]]:
        """The jobs whose logs have not been read to the end, least often read first."""
        known = self._readers
        self._readers = {
            job.output_path_segment: known.get(job.output_path_segment) or self._reader(job) for job in jobs
        }
        pairs = [(job, self._readers[job.output_path_segment]) for job in jobs]
        waiting = [(job, reader) for job, reader in pairs if not reader.is_drained]
        return sorted(waiting, key=lambda pair: pair[1].read_count)

    def _reader(self, job: JobResource) -> RateReader:
        labels = self._labels.labels if self._labels else {}
        patterns = labels.get(job.id.name, Labels()).patterns
        return RateReader(
            self._backend, job, preferences=self._preferences, patterns=patterns, clock=self._clock
        )


class JobsFeed(DashboardFeed[JobsEvent]):
    """An experiment's latest jobs with labels and metrics. `version` increases when a job changes."""

    noun = "experiment"

    def __init__(self, experiment: ResourceId, options: str = "") -> None:
        super().__init__()
        self.id = experiment
        self._options = options  # of the line that lists these jobs
        self.jobs: tuple[JobResource, ...] = ()
        self.rates: dict[str, list[float]] = {}
        self.labels: dict[str, str] = {}
        self.rate_versions: dict[str, int] = {}
        self._progress: dict[str, Progress | None] = {}
        self._run_labels: Mapping[str, Labels] = {}

    def take(self, event: JobsEvent) -> None:
        """Stores an update."""
        if isinstance(event, RatesUpdate):
            self.rates[event.job] = event.values
            self.labels[event.job] = event.label
            self._progress[event.job] = event.progress
            self.rate_versions[event.job] = self.rate_versions.get(event.job, 0) + 1
            return
        self.version += 1
        if isinstance(event, LabelsUpdate):
            self._run_labels = event.labels
            return
        self.jobs = event.jobs
        names = {job.id.name for job in self.jobs}
        self.rates = {name: values for name, values in self.rates.items() if name in names}

    @property
    def progress(self) -> dict[str, Progress]:
        """The latest progress of the jobs that report it, by name."""
        names = (job.id.name for job in self.jobs if has_progress(job))
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
        return f"%batchai job list -e {self.id.name} -w {self.id.workspace}{self._options}"

    def facts(self) -> PageData:
        """What the view's header shows (`JobsFacts` in frontend/core/messages.d.ts)."""
        return {"name": self.id.name, "total": len(self.jobs), "problem": self.problem}

    def rows(self) -> list[PageData]:
        """The newest jobs (`JobRow` in frontend/core/messages.d.ts)."""
        jobs = self.jobs[:MAX_ROWS]
        labels = [self._run_labels.get(job.id.name, Labels()) for job in jobs]
        differing = varying_parameters(labels, MAX_PARAMETERS)
        return [_row(job, every, differing) for job, every in zip(jobs, labels, strict=True)]

    def bundle(self) -> Bundle:
        """A snapshot of the jobs as HTML and text."""
        now = datetime.now(timezone.utc)
        rates, labels = dict(self.rates), dict(self.labels)
        card = JobListCard(self.id.name, self.jobs, now, rates, self.way_back, self.progress, labels)
        return {"text/html": to_html(card), "text/plain": to_text(card)}


def _row(job: JobResource, labels: Labels, parameters: Sequence[str]) -> PageData:
    given = labels.parameters
    return {
        **execution_of(job),
        "name": job.id.name,
        "state": job.word,
        "nodes": job.spec.node_count,
        "toolkit": job.spec.toolkit.label,
        "cluster": cluster_of(job),
        "tags": list(labels.tags),
        "parameters": {name: str(given[name]) for name in parameters if name in given},
    }


RATES_PER_MESSAGE = 20

Open = Callable[[Sequence[ResourceId]], str]


class JobsView(DashboardView):
    """Jobs as rows, each with its headline metric; the request `open` embeds a view of some of them.

    `open_jobs` creates the live view of a job, or a comparison of several, and returns its model's id.
    """

    script = "jobs_view"
    requests = ("open",)

    def __init__(
        self, feed: JobsFeed, *, view_id: str, work: RunInBackground, clock: Clock, open_jobs: Open
    ) -> None:
        self._jobs = feed
        self._open_jobs = open_jobs
        self._sent: dict[str, int] = {}
        super().__init__(feed, view_id=view_id, work=work, clock=clock)

    def reset_page(self) -> None:
        """A page has said hello: it has no values yet."""
        self._sent = {}

    def next_message(self, limit_bytes: int) -> PageData | None:
        """The values of a few jobs for which the page is out of date."""
        new = self._unsent()[:RATES_PER_MESSAGE]
        if not new:
            return None
        self._sent.update({name: self._jobs.rate_versions[name] for name in new})
        known = self._jobs.progress
        progress = {name: progress_fields(known[name]) for name in new if name in known}
        rates = {name: self._jobs.rates.get(name, []) for name in new}
        labels = {name: self._jobs.labels.get(name, "") for name in new}
        return {"kind": "rates", "rates": rates, "labels": labels, "progress": progress}

    def _unsent(self) -> list[str]:
        """The jobs for which the page is out of date."""
        names = [job.id.name for job in self._jobs.jobs[:MAX_ROWS]]
        versions = self._jobs.rate_versions
        return [name for name in names if versions.get(name, 0) != self._sent.get(name, 0)]

    def answer_open(self, content: PageData) -> PageData:
        """Creates the live view of the jobs `content["names"]`."""
        found = [self._jobs.job(str(name)) for name in content.get("names", ())]
        ids = [id for id in found if id]
        if not ids or len(ids) < len(found):
            return answer_to(content, "The job was deleted.", is_done=False)
        try:
            return {**answer_to(content, ""), "model": self._open_jobs(ids)}
        except BatchAIError as error:
            return answer_to(content, error.message, is_done=False)
