"""A sweep as it is now: its trials, read in the background."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from batchai_magics.backends.base import Backend
from batchai_magics.jobs.job_costs import JobCosts
from batchai_magics.jobs.job_handle import Job
from batchai_magics.metrics.progress.progress_reader import Progress
from batchai_magics.metrics.runs.metric_summary import MetricSummary
from batchai_magics.metrics.runs.metric_traits import Direction
from batchai_magics.models.prices import Cost, total
from batchai_magics.models.resources import JobResource
from batchai_magics.models.runs.parameters import Parameter
from batchai_magics.widgets.comparison.comparison_feed import json_number
from batchai_magics.widgets.core.cell_output import RunInBackground
from batchai_magics.widgets.core.feed import PageData, milliseconds
from batchai_magics.widgets.job.job_header import progress_fields

READ_S = 0.3  # for metrics of trials, per poll
INTERVAL_S = 1.0  # between two polls
RUNNING_INTERVAL_S = 5.0  # between two reads of a running trial's metrics
RUNNING = "running"
CURVE_POINTS, CURVE_DIGITS = 16, 4  # of a trial's metric, for its sparkline
MAX_METRICS = 6  # columns beside the metric that the sweep is about


class SweepTrial(Protocol):
    """What the view shows of a trial."""

    number: int
    parameters: Mapping[str, Parameter]
    runs: tuple[JobResource, ...]

    @property
    def name(self) -> str:
        """The name of its job."""

    @property
    def word(self) -> str:
        """Its state."""

    @property
    def attempts(self) -> int:
        """How often it was started."""

    @property
    def is_open(self) -> bool:
        """Whether its job has not ended."""

    @property
    def resource(self) -> JobResource | None:
        """Its latest run; None before its job exists."""

    @property
    def job(self) -> Job | None:
        """The handle of that run."""


class SweepResult(Protocol):
    """The metric of a trial."""

    metric: str
    value: float | None
    best: float | None
    direction: Direction
    points: Mapping[int, float]
    others: Sequence[MetricSummary]


class SweepState(Protocol):
    """A sweep at one moment; `is_max` is None if the direction of its metric decides."""

    state: str
    note: str
    parameters: Sequence[str]
    trials: Sequence[SweepTrial]
    is_max: bool | None


class ShownSweep(Protocol):
    """A sweep that a view shows."""

    name: str
    backend: Backend

    def snapshot(self) -> SweepState:
        """Its state; takes the sweep's next step."""

    def result(self, trial: SweepTrial) -> SweepResult:
        """The metric of a trial so far, read from its log."""

    def progress(self, trial: SweepTrial) -> Progress | None:
        """How far a trial has come; None unless it runs or has failed."""


class TrialMetric(NamedTuple):
    """A metric that trials have beside the one that the sweep is about."""

    name: str
    label: str
    is_rising: bool


class TrialRow(NamedTuple):
    """A trial in the view; times are milliseconds since 1970 (`TrialRow` in frontend/core/messages.d.ts).

    `metrics` are in the order of `SweepUpdate.metrics`, `curve` is the metric over the steps so far.
    """

    number: int
    name: str
    state: str
    attempts: int = 0
    value: float | None = None
    best: float | None = None
    started: int | None = None
    ended: int | None = None
    cost: str = ""
    parameters: tuple[Parameter | None, ...] = ()
    metrics: tuple[float | None, ...] = ()
    curve: tuple[float, ...] = ()
    progress: PageData | None = None


@dataclass(frozen=True)
class SweepUpdate:
    """The state of a sweep, and the trials that have changed."""

    state: str
    note: str
    parameters: tuple[str, ...]
    metric: str
    direction: Direction
    metrics: tuple[TrialMetric, ...]
    cost: Cost | None
    rows: tuple[TrialRow, ...]
    is_over: bool


