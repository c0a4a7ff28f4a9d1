"""Selects runs by tags, and by conditions on their parameters and metrics: `loss < 0.3`, `lr == 0.1`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from batchai_magics.backends.base import RECORDS, Backend, Records
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.metrics.runs.metric_traits import find_metric
from batchai_magics.metrics.runs.run_metrics import run_metrics
from batchai_magics.models.resources import JobResource
from batchai_magics.models.runs.labels import Labels
from batchai_magics.models.stop_conditions import StopCondition, stop_condition

_NO_LABELS = Labels()


@dataclass(frozen=True)
class RunSelection:
    """Which runs are wanted: those with all of the tags that meet all of the conditions."""

    tags: tuple[str, ...] = ()
    conditions: tuple[StopCondition, ...] = ()

    @classmethod
    def of(cls, tags: Iterable[str], where: Iterable[str]) -> RunSelection:
        """The selection of `--tag` and `--where`.

        Raises:
            UsageError: A condition is invalid, or waits: `for 5m`.
        """
        return cls(tuple(tag.lower() for tag in tags), tuple(map(_condition, where)))

    def of_jobs(self, backend: Backend, jobs: Sequence[JobResource]) -> list[JobResource]:
        """The selected ones among these jobs. Only conditions on metrics read logs.

        Raises:
            CapabilityError: The backend keeps no records of runs.
        """
        if not (self.tags or self.conditions):
            return list(jobs)
        records: Records = RECORDS.of(backend)
        labels = records.labels([job.id for job in jobs])
        tagged = [job for job in jobs if self._is_tagged(labels.get(job.id.key, _NO_LABELS))]
        return [job for job in tagged if self._meets(backend, job, labels.get(job.id.key, _NO_LABELS))]

    def _is_tagged(self, labels: Labels) -> bool:
        return {*self.tags} <= {tag.lower() for tag in labels.tags}

    def _meets(self, backend: Backend, job: JobResource, labels: Labels) -> bool:
        known = numbers_of(labels)
        names = [find_metric(known, condition.metric) for condition in self.conditions]
        if not all(names):  # the rest are metrics, for which the log is read once
            known = {**metrics_of(backend, job), **known}
            names = [find_metric(known, condition.metric) for condition in self.conditions]
        return all(
            bool(name) and condition.is_met_by(known[name])
            for condition, name in zip(self.conditions, names, strict=True)
        )


def numbers_of(labels: Labels) -> dict[str, float]:
    """The parameters that are numbers."""
    parameters = labels.parameters.items()
    return {name: float(value) for name, value in parameters if isinstance(value, (int, float))}


def metrics_of(backend: Backend, job: JobResource) -> Mapping[str, float]:
    """The metrics of a run, each with the value that stands for it: the best loss, the mean speed.

    Empty for a run that is gone.
    """
    try:
        found = run_metrics(Job(backend, job.id).records(), metric_preferences())
    except NotFoundError:
        return {}
    summaries = {name: metric.summary for name, metric in found.items()}
    values = {name: each.headline_value for name, each in summaries.items() if each}
    return {name: math.nan if value is None else value for name, value in values.items()}


def _condition(text: str) -> StopCondition:
    try:
        condition = stop_condition(text)
    except ValueError as error:
        raise UsageError(f"--where: {error}") from None
    if condition.held_s:
        raise UsageError(f"--where {text}: a run has one value, not one for a time", hint="leave out `for …`")
    return condition
