"""The dashboard of jobs, of an experiment or of all: their model, and what a view of it is sent."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from batchai_magics.backends.base import Backend, FileRef
from batchai_magics.cards.card_parts import table_card_text
from batchai_magics.cards.job_list_card import ListedJob, job_list_card, to_html
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.follow import METRICS_FILES, MetricsAdded, StateChanged
from batchai_magics.follow.job_errors import cause_of
from batchai_magics.follow.log_follower import LogFollower
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_logs import has_progress
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.metrics.reading.progress_reader import Progress
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.models.resource_ids import Kind, ResourceId, check_name
from batchai_magics.models.resources import JobResource, Workspace
from batchai_magics.models.runs.labels import Labels, varying_parameters
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.core.polled_model import PageData
from batchai_magics.widgets.core.view_stream import Batch
from batchai_magics.widgets.dashboards.dashboard import DashboardModel, DashboardStream
from batchai_magics.widgets.job.job_header import execution_of, progress_fields

if TYPE_CHECKING:
    from batchai_magics.commands.output.command_result import SelectedJobs

MAX_READS = 8  # log files per poll
LABELS_INTERVAL_S = 10.0  # between two reads of the labels of jobs
EXPERIMENTS_INTERVAL_S = 10.0  # between two looks for new experiments
MAX_PARAMETERS = 5  # of a row, of those that differ between jobs
NO_LABELS = Labels()
MadeRow = tuple[object, PageData]  # of a job, with what it was made of


class JobsModel(DashboardModel):
    """The jobs of an experiment, newest first, with labels and metrics; never over.

    An experiment that does not exist (yet) has no jobs. `selected` are the only ones listed.
    """

    noun = "experiment"
    max_interval_s = 4.0
    max_rows = 200  # of the newest jobs

    def __init__(
        self,
        backend: Backend,
        experiment: ResourceId,
        *,
        preferences: MetricPreferences = NO_PREFERENCES,
        selected: SelectedJobs | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.backend = backend
        self.id = experiment
        self._named: Mapping[str, JobResource] = {}  # the jobs, as `name_of` calls them
        self.rates: dict[str, JobRates] = {}  # by name
        self._is_behind = False  # logs of ended jobs remain to be read
        self._requests = 1  # to list all jobs
        self._selected = selected
        self._preferences = preferences
        self._clock = clock
        self._due_at: float | None = None  # None before the first list
        self._labels: Mapping[str, Labels] = {}
        self._differing: Sequence[str] = ()  # names of parameters
        self._labelled: tuple[str, ...] = ()  # names of the jobs whose labels were read
        self._labels_due_at = 0.0
        self._rows: dict[str, MadeRow] = {}  # by name

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""
        return self._is_behind

    def poll(self) -> bool:
        """Returns whether a job has changed, or has new values.

        One request lists all jobs, at most as often as the backend's pace allows.
        """
        version = self.version
        if self._due_at is None or self._clock() >= self._due_at:
            self._list()
        jobs = self._visible
        self._read_labels(jobs)
        has_values = self._read_rates({name: job for name, job in jobs.items() if job.execution})
        return has_values or self.version > version

    def _list(self) -> None:
        is_first, listed = self._due_at is None, self._listed()
        self._due_at = self._clock() + self._requests * self.backend.capabilities.pace.poll_interval_s
        chosen = self._selected.names if self._selected else None
        named = {self.name_of(job.id): job for job in listed if chosen is None or job.id.name in chosen}
        for name, job in self._named.items():
            if named.get(name) == job:
                named[name] = job  # the same object keeps its row
        self.version += is_first or [*named.items()] != [*self._named.items()]
        self._named = named

    @property
    def jobs(self) -> tuple[JobResource, ...]:
        """The selected jobs, newest first."""
        return tuple(self._named.values())

    @property
    def _visible(self) -> dict[str, JobResource]:
        return dict(islice(self._named.items(), self.max_rows))

    def _listed(self) -> Sequence[JobResource]:
        """The jobs as they are now, newest first."""
        return _jobs_in(self.backend, self.id)[::-1]

    def name_of(self, id: ResourceId) -> str:
        """What the view calls a job."""
        return id.name

    def _read_labels(self, jobs: Mapping[str, JobResource]) -> None:
        """Reads the labels of all jobs with one request: of new jobs immediately, else at intervals."""
        records, names = self.backend.records, tuple(jobs)
        if not records or (names == self._labelled and self._clock() < self._labels_due_at):
            return
        self._labelled, self._labels_due_at = names, self._clock() + LABELS_INTERVAL_S
        try:
            by_key = records.labels([job.id for job in jobs.values()])
        except BatchAIError:  # read again at the next interval
            return
        keys = {name: job.id.key for name, job in jobs.items()}
        labels = {name: by_key[key] for name, key in keys.items() if key in by_key}
        if labels != self._labels:
            self.version += 1
            self._labels, self._differing = labels, varying_parameters(labels.values())

    def _read_rates(self, jobs: Mapping[str, JobResource]) -> bool:
        """Reads a few logs, least often read first; returns whether they had new values."""
        known = {rates.run: rates for rates in self.rates.values()}
        self.rates = {
            name: known.get(job.output_path_segment)
            or JobRates(
                self.backend,
                job,
                preferences=self._preferences,
                patterns=self._labels.get(name, NO_LABELS).patterns,
                clock=self._clock,
            )
            for name, job in jobs.items()
        }
        unread = [(jobs[name], rates) for name, rates in self.rates.items() if not rates.is_drained]
        unread.sort(key=lambda pair: pair[1].read_count)
        has_values = [rates.advance(job) for job, rates in unread[:MAX_READS]]
        self._is_behind = any(job.state.is_final for job, _ in unread[MAX_READS:])
        return any(has_values)

    @property
    def progress(self) -> dict[str, Progress]:
        """The latest progress of the jobs that report it, by name."""
        names = (name for name, job in self._named.items() if has_progress(job))
        known = ((name, self.rates[name].progress) for name in names if name in self.rates)
        return {name: progress for name, progress in known if progress}

    def jobs_named(self, names: Sequence[str]) -> list[Job]:
        """The handles of listed jobs by their names, without jobs that no longer exist."""
        return [Job(self.backend, self._named[name].id) for name in names if name in self._named]

    @property
    def is_at_rest(self) -> bool:
        """Whether every job has ended."""
        return all(job.state.is_final for job in self.jobs)

    @property
    def way_back(self) -> str:
        """The command that lists the jobs again."""
        options = f" {self._selected.options}" if self._selected else ""
        return f"%batchai job list -e {self.id.name} -w {self.id.workspace}{options}"

    def facts(self) -> PageData:
        """What the view's header shows (`JobsFacts` in frontend/core/messages.d.ts)."""
        return {
            "name": self.id.name,
            "of": "experiment",
            "total": len(self.jobs),
            "problem": self.problem,
        }

    def rows(self) -> list[PageData]:
        """The newest jobs (`JobRow` in frontend/core/messages.d.ts)."""
        rows: dict[str, MadeRow] = {}
        for name, job in self._visible.items():
            sources = (job, self._labels.get(name, NO_LABELS), self._differing)
            same, row = self._rows.get(name, (None, {}))
            rows[name] = (sources, row if same == sources else _row(name, *sources))
        self._rows = rows  # at once: several threads ask
        return [row for _, row in rows.values()]

    def bundle(self) -> Bundle:
        """A snapshot of the jobs as HTML and text."""
        progress, rates, listed = self.progress, self.rates, []
        for name, job in self._named.items():
            if known := rates.get(name):
                job_progress = progress.get(name)
                listed.append(
                    ListedJob(job, known.values, known.label, job_progress, known.failure, known.last)
                )
            else:
                listed.append(ListedJob(job))
        card = job_list_card(self.id.name, listed, datetime.now(timezone.utc), self.way_back)
        return {"text/html": to_html(card, listed), "text/plain": table_card_text(card)}