class SweepSource:
    """Reads a sweep in the background, and reports what has changed; ends with the sweep."""

    is_behind = False

    def __init__(
        self,
        sweep: ShownSweep,
        costs: JobCosts,
        *,
        start: RunInBackground | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = _SweepReader(sweep, costs, clock)
        self._start, self._clock = start or _in_thread, clock
        self._lock = threading.Lock()
        self._updates: list[SweepUpdate] = []
        self._error: Exception | None = None
        self._is_reading, self._due_at = False, clock()
        self.is_over = False

    def poll(self) -> list[SweepUpdate]:
        """Returns the updates since the last poll, and starts the next read if it is due."""
        with self._lock:
            updates, self._updates = self._updates, []
            error, self._error = self._error, None
            is_due = not self._is_reading and self._clock() >= self._due_at
            self._is_reading = self._is_reading or is_due
        if error:
            raise error
        self.is_over = any(update.is_over for update in updates)
        if is_due and not self.is_over:
            self._start(self._read)
        return updates

    def read(self) -> SweepUpdate | None:
        """The current state, read at once; only before the first poll."""
        return self._reader.read()

    def _read(self) -> None:
        try:
            update, error = self._reader.read(), None
        except Exception as caught:  # noqa: BLE001  # raised again by the poll that asks for it
            update, error = None, caught
        with self._lock:
            self._updates += [update] if update else []
            self._error = error
            self._is_reading, self._due_at = False, self._clock() + INTERVAL_S


class _SweepReader:
    """Reads the trials that have changed; the metrics of ended ones once."""

    def __init__(self, sweep: ShownSweep, costs: JobCosts, clock: Callable[[], float]) -> None:
        self._sweep, self._costs, self._clock = sweep, costs, clock
        self._known: dict[int, TrialRow] = {}
        self._goal: tuple[str, Direction] = "", Direction.UNKNOWN
        self._parameters: tuple[str, ...] = ()  # whose names metrics may have too, such as lr
        self._metrics: dict[str, TrialMetric] = {}  # in the order in which trials showed them
        self._read_parts: dict[int, dict[str, Any]] = {}  # of the rows: what was read from the logs
        self._read_at: dict[int, float] = {}  # when the metrics of a trial were read
        self._final: dict[int, int] = {}  # number → runs of the ended trials whose metrics were read
        self._ended_costs: dict[int, Cost] = {}
        self._head: object = None

    def read(self) -> SweepUpdate | None:
        """The changes since the last read; None without any."""
        now = self._sweep.snapshot()
        names = self._parameters = tuple(now.parameters)
        is_complete = self._read_results(now.trials)
        rows = [row for trial in now.trials if (row := self._changed_row(trial, names))]
        metric, direction = self._goal
        if now.is_max is not None:
            direction = Direction.RISES if now.is_max else Direction.FALLS
        metrics = tuple(self._metrics.values())
        is_over = is_complete and now.state != RUNNING and not any(trial.is_open for trial in now.trials)
        head = (now.state, now.note, names, metric, direction, metrics, self._cost(now.trials))
        if not rows and head == self._head and not is_over:
            return None
        self._head = head
        return SweepUpdate(*head, rows=tuple(rows), is_over=is_over)

    def _read_results(self, trials: Sequence[SweepTrial]) -> bool:
        """Reads the metrics of some trials; returns whether those of all ended ones are known."""
        until = self._clock() + READ_S
        due = sorted(filter(self._is_due, trials), key=lambda trial: self._read_at.get(trial.number, 0.0))
        for count, trial in enumerate(due):
            if count and self._clock() > until:
                return False
            self._read_parts[trial.number] = self._parts_of(trial)
            self._read_at[trial.number] = self._clock()
            if not trial.is_open:
                self._final[trial.number] = len(trial.runs)
        return True

    def _parts_of(self, trial: SweepTrial) -> dict[str, Any]:
        """What the logs of a trial tell, as fields of its row."""
        result, progress = self._sweep.result(trial), self._sweep.progress(trial)
        if result.metric and not self._goal[0]:
            self._goal = result.metric, result.direction
        values = {each.name: json_number(each.headline_value) for each in result.others}
        known = {self._goal[0], *self._metrics, *self._parameters}
        new = [each for each in result.others if each.name not in known]
        for each in new[: MAX_METRICS - len(self._metrics)]:
            is_rising = each.direction is Direction.RISES
            self._metrics[each.name] = TrialMetric(each.name, each.label, is_rising)
        return {
            "value": json_number(result.value),
            "best": json_number(result.best),
            "metrics": tuple(values.get(name) for name in self._metrics),
            "curve": curve_of([*result.points.values()]),
            "progress": progress and progress_fields(progress),
        }

    def _is_due(self, trial: SweepTrial) -> bool:
        if trial.resource is None or trial.resource.execution is None:
            return False
        if not trial.is_open:
            return self._final.get(trial.number) != len(trial.runs)
        last = self._read_at.get(trial.number)
        return last is None or self._clock() - last >= RUNNING_INTERVAL_S

    def _changed_row(self, trial: SweepTrial, names: Sequence[str]) -> TrialRow | None:
        """The row of a trial, if it has changed."""
        row = self._row(trial, names)
        if self._known.get(trial.number) == row:
            return None
        self._known[trial.number] = row
        return row

    def _row(self, trial: SweepTrial, names: Sequence[str]) -> TrialRow:
        known, parts = self._known.get(trial.number), self._read_parts.get(trial.number, {})
        if known and not trial.is_open and known.ended and (known.state, known.attempts) == _state(trial):
            return known._replace(**parts)
        execution = trial.resource.execution if trial.resource else None
        cost = self._ended_cost(trial)
        return TrialRow(
            trial.number,
            trial.name,
            *_state(trial),
            started=milliseconds(execution.started) if execution else None,
            ended=milliseconds(execution.ended) if execution and execution.ended else None,
            cost=cost.text if cost else "",
            parameters=tuple(trial.parameters.get(name) for name in names),
            **parts,
        )

    def _ended_cost(self, trial: SweepTrial) -> Cost | None:
        cost = None if trial.is_open else self._costs.of_jobs(trial.runs)
        if cost:
            self._ended_costs[trial.number] = cost
        return cost

    def _cost(self, trials: Sequence[SweepTrial]) -> Cost | None:
        """What all trials have cost."""
        if not self._costs.has_prices:
            return None
        going = (self._costs.of_jobs(trial.runs) for trial in trials if trial.is_open)
        return total([*self._ended_costs.values(), *filter(None, going)])


def curve_of(values: Sequence[float]) -> tuple[float, ...]:
    """A few of the finite values, evenly spaced, with the first and the last one."""
    known, last = [value for value in values if math.isfinite(value)], CURVE_POINTS - 1
    if len(known) > CURVE_POINTS:
        known = [known[round(place * (len(known) - 1) / last)] for place in range(CURVE_POINTS)]
    return tuple(float(f"{value:.{CURVE_DIGITS}g}") for value in known)


def _state(trial: SweepTrial) -> tuple[str, int]:
    return trial.word, trial.attempts


def _in_thread(task: Callable[[], None]) -> None:
    threading.Thread(target=task, daemon=True, name="batchai-sweep").start()
