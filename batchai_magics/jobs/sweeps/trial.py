"""A trial of a sweep: its parameters, the runs of its job, and the metrics of a run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from batchai_magics.backends.base import Backend
from batchai_magics.cell.cell_options import Goal
from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.metrics.runs.metric_summary import MetricSummary
from batchai_magics.metrics.runs.metric_traits import Direction, MetricPreferences
from batchai_magics.metrics.runs.run_metrics import Metric, RunMetrics
from batchai_magics.metrics.runs.seed_groups import SeededRun, SeedGroups, seed_groups
from batchai_magics.models.resources import JobResource
from batchai_magics.models.runs.labels import Parameter
from batchai_magics.models.states import CANCELLED, ExecutionState
from batchai_magics.records.trial_record import PRUNED, trial_name

WAITING = "waiting"  # the state of a trial whose job does not exist yet
MAX_OTHERS = 6  # metrics of a run beside the one that the sweep is about


@dataclass(frozen=True)
class Trial:
    """A trial."""

    number: int  # its number, from 1
    parameters: Mapping[str, Parameter]
    sweep: str
    backend: Backend = field(repr=False, compare=False)
    # The runs of its job, oldest first; a failed trial that is run again has several
    runs: tuple[JobResource, ...] = field(default=(), repr=False)
    is_pruned: bool = False  # whether it was ended for doing worse than the others

    @property
    def resource(self) -> JobResource | None:
        """Its latest run; None before its job exists."""
        return self.runs[-1] if self.runs else None

    @property
    def job(self) -> Job | None:
        """The handle of its latest run; None before its job exists."""
        return Job(self.backend, self.runs[-1].id) if self.runs else None

    @property
    def name(self) -> str:
        """The name of its job."""
        return self.runs[-1].id.name if self.runs else trial_name(self.sweep, self.number)

    @property
    def word(self) -> str:
        """Its state: its job's state, `waiting` or `pruned`."""
        if not self.runs:
            return WAITING
        return PRUNED if self.is_pruned else self.runs[-1].word

    @property
    def is_open(self) -> bool:
        """Whether its job has not ended."""
        return bool(self.runs) and not self.runs[-1].state.is_final

    @property
    def has_failed(self) -> bool:
        """Whether its job failed, and nobody stopped it."""
        return bool(self.runs) and self.runs[-1].has_failed

    @property
    def has_succeeded(self) -> bool:
        """Whether its job has succeeded."""
        return bool(self.runs) and self.runs[-1].state is ExecutionState.SUCCEEDED

    @property
    def is_repeatable(self) -> bool:
        """Whether it runs again when the sweep is submitted again: it failed or was cancelled."""
        return self.has_failed or self.word == CANCELLED

    @property
    def attempts(self) -> int:
        """How often it was started, all runs and their restarts together."""
        return sum(len(run.attempts) or run.has_begun for run in self.runs)

    @property
    def ended_at(self) -> datetime | None:
        """When its latest run ended."""
        execution = self.runs[-1].execution if self.runs else None
        return execution.ended if execution else None

    @property
    def duration_s(self) -> float:
        """How long its latest run took, as far as it has ended."""
        execution = self.runs[-1].execution if self.runs else None
        return (execution.ended - execution.started).total_seconds() if execution and execution.ended else 0.0


@dataclass(frozen=True)
class TrialResult:
    """The values of the sweep's metric in a run."""

    metric: str = ""  # its name; empty without any
    value: float | None = None  # its representative value in the run
    best: float | None = None  # the best one
    direction: Direction = Direction.UNKNOWN  # which values are better
    # Its value over all ranks by step, in the last fit of the run
    points: Mapping[int, float] = field(default_factory=dict, repr=False, compare=False)
    # The run's other metrics, the most important ones first, without durations
    others: tuple[MetricSummary, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def of(cls, metric: Metric, metrics: RunMetrics) -> TrialResult:
        """The result for a metric of a run."""
        summary = metric.summary
        if summary is None:
            return cls()
        best = summary.headline_value if summary.best is None or summary.mean is not None else summary.best
        points = {int(step): value for step, value in metric.last_segment().items()}
        values = (other for other in metrics.summaries if not other.is_timer)
        others = itertools.islice((other for other in values if other.name != summary.name), MAX_OTHERS)
        return cls(summary.name, summary.headline_value, best, summary.direction, points, tuple(others))


def preferences_of(goal: Goal) -> MetricPreferences:
    """The user's preferences of metrics, changed so that the goal is the headline."""
    base = metric_preferences()
    if not goal.metric:
        return base
    return MetricPreferences(
        goal.metric,
        (*base.rising, goal.metric) if goal.is_max else _without(base.rising, goal),
        (*base.falling, goal.metric) if goal.is_max is False else _without(base.falling, goal),
    )


def _without(names: Iterable[str], goal: Goal) -> tuple[str, ...]:
    return tuple(name for name in names if goal.is_max is None or name != goal.metric)


def result_of(job: Job, goal: Goal, preferences: MetricPreferences) -> TrialResult:
    """The result of a job so far; empty for a deleted job."""
    try:
        metrics = RunMetrics(job.records(), preferences)
    except BatchAIError:
        return TrialResult()
    metric = metrics.find(goal.metric) if goal.metric else metrics.headline
    return TrialResult.of(metric, metrics) if metric else TrialResult()


def is_max(results: Iterable[TrialResult], goal: Goal) -> bool | None:
    """Whether the greatest value wins, as the goal says or the metric's name; None if neither does."""
    if goal.is_max is not None:
        return goal.is_max
    known = next((result.direction for result in results if result.direction is not Direction.UNKNOWN), None)
    return None if known is None else known is Direction.RISES


def seed_groups_of(results: Sequence[tuple[Trial, TrialResult]], goal: Goal) -> SeedGroups:
    """The trials that differ in their seed alone, with the best value of each that has succeeded."""
    metric = next((result.metric for _, result in results if result.metric), "")
    runs = [
        SeededRun(trial.parameters, result.best if trial.has_succeeded else None) for trial, result in results
    ]
    return seed_groups(runs, metric, rises=is_max((result for _, result in results), goal))


def best_of(results: Sequence[tuple[Trial, TrialResult]], goal: Goal) -> Trial | None:
    """The trial with the best value; of equal ones, the first. None without a value or a direction.

    With seeds, it is the best trial of the parameters with the best mean over seeds.
    """
    groups = seed_groups_of(results, goal)
    if groups.reference is not None:
        results = [results[index] for index in groups.groups[groups.reference].values]
    known = {
        trial.number: (result.best, trial)
        for trial, result in results
        if result.best is not None and not math.isnan(result.best)
    }
    rises = is_max((result for _, result in results), goal)
    if not known or rises is None:
        return None
    choose = max if rises else min
    return choose(known.values(), key=lambda entry: entry[0])[1]
