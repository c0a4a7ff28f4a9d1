"""A job's headline metric by step and its progress, for a row of a list; its logs are read as they grow."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from batchai_magics.backends.base import Backend, FileRef
from batchai_magics.errors import BatchAIError
from batchai_magics.follow import METRICS_FILES, MetricsAdded, StateChanged
from batchai_magics.follow.log_follower import LogFollower
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.metrics.progress.progress_reader import Progress
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.models.resources import JobResource

TAIL_BYTES = 1 << 20  # only this much of a longer log is read
MAX_VALUES = 40
MAX_CPU_SHARE = 0.05  # of a core, for the values of a job


@dataclass(frozen=True)
class RatesUpdate:
    """New values of a job's headline metric, or its progress."""

    job: str
    values: list[float]
    progress: Progress | None = None
    label: str = ""  # of the metric


class RateReader:
    """Reads a job's logs until they are complete; each `advance` reads what was written since."""

    def __init__(
        self,
        backend: Backend,
        job: JobResource,
        *,
        preferences: MetricPreferences = NO_PREFERENCES,
        patterns: Mapping[str, str] = MappingProxyType({}),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        files = [FileRef(job.id, name) for name in METRICS_FILES]
        self._name = job.id.name
        self._logs = LogFollower(backend, job.id, patterns, files, tail_bytes=TAIL_BYTES)
        self._model: JobModel | None = JobModel(preferences=preferences)
        self._model.take(StateChanged(job))
        self._clock, self._due_at = clock, 0.0
        self._is_stale = False  # the logs have more than was told
        self.read_count = 0

    @property
    def is_drained(self) -> bool:
        """Whether the logs are complete and have been read to the end."""
        return self._model is None

    def advance(self) -> RatesUpdate | None:
        """Reads what was written since; returns what is new, seldom if finding it takes long."""
        model = self._model
        if model is None:
            return None
        self.read_count += 1
        progress = model.progress
        try:
            events = [*self._logs.read()]
        except BatchAIError:  # deleted since it was listed: the next list no longer has it
            return None
        if self._logs.is_drained:
            events += self._logs.finish()
            self._model = None
        for event in events:
            model.take(event)
            self._is_stale |= isinstance(event, MetricsAdded)
        self._is_stale |= model.progress != progress
        began = self._clock()
        if not self._is_stale or (began < self._due_at and not self.is_drained):
            return None
        self._is_stale = False
        update = self._update_of(model)
        self._due_at = self._clock() + (self._clock() - began) / MAX_CPU_SHARE
        return update

    def _update_of(self, model: JobModel) -> RatesUpdate:
        headline = model.metrics.headline
        values = list(headline.combined().values()) if headline else []
        if len(values) > MAX_VALUES:
            stride = (len(values) - 1) / (MAX_VALUES - 1)
            values = [values[round(i * stride)] for i in range(MAX_VALUES)]
        finite = [float(f"{value:.6g}") for value in values if math.isfinite(value)]
        return RatesUpdate(self._name, finite, model.progress, headline.label if headline else "")
