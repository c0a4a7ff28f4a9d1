"""Selects runs by tags, and by conditions on parameters and metrics: `loss < 0.3`, `optimizer == adam`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from batchai_magics.backends.base import RECORDS, Backend, Records
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.metrics.runs.metric_traits import find_metric
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from batchai_magics.models.resources import JobResource
from batchai_magics.models.runs.labels import Labels
from batchai_magics.models.stop_conditions import FORM as STOP_FORM
from batchai_magics.models.stop_conditions import StopCondition, stop_condition

_NO_LABELS = Labels()
FORM = "write it as `loss < 0.3`, `lr == 0.1` or `optimizer == adam`"
_TEXT_CONDITION = re.compile(r"\s*([A-Za-z_][\w./-]*)\s*(==|!=)\s*([\"']?)([^<>=!\"']+?)\3\s*")


class TextCondition(NamedTuple):
    """A test of a parameter that is a text: `optimizer == adam`; matched case-insensitively."""

    metric: str  # the name of the parameter
    is_equal: bool
    text: str

    def is_met_by(self, value: object) -> bool:
        """Whether a value of the parameter passes the test."""
        return (str(value).lower() == self.text.lower()) is self.is_equal


class SelectedRuns(NamedTuple):
    """The selected runs, and the names in conditions that no run has as a parameter or metric."""

    jobs: list[JobResource]
    unknown: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each unknown name."""
        return tuple(f"No run here has a parameter or metric {name}." for name in self.unknown)


@dataclass(frozen=True)
class RunSelection:
    """Selects the runs with all of the tags that meet all of the conditions."""

    tags: tuple[str, ...] = ()
    conditions: tuple[StopCondition | TextCondition, ...] = ()

    @classmethod
    def of(cls, tags: Iterable[str], where: Iterable[str]) -> RunSelection:
        """The selection of `--tag` and `--where`.

        Raises:
            UsageError: A condition is invalid, or waits: `for 5m`.
        """
        return cls(tuple(tag.lower() for tag in tags), tuple(map(_condition, where)))

    def of_jobs(self, backend: Backend, jobs: Sequence[JobResource]) -> SelectedRuns:
        """The selected ones among these jobs. Only conditions on metrics read logs.

        Raises:
            CapabilityError: The backend keeps no records of runs.
        """
        if not (self.tags or self.conditions):
            return SelectedRuns(list(jobs))
        records: Records = RECORDS.of(backend)
        labels = records.labels([job.id for job in jobs])
        tags = {*self.tags}
        tagged = [
            job for job in jobs if tags <= {tag.lower() for tag in labels.get(job.id.key, _NO_LABELS).tags}
        ]
        results = [self._results(backend, job, labels.get(job.id.key, _NO_LABELS)) for job in tagged]
        met = [job for job, passed in zip(tagged, results, strict=True) if all(passed)]
        by_condition = zip(self.conditions, zip(*results, strict=True), strict=bool(results))
        unknown = [condition.metric for condition, passed in by_condition if set(passed) == {None}]
        return SelectedRuns(met, tuple(dict.fromkeys(unknown)))

    def _results(self, backend: Backend, job: JobResource, labels: Labels) -> list[bool | None]:
        """Whether a run meets each condition; None if it has no parameter or metric of that name."""
        numbers: dict[str, float] = numbers_of(labels)
        numeric = [condition.metric for condition in self.conditions if isinstance(condition, StopCondition)]
        if not all(find_metric(numbers, name) for name in numeric):
            metrics = metrics_of(backend, job, labels.patterns)  # the log is read once for all conditions
            numbers = {**metrics, **numbers}
        results: list[bool | None] = []
        for condition in self.conditions:
            known: Mapping[str, Any] = numbers if isinstance(condition, StopCondition) else labels.parameters
            name = find_metric(known, condition.metric)
            results.append(condition.is_met_by(known[name]) if name else None)
        return results


def numbers_of(labels: Labels) -> dict[str, float]:
    """The parameters that are numbers."""
    parameters = labels.parameters.items()
    return {name: float(value) for name, value in parameters if isinstance(value, (int, float))}


def metrics_of(backend: Backend, job: JobResource, patterns: Mapping[str, str]) -> Mapping[str, float]:
    """The metrics of a run, each with its representative value: the best loss, the mean speed.

    Empty for a deleted run.
    """
    try:
        metrics = RunMetrics(Job(backend, job.id, patterns=patterns).records(), metric_preferences())
    except NotFoundError:
        return {}
    return {name: metric.summary.headline_value for name, metric in metrics.items() if metric.summary}


def _condition(text: str) -> StopCondition | TextCondition:
    try:
        condition = stop_condition(text)
    except ValueError as error:
        if match := _TEXT_CONDITION.fullmatch(text):
            return TextCondition(match[1], match[2] == "==", match[4])
        reason = str(error).removesuffix(STOP_FORM)
        raise UsageError(f"--where: {reason}{FORM}") from None
    if condition.held_s:
        raise UsageError(f"--where {text}: a run has one value, not one for a time", hint="leave out `for …`")
    return condition
