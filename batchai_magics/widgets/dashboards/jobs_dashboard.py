"""The dashboard of jobs, of an experiment or of all: their model, and the stream of a view."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING

from batchai_magics.backends.base import Backend
from batchai_magics.cards.card_parts import table_card_text
from batchai_magics.cards.job_list_card import job_list_card, to_html
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.listed_job import NO_LABELS, ListedJob
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.models.resource_ids import Kind, ResourceId, check_name
from batchai_magics.models.resources import JobResource, Workspace
from batchai_magics.models.runs.labels import Labels, varying_parameters
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.core.view_stream import Batch, PageData
from batchai_magics.widgets.dashboards.dashboard import DashboardModel, DashboardStream
from batchai_magics.widgets.job.job_header import execution_of, progress_fields

if TYPE_CHECKING:
    from batchai_magics.commands.output.command_result import SelectedJobs

MAX_READS = 8  # log files per poll
LABELS_INTERVAL_S = 10.0  # between two reads of the labels of jobs
EXPERIMENTS_INTERVAL_S = 10.0  # between two lists of the experiments
MAX_PARAMETERS = 5  # of a row, of those that differ between jobs
CachedRow = tuple[object, PageData]  # the values that a job's row is made of, and the row


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
        self.listed: Mapping[str, ListedJob] = {}  # the jobs by their names in the view, see `name_of`
        self._is_behind = False  # logs of ended jobs remain to be read
        self._requests = 1  # to list all jobs
        self._selected = selected
        self._preferences = preferences
        self._clock = clock
        self._due_at: float | None = None  # None before the first list
        self._differing: Sequence[str] = ()  # names of parameters
        self._labelled: tuple[ListedJob, ...] = ()  # the jobs whose labels were read
        self._labels_due_at = 0.0
        self._rows: dict[str, CachedRow] = {}  # by name

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
        self._read_labels()
        return self._read_logs() or self.version > version

    def _list(self) -> None:
        is_first, resources = self._due_at is None, self._resources()
        self._due_at = self._clock() + self._requests * self.backend.capabilities.pace.poll_interval_s
        selected = self._selected.names if self._selected else None
        previous, previous_jobs, listed = self.listed, self.jobs, dict[str, ListedJob]()
        for job in resources:
            if selected is None or job.id.name in selected:
                name = self.name_of(job.id)
                listed[name] = _updated(previous.get(name), job)
        self.listed = listed
        self.version += is_first or [*previous] != [*listed] or self.jobs != previous_jobs

    @property
    def jobs(self) -> tuple[JobResource, ...]:
        """The selected jobs, newest first."""
        return tuple(listed.resource for listed in self.listed.values())

    @property
    def _visible(self) -> dict[str, ListedJob]:
        return dict(islice(self.listed.items(), self.max_rows))

    def _resources(self) -> Sequence[JobResource]:
        """The jobs as they are now, newest first."""
        return _jobs_in(self.backend, self.id)[::-1]

    def name_of(self, id: ResourceId) -> str:
        """The name of a job in the view."""
        return id.name

    def _read_labels(self) -> None:
        """Reads the labels of all jobs with one request: of new runs immediately, else at intervals."""
        records, jobs = self.backend.records, tuple(self._visible.values())
        if not records or (jobs == self._labelled and self._clock() < self._labels_due_at):
            return
        self._labelled, self._labels_due_at = jobs, self._clock() + LABELS_INTERVAL_S
        try:
            by_key = records.labels([listed.resource.id for listed in jobs])
        except BatchAIError:  # read again at the next interval
            return
        before = [listed.labels for listed in jobs]
        for listed in jobs:
            listed.labels = by_key.get(listed.resource.id.key, NO_LABELS)
        labels = [listed.labels for listed in jobs]
        differing = varying_parameters(labels)
        self.version += (labels, differing) != (before, self._differing)
        self._differing = differing

    def _read_logs(self) -> bool:
        """Reads the logs of a few jobs, least often read first; returns whether they had new values."""
        started = (listed for listed in self._visible.values() if listed.resource.execution)
        unread = sorted((job for job in started if not job.is_drained), key=lambda job: job.read_count)
        has_values = [
            job.advance(self.backend, preferences=self._preferences, clock=self._clock)
            for job in unread[:MAX_READS]
        ]
        self._is_behind = any(job.resource.state.is_final for job in unread[MAX_READS:])
        return any(has_values)

    def jobs_named(self, names: Sequence[str]) -> list[Job]:
        """The handles of listed jobs by their names, without jobs that no longer exist."""
        return [Job(self.backend, self.listed[name].resource.id) for name in names if name in self.listed]

    @property
    def is_at_rest(self) -> bool:
        """Whether every job has ended."""
        return all(job.state.is_final for job in self.jobs)

    @property
    def reopen_command(self) -> str:
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
        rows: dict[str, CachedRow] = {}
        for name, listed in self._visible.items():
            sources = (listed.resource, listed.labels, self._differing)
            cached_sources, row = self._rows.get(name, (None, {}))
            rows[name] = (sources, row if cached_sources == sources else _row(name, *sources))
        self._rows = rows  # replaced at once, since several threads call this
        return [row for _, row in rows.values()]

    def bundle(self) -> Bundle:
        """A snapshot of the jobs as HTML and text."""
        listed = [*self.listed.values()]
        card = job_list_card(self.id.name, listed, datetime.now(timezone.utc), self.reopen_command)
        return {"text/html": to_html(card, listed), "text/plain": table_card_text(card)}


def _updated(listed: ListedJob | None, job: JobResource) -> ListedJob:
    """The listed job with its current resource; a new one for another run of the same name."""
    if listed is None or listed.resource.output_path_segment != job.output_path_segment:
        return ListedJob(job)
    if listed.resource != job:  # else the same object keeps its row
        listed.resource = job
    return listed


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

    def _resources(self) -> Sequence[JobResource]:
        if self._clock() >= self._experiments_due_at:
            self._experiments_due_at = self._clock() + EXPERIMENTS_INTERVAL_S
            ids: list[ResourceId] = []
            for workspace in self.backend.list(self.id.workspace_id, Kind.WORKSPACE):
                with contextlib.suppress(NotFoundError):  # deleted meanwhile
                    if isinstance(workspace, Workspace):
                        experiments = self.backend.list(workspace.id, Kind.EXPERIMENT)
                        ids += [experiment.id for experiment in experiments]
            self._experiments = [self.id, *(id for id in ids if id.key != self.id.key)]
            self._requests = len(self._experiments)
        jobs = [job for experiment in self._experiments for job in _jobs_in(self.backend, experiment)]
        return sorted(jobs, key=lambda job: job.provisioning.created, reverse=True)

    def name_of(self, id: ResourceId) -> str:
        """The name of a job in the view."""
        if id.workspace.lower() != self.id.workspace.lower():
            return f"{id.workspace}/{id.experiment}/{id.name}"
        return id.name if id.experiment.lower() == self.id.name.lower() else f"{id.experiment}/{id.name}"

    def id_of(self, name: str) -> ResourceId:
        """The id of the job with this name in the view; raises SpecError if the name is invalid."""
        *parents, job = name.split("/")
        workspace, experiment = ["", "", *parents][-2:]
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
    names = [parameter for parameter in parameters if parameter in labels.parameters]
    return {
        "name": name,
        **execution_of(job),
        "state": job.word,
        "nodes": job.spec.node_count,
        "toolkit": job.spec.toolkit.label,
        "cluster": job.spec.cluster_name,
        "waiting": job.waiting,
        "tags": list(labels.tags),
        "parameters": {name: str(labels.parameters[name]) for name in names[:MAX_PARAMETERS]},
    }


RATES_PER_MESSAGE = 20


class JobsStream(DashboardStream):
    """Jobs as rows, each with its headline metric."""

    script = "jobs_dashboard"
    _model: JobsModel

    _sent: dict[str, tuple[str, int]]  # the runs of jobs and the versions of their values, by name

    def on_hello(self, content: PageData) -> None:
        """A page has said hello: it has no values yet."""
        super().on_hello(content)
        self._sent = {}

    def next_message(self, limit_bytes: int) -> Batch | None:
        """The values of a few jobs for which the page is out of date."""
        jobs = self._model.listed
        versions = {
            name: (listed.resource.output_path_segment, listed.version)
            for name, listed in jobs.items()
            if listed.version
        }
        names = [name for name, version in versions.items() if self._sent.get(name) != version]
        names = names[:RATES_PER_MESSAGE]
        if not names:
            return None
        self._sent.update((name, versions[name]) for name in names)
        return Batch({"kind": "rates", "rates": {name: _rates(jobs[name]) for name in names}})


def _rates(listed: ListedJob) -> PageData:
    """The values of a job (`JobRates` in frontend/core/messages.d.ts)."""
    return {
        "values": listed.values,
        "last": listed.last,
        "label": listed.label,
        "failure": listed.failure,
        "progress": listed.progress and progress_fields(listed.progress),
    }
