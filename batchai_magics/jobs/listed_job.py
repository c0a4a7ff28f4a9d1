"""A job in a list: its labels, its headline metric by step, its progress, and why it failed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from batchai_magics.backends.base import Backend, FileRef
from batchai_magics.errors import BatchAIError
from batchai_magics.follow import METRICS_FILES, MetricsAdded, StateChanged
from batchai_magics.follow.job_errors import cause_of
from batchai_magics.follow.log_follower import LogFollower
from batchai_magics.jobs.job_logs import has_progress
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.metrics.reading.progress_reader import Progress
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.models.resources import JobResource
from batchai_magics.models.runs.labels import Labels

TAIL_BYTES = 1 << 20  # only this much of a longer log is read
MAX_VALUES = 40
MAX_CPU_SHARE = 0.05  # of a core, for the values of a job …
MAX_INTERVAL_S = 10.0  # … which are updated at least this often
NO_LABELS = Labels()


@dataclass(eq=False)
class ListedJob:
    """A job in a list. Each `advance` reads the new bytes of its logs.

    `values` are the finite values of its headline metric, which `label` names; `last` is the last value as
    text if it is not finite: `nan`, `inf`. `version` increases with every change of these, of progress and of
    failure.
    """

    resource: JobResource
    values: Sequence[float] = ()
    label: str = ""
    failure: str = ""
    last: str = ""
    labels: Labels = NO_LABELS
    version: int = 0
    read_count: int = 0
    is_drained: bool = False  # the logs are complete and have been read to the end
    _progress: Progress | None = None
    _model: JobModel | None = field(default=None, init=False, repr=False)
    _logs: LogFollower | None = field(default=None, init=False, repr=False)
    _has_news: bool = False  # the logs have more than the values
    _due_at: float = 0.0

    @property
    def progress(self) -> Progress | None:
        """The latest progress of a job that can have some, if its logs report it."""
        return self._progress if has_progress(self.resource) else None

    def advance(
        self,
        backend: Backend,
        *,
        preferences: MetricPreferences = NO_PREFERENCES,
        clock: Callable[[], float] = time.monotonic,
        cpu_time: Callable[[], float] = time.thread_time,
    ) -> bool:
        """Reads the new bytes of the logs; returns whether anything has changed.

        The more CPU time an update takes, the less often it is done.
        """
        job = self.resource
        if self._model is None or self._logs is None:
            self._model = JobModel(preferences=preferences)
            self._model.take(StateChanged(job))
            files = [FileRef(job.id, name) for name in METRICS_FILES]
            self._logs = LogFollower(backend, job.id, self.labels.patterns, files, tail_bytes=TAIL_BYTES)
        model, logs, progress = self._model, self._logs, self._model.progress
        self.read_count += 1
        try:
            events = [*logs.read()]
        except BatchAIError:  # deleted since it was listed: the next list no longer has it
            return False
        if logs.is_drained and job.state.is_final:
            events += logs.finish()
            self.failure = cause_of(backend, job)
            self.is_drained, self._model, self._logs = True, None, None
        for event in events:
            model.take(event)
            self._has_news |= isinstance(event, MetricsAdded)
        self._has_news |= model.progress != progress or bool(self.failure)
        if not self._has_news or (clock() < self._due_at and not self.is_drained):
            return False
        self._has_news = False
        started_at_s = cpu_time()  # which other load on the machine does not affect
        self._update(model)
        self._due_at = clock() + min(MAX_INTERVAL_S, (cpu_time() - started_at_s) / MAX_CPU_SHARE)
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
        self._progress = model.progress
        self.version += 1