def _jobs_in(backend: Backend, experiment: ResourceId) -> list[JobResource]:
    """The jobs of an experiment, oldest first; none if it does not exist."""
    with contextlib.suppress(NotFoundError):
        return [job for job in backend.list(experiment, Kind.JOB) if isinstance(job, JobResource)]
    return []


class AllJobsModel(JobsModel):
    """The jobs of all experiments of a resource group, newest first.

    A job of the experiment `home` is called by its name, others are called `experiment/name`, or
    `workspace/experiment/name` outside of the workspace of `home`.
    """

    noun = "resource group"
    max_rows = 1000

    def __init__(
        self, backend: Backend, home: ResourceId, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(backend, home, preferences=metric_preferences(), clock=clock)
        self._experiments: list[ResourceId] = []
        self._experiments_due_at = clock()

    def _listed(self) -> Sequence[JobResource]:
        if self._clock() >= self._experiments_due_at:
            self._experiments_due_at = self._clock() + EXPERIMENTS_INTERVAL_S
            ids: list[ResourceId] = []
            for workspace in self.backend.list(self.id.workspace_id, Kind.WORKSPACE):
                with contextlib.suppress(NotFoundError):  # deleted meanwhile
                    if isinstance(workspace, Workspace):
                        ids += [each.id for each in self.backend.list(workspace.id, Kind.EXPERIMENT)]
            self._experiments = [self.id, *(id for id in ids if id.key != self.id.key)]
            self._requests = len(self._experiments)
        jobs = [job for experiment in self._experiments for job in _jobs_in(self.backend, experiment)]
        return sorted(jobs, key=lambda job: job.provisioning.created, reverse=True)

    def name_of(self, id: ResourceId) -> str:
        """What the view calls a job."""
        if id.workspace.lower() != self.id.workspace.lower():
            return f"{id.workspace}/{id.experiment}/{id.name}"
        return id.name if id.experiment.lower() == self.id.name.lower() else f"{id.experiment}/{id.name}"

    def id_of(self, name: str) -> ResourceId:
        """The id of the job that `name_of` calls this. Raises SpecError if none can be called so."""
        *places, job = name.split("/")
        workspace, experiment = ["", "", *places][-2:]
        parent = replace(
            self.id,
            workspace=check_name(workspace or self.id.workspace, Kind.WORKSPACE),
            name=check_name(experiment or self.id.name, Kind.EXPERIMENT),
        )
        return parent.child(Kind.JOB, check_name(job, Kind.JOB))

    def facts(self) -> PageData:
        """What the view's header shows (`JobsFacts` in frontend/core/messages.d.ts)."""
        return {**super().facts(), "name": "All jobs", "of": f"backend {self.backend.capabilities.name}"}


def _row(name: str, job: JobResource, labels: Labels, parameters: Sequence[str]) -> PageData:
    own = [parameter for parameter in parameters if parameter in labels.parameters]
    return {
        "name": name,
        **execution_of(job),
        "state": job.word,
        "nodes": job.spec.node_count,
        "toolkit": job.spec.toolkit.label,
        "cluster": job.spec.cluster_name,
        "waiting": job.waiting,
        "tags": list(labels.tags),
        "parameters": {name: str(labels.parameters[name]) for name in own[:MAX_PARAMETERS]},
    }


TAIL_BYTES = 1 << 20  # only this much of a longer log is read
MAX_VALUES = 40
MAX_CPU_SHARE = 0.05  # of a core, for the values of a job …
MAX_INTERVAL_S = 10.0  # … which are found this often, whatever they cost


class JobRates:
    """The headline metric of a job's run by step, its progress, and why it failed.

    Each `advance` reads what was written to its logs since; `version` increases with every change.
    """

    def __init__(
        self,
        backend: Backend,
        job: JobResource,
        *,
        preferences: MetricPreferences = NO_PREFERENCES,
        patterns: Mapping[str, str] = MappingProxyType({}),
        clock: Callable[[], float] = time.monotonic,
        cpu_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self.run = job.output_path_segment
        self.values: list[float] = []  # the finite ones
        self.last = ""  # the last value if it is not finite: `nan`, `inf`
        self.label = ""  # of the metric
        self.progress: Progress | None = None
        self.failure = ""
        self.version = 0
        self.read_count = 0
        self._backend = backend
        files = [FileRef(job.id, name) for name in METRICS_FILES]
        self._logs = LogFollower(backend, job.id, patterns, files, tail_bytes=TAIL_BYTES)
        self._model: JobModel | None = JobModel(preferences=preferences)
        self._model.take(StateChanged(job))
        self._clock, self._cpu_time, self._due_at = clock, cpu_time, 0.0
        self._has_news = False  # the logs have more than the values

    @property
    def is_drained(self) -> bool:
        """Whether the logs are complete and have been read to the end."""
        return self._model is None

    def advance(self, job: JobResource) -> bool:
        """Reads on, for the job as it is now.

        Returns whether there is something new, which is seldom if finding it takes long.
        """
        model = self._model
        if model is None:
            return False
        self.read_count += 1
        progress = model.progress
        try:
            events = [*self._logs.read()]
        except BatchAIError:  # deleted since it was listed: the next list no longer has it
            return False
        if self._logs.is_drained and job.state.is_final:
            events += self._logs.finish()
            self.failure = cause_of(self._backend, job)
            self._model = None
        for event in events:
            model.take(event)
            self._has_news |= isinstance(event, MetricsAdded)
        self._has_news |= model.progress != progress or bool(self.failure)
        if not self._has_news or (self._clock() < self._due_at and not self.is_drained):
            return False
        self._has_news = False
        started_at_s = self._cpu_time()  # which other load on the machine does not affect
        self._update(model)
        interval_s = min(MAX_INTERVAL_S, (self._cpu_time() - started_at_s) / MAX_CPU_SHARE)
        self._due_at = self._clock() + interval_s
        return True

    def _update(self, model: JobModel) -> None:
        headline = model.metrics.headline
        values = [*headline.curves()[-1].values] if headline else []
        self.last = str(values[-1]) if values and not math.isfinite(values[-1]) else ""
        if len(values) > MAX_VALUES:
            stride = (len(values) - 1) / (MAX_VALUES - 1)
            values = [values[round(i * stride)] for i in range(MAX_VALUES)]
        self.values = [float(f"{value:.6g}") for value in values if math.isfinite(value)]
        self.label = headline.label if headline else ""
        self.progress = model.progress
        self.version += 1


RATES_PER_MESSAGE = 20


class JobsStream(DashboardStream):
    """Jobs as rows, each with its headline metric."""

    script = "jobs_dashboard"
    _model: JobsModel

    _sent: dict[str, tuple[str, int]]  # the runs and versions of rates, by the name of the job

    def on_hello(self, content: PageData) -> None:
        """A page has said hello: it has no values yet."""
        super().on_hello(content)
        self._sent = {}

    def next_message(self, limit_bytes: int) -> Batch | None:
        """The values of a few jobs for which the page is out of date."""
        known = self._model.rates
        versions = {name: (rates.run, rates.version) for name, rates in known.items() if rates.version}
        names = [name for name, version in versions.items() if self._sent.get(name) != version]
        names = names[:RATES_PER_MESSAGE]
        if not names:
            return None
        self._sent.update((name, versions[name]) for name in names)
        progress = self._model.progress
        rates = {
            name: {
                "values": known[name].values,
                "last": known[name].last,
                "label": known[name].label,
                "failure": known[name].failure,
                "progress": progress_fields(progress[name]) if name in progress else None,
            }
            for name in names
        }
        return Batch({"kind": "rates", "rates": rates})
