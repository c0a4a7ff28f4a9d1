"""The jobs of an experiment; the table includes the progress of running and failed ones."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from batchai_magics.errors import StorageError
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from batchai_magics.backends.base import Backend
    from batchai_magics.commands.output.text_table import Table
    from batchai_magics.jobs.job_costs import JobCosts
    from batchai_magics.jobs.job_model import JobModel
    from batchai_magics.metrics.runs.metric_summary import MetricSummary
    from batchai_magics.models.runs.labels import Labels

T = TypeVar("T")

MAX_RUNNING_READ = 20  # of the newest running jobs, whose logs are read for progress …
MAX_FAILED_READ = 5  # … and of the newest failed ones
MAX_METRICS_READ = 25  # of the newest jobs, whose logs are read for their headline metric …
MAX_NAMED_READ = 500  # … or for the metrics that the user names
MAX_PARAMETERS = 6  # columns of parameters …
LEAST_SHARE = 0.5  # … that this share of the jobs with parameters have
MAX_NOTE = 40  # characters of a note


class JobList(list[JobResource]):
    """Jobs, oldest first. Only the table reads logs, and only of the newest jobs.

    A job whose record is damaged is left out of what is shown, with a warning.

    Args:
        jobs: The jobs.
        backend: Their backend.
        metrics: The metrics to show, a column each; by default one column with the headline metric of each.
        has_all_parameters: Whether all parameters are columns, rather than some of those that differ.
        has_elapsed: Whether the table says how long each job has run, or waited.
    """

    def __init__(
        self,
        jobs: Iterable[JobResource],
        backend: Backend,
        *,
        metrics: Sequence[str] = (),
        has_all_parameters: bool = False,
        has_elapsed: bool = False,
    ) -> None:
        super().__init__(jobs)
        self._backend = backend
        self._metric_names = tuple(metrics)
        self._has_all_parameters = has_all_parameters
        self._has_elapsed = has_elapsed
        self._models: dict[str, JobModel] = {}

    def to_data(self) -> Any:
        """The jobs in the JSON of `az`."""
        return list(self.streamed_data())

    def streamed_data(self) -> Iterator[Any]:
        """The same, one job after the other."""
        from batchai_magics.commands.output.resource_json import as_json

        costs = self._costs
        return _readable(self, lambda job: as_json(job.with_cost(costs.of_job(job)) if costs else job))

    def to_summaries(self) -> list[dict[str, Any]]:
        """The jobs in the JSON of `show`, without best values and exceptions, which need whole logs."""
        from batchai_magics.commands.output.job_summary import job_summary  # imports the log readers
        from batchai_magics.follow.job_errors import error_without_logs
        from batchai_magics.models.runs.labels import Labels

        self[:] = _readable([*self], _with_description)
        costs, labels = self._costs, self._run_labels
        headlines: dict[str, MetricSummary] = {}
        for key, model in self._started_models(MAX_METRICS_READ).items():
            headline = model.metrics.headline
            if summary := headline and headline.summary:  # without a best value, if half of the log was read
                headlines[key] = summary if model.is_whole else replace(summary, best=None, best_step=None)
        jobs = [job.with_cost(costs.of_job(job)) for job in self] if costs else self
        return [
            job_summary(
                job,
                labels.get(job.id.key, Labels()),
                headlines.get(job.id.key),
                error_without_logs(job),
            )
            for job in jobs
        ]

    def _started_models(self, limit: int) -> Mapping[str, JobModel]:
        """Key of a job → its model, for the newest jobs that have begun; others have no logs."""
        started = list(islice((job for job in reversed(self) if job.has_begun), limit))
        return {job.id.key: self._model(job) for job in reversed(started)}

    def _model(self, job: JobResource) -> JobModel:
        """The model of a job from the ends of its logs, which are read once."""
        from batchai_magics.jobs.job_model import read_model  # imports the log readers
        from batchai_magics.jobs.metric_settings import metric_preferences

        if job.id.key not in self._models:
            labels = self._run_labels.get(job.id.key)
            patterns = labels.patterns if labels else {}
            preferences = metric_preferences()
            self._models[job.id.key] = read_model(self._backend, job, patterns, preferences=preferences)
        return self._models[job.id.key]

    def to_table(self) -> Table:
        """The columns of `az`, and metrics, parameters, tags and progress if they have content."""
        from batchai_magics.commands.output.table_columns import columns_of, table_of
        from batchai_magics.commands.output.text_table import Table

        self[:] = _readable([*self], _with_description)
        table = table_of(self, columns_of(self[0])) if self else Table((), ())
        now = datetime.now(timezone.utc)
        elapsed = {job.id.key: job.elapsed(now) for job in self} if self._has_elapsed else {}
        costs = {job.id.key: self._costs.of_job(job) for job in self} if self._costs else {}
        more = (
            ("Elapsed", elapsed),
            *self._metrics(),
            *self._labels(),
            ("Cost", {key: cost.text for key, cost in costs.items() if cost}),
            ("Progress", self._progress()),
            ("Waits", {job.id.key: job.waiting for job in self if job.waiting}),
        )
        for title, texts in more:
            if texts:
                cells = [(*row, texts.get(job.id.key, "")) for row, job in zip(table.rows, self, strict=True)]
                table = Table((*table.titles, title), tuple(cells))
        return table

    @cached_property
    def _costs(self) -> JobCosts | None:
        """The costs by the settings of this process; None without prices, to load none of the models."""
        from batchai_magics.backends.base.backend_registry import load_settings

        settings = load_settings()
        if not (settings.prices or self._backend.prices):
            return None
        from batchai_magics.jobs.job_costs import JobCosts

        return JobCosts(self._backend, settings)

    @cached_property
    def _run_labels(self) -> Mapping[str, Labels]:
        """Key of a job → its labels, for the jobs that have any."""
        records = self._backend.records
        return records.labels([job.id for job in self]) if records and self else {}

    def _labels(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The columns of labels: a title, and key of a job → cell."""
        labels = self._run_labels
        if not labels:
            return
        from batchai_magics.models.runs.labels import varying_parameters

        names = varying_parameters(labels.values(), MAX_PARAMETERS, least_share=LEAST_SHARE)
        if self._has_all_parameters:
            names = list(dict.fromkeys(name for item in labels.values() for name in item.parameters))
        for name in names:
            yield name, {key: item.parameters.get(name, "") for key, item in labels.items()}
        yield "Tags", {key: ", ".join(item.tags) for key, item in labels.items() if item.tags}
        yield "Note", {key: _first_line(item.note) for key, item in labels.items() if item.note}

    def _metrics(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The columns of metrics: a title, and key of a job → cell."""
        limit = MAX_NAMED_READ if self._metric_names else MAX_METRICS_READ
        metrics = {key: model.metrics for key, model in self._started_models(limit).items()}
        if not metrics:
            return
        from batchai_magics.metrics.runs.metric_summary import number_text

        for name in self._metric_names:
            summaries = {key: metric.summary for key, run in metrics.items() if (metric := run.find(name))}
            yield (
                name,
                {key: number_text(summary.headline_value) for key, summary in summaries.items() if summary},
            )
        if not self._metric_names:
            headlines = {key: run.headline.summary for key, run in metrics.items() if run.headline}
            texts = {
                key: f"{summary.label} {summary.value_text}" for key, summary in headlines.items() if summary
            }
            yield "Metric", texts

    def _progress(self) -> dict[str, str]:
        """Key of a job → its progress, or why it never began; only the newest jobs' logs are read."""
        failed = [job for job in self if job.state is ExecutionState.FAILED]
        reporting = [job for job in self if job.is_running][-MAX_RUNNING_READ:]
        reporting += [job for job in failed if job.has_begun][-MAX_FAILED_READ:]
        saving = [job for job in self if job.state is ExecutionState.TERMINATING]
        reasons = {job.id.key: reason.partition(",")[0] for job in failed if (reason := job.lost_predecessor)}
        if not (reporting or saving):
            return reasons
        from batchai_magics.jobs.job_logs import (  # imports log readers
            progress_text,
            saving_text,
        )

        progress_of = [(job, self._model(job).progress) for job in reporting]
        now = time.time()
        texts = {job.id.key: progress_text(job, progress, now) for job, progress in progress_of if progress}
        return texts | reasons | {job.id.key: saving_text(job) for job in saving}


class NewestFirst(JobList):
    """Jobs that are shown the newest first, with the curve of the headline metric."""

    def _metrics(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Also the curve; a rate's curve starts at zero."""
        yield from super()._metrics()
        from batchai_magics.metrics.runs.metric_summary import sparkline
        from batchai_magics.metrics.runs.metric_traits import MetricKind

        models = self._started_models(MAX_METRICS_READ).items()
        headlines = {key: headline for key, model in models if (headline := model.metrics.headline)}
        curves = {
            key: sparkline(
                [value for value in metric.curves()[-1].values if math.isfinite(value)],
                is_free=metric.traits.kind is not MetricKind.RATE,
            )
            for key, metric in headlines.items()
        }
        yield "Curve", {key: curve for key, curve in curves.items() if curve}

    def to_table(self) -> Table:
        """The rows in that order."""
        table = super().to_table()
        return replace(table, rows=table.rows[::-1])

    def to_summaries(self) -> list[dict[str, Any]]:
        """The jobs in that order."""
        return super().to_summaries()[::-1]


def _readable(jobs: Iterable[JobResource], read: Callable[[JobResource], T]) -> Iterator[T]:
    """What is read of jobs; a damaged record is a warning, so that JSON being written does not break off."""
    for job in jobs:
        try:
            result = read(job)
        except StorageError as error:
            warnings.warn(error.message, RuntimeWarning, stacklevel=2)
        else:
            yield result


def _with_description(job: JobResource) -> JobResource:
    """The job; StorageError if its description cannot be read."""
    job.cluster_id  # noqa: B018 reading it is the check
    return job


def _first_line(note: str) -> str:
    line = (note.strip().splitlines() or [""])[0]
    return line if len(line) <= MAX_NOTE else f"{line[: MAX_NOTE - 1]}…"
