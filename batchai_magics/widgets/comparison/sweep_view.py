"""The current state of a sweep: its model, which all views share, and the stream of a view."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.cards import card_parts
from batchai_magics.cards.card_parts import TableCard, table_card_html, table_card_text
from batchai_magics.follow.job_errors import cause_of
from batchai_magics.jobs.job_costs import JobCosts
from batchai_magics.jobs.sweeps.sweep_handle import RUNNING, Sweep, state_of
from batchai_magics.metrics.runs.metric_summary import number_text
from batchai_magics.metrics.runs.metric_traits import Direction
from batchai_magics.metrics.runs.seed_groups import SEED, SeededRun, SeedGroups, seed_groups
from batchai_magics.models.prices import Cost, total
from batchai_magics.models.runs.labels import Parameter
from batchai_magics.models.states import ExecutionState
from batchai_magics.widgets.comparison.comparison_output import show_figure
from batchai_magics.widgets.comparison.comparison_view import FigureModel, json_number
from batchai_magics.widgets.core.display import Bundle, figure
from batchai_magics.widgets.core.view_stream import Batch, PageData, RunInBackground, milliseconds
from batchai_magics.widgets.dashboards.dashboard import DashboardStream, OpenJobs
from batchai_magics.widgets.job.job_header import progress_fields

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job
    from batchai_magics.jobs.sweeps.trial import Trial
    from batchai_magics.widgets.core.publisher import Publisher

MAX_SAVED = 20  # trials in a saved notebook: the best ones
MAX_CAUSES = 3  # of failures in a saved notebook
ROWS_PER_MESSAGE = 300  # about 100 KB
READ_S = 0.3  # for metrics of trials, per poll
MAX_WAIT_S = 20.0  # for the end of a sweep that has ended
INTERVAL_S = 1.0  # between two polls
RUNNING_INTERVAL_S = 5.0  # between two reads of a running trial's metrics
CURVE_POINTS, CURVE_DIGITS = 16, 4  # of a trial's metric, for its sparkline
MAX_METRICS = 6  # columns beside the metric that the sweep is about


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
    failure: str = ""


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


class SweepModel(FigureModel):
    """The current state of a sweep, read in the background until it has ended.

    An update costs as much as the trials that it changes. `changed` has the version of each trial, the latest
    changes last. `start` runs a task that may block. Without `takes_steps`, reading starts no trials.
    """

    noun = "sweep"
    max_interval_s = INTERVAL_S

    def __init__(
        self,
        sweep: Sweep,
        costs: JobCosts,
        *,
        start: RunInBackground | None = None,
        clock: Callable[[], float] = time.monotonic,
        takes_steps: bool = True,
    ) -> None:
        super().__init__()
        self.sweep = sweep
        self.name = sweep.name
        self.update: SweepUpdate | None = None
        self.trials: dict[int, TrialRow] = {}
        self.changed: dict[int, int] = {}
        self.best: TrialRow | None = None
        self.seeds = SeedGroups()
        self._counts: Counter[str] = Counter()
        self._reader = _SweepReader(sweep, costs, clock, takes_steps=takes_steps)
        self._start, self._clock = start or _run_in_thread, clock
        self._lock = threading.Lock()
        self._unapplied: list[SweepUpdate] = []
        self._error: Exception | None = None
        self._is_reading, self._due_at = False, clock()

    def read(self, *, is_whole: bool = False) -> None:
        """Reads the current state, before the first poll; with `is_whole`, also the metrics of all trials."""
        is_done = False
        while not is_done:
            if update := self._reader.read():
                self.take(update)
            is_done = self._reader.is_complete or not is_whole

    def poll(self) -> bool:
        """Applies what was read since the last poll, and starts the next read if it is due."""
        with self._lock:
            updates, self._unapplied = self._unapplied, []
            error, self._error = self._error, None
            is_due = not self._is_reading and self._clock() >= self._due_at
            self._is_reading = self._is_reading or is_due
        if error:
            raise error
        for update in updates:
            self.take(update)
        if any(update.is_over for update in updates):
            self.end()
        elif is_due:
            self._start(self._read)
        return bool(updates)

    def _read(self) -> None:
        try:
            update, error = self._reader.read(), None
        except Exception as caught:  # noqa: BLE001  # raised again by the next poll
            update, error = None, caught
        with self._lock:
            self._unapplied += [update] if update else []
            self._error = error
            self._is_reading, self._due_at = False, self._clock() + INTERVAL_S

    def take(self, update: SweepUpdate) -> None:
        """Applies an update."""
        self.version += 1
        is_reversed = self.update is not None and update.direction is not self.update.direction
        self.update = update
        for row in update.rows:
            old = self.trials.get(row.number)
            self._counts[row.state] += 1
            if old:
                self._counts[old.state] -= 1
            self.trials[row.number] = row
            self.changed.pop(row.number, None)
            self.changed[row.number] = self.version
        self.seeds = self._seed_groups()
        self._find_best(update.rows, is_reversed=is_reversed)

    def _seed_groups(self) -> SeedGroups:
        """The succeeded trials in groups that differ only in their seed."""
        names = self.update.parameters if self.update else ()
        if SEED not in names:
            return SeedGroups()
        runs = (
            SeededRun(
                {name: value for name, value in zip(names, row.parameters, strict=True) if value is not None},
                row.best if row.state == ExecutionState.SUCCEEDED.value else None,
            )
            for row in self.trials.values()
        )
        rises = self.sign < 0 if self.sign else None
        return seed_groups(runs, self.update.metric if self.update else "", rises=rises)

    def _find_best(self, rows: Iterable[TrialRow], *, is_reversed: bool) -> None:
        """Finds the best trial among these and the best so far; among all if that one's value has changed."""
        last = self.best
        is_same = last is None or self.trials[last.number].best == last.best
        candidates = self.trials.values() if is_reversed or not is_same else [*filter(None, [last]), *rows]
        if self.seeds.reference is not None:
            trials = [*self.trials.values()]
            candidates = [trials[index] for index in self.seeds.groups[self.seeds.reference].values]
        known = [row for row in candidates if row.best is not None]
        if self.sign and known:
            self.best = min(known, key=lambda row: (self.sign * (row.best or 0.0), row.number))
            self.best = self.trials[self.best.number]
        else:
            self.best = None

    @property
    def sign(self) -> int:
        """1 if lower values are better, −1 if higher ones are, 0 if neither."""
        direction = self.update.direction if self.update else Direction.UNKNOWN
        return {Direction.FALLS: 1, Direction.RISES: -1}.get(direction, 0)

    @property
    def has_ended(self) -> bool:
        """Whether the sweep has ended as far as the model knows."""
        return self.update is not None and self.update.state != RUNNING

    @property
    def reopen_command(self) -> str:
        """The command that shows the sweep again."""
        return f"%batchai sweep show -n {self.name}"

    @property
    def counts(self) -> dict[str, int]:
        """The number of trials by state."""
        return {state: count for state, count in self._counts.items() if count}

    def facts(self) -> PageData:
        """What the view's header shows (`SweepFacts` in frontend/core/messages.d.ts)."""
        update, best = self.update, self.best
        return {
            "name": self.name,
            "problem": self.problem,
            "state": update.state if update else RUNNING,
            "note": update.note if update else "",
            "parameters": list(update.parameters) if update else [],
            "metric": update.metric if update else "",
            "sign": self.sign,
            "metrics": [metric._asdict() for metric in update.metrics] if update else [],
            "cost": update.cost.text if update and update.cost else "",
            "total": len(self.trials),
            "counts": self.counts,
            "best": best.number if best else None,
            "sentences": self.seeds.sentences(),
        }

    def rows(self) -> list[PageData]:
        """Nothing: the trials are sent as messages, each once per change."""
        return []

    def jobs_named(self, names: Sequence[str]) -> list[Job]:
        """The handles of trials' jobs by the names of the trials."""
        _, trials = self.sweep.read(takes_step=True)
        jobs = {trial.name: trial.job for trial in trials}
        return [job for name in names if (job := jobs.get(name))]

    def bundle(self) -> Bundle:
        """The best trials as a table, in HTML and text."""
        update, metric = self.update, ""
        names: list[str] = []
        others: list[str] = []
        cost: list[str] = []
        if update:
            names, metric = [*update.parameters], update.metric
            others = [other.label for other in update.metrics]
            cost = [f"cost {update.cost.text}"] if update.cost else []
        trials = self.trials.values()  # the best ones first, those without a value last
        ranked = sorted(trials, key=lambda row: (row.best is None, self.sign * (row.best or 0.0), row.number))
        sentence = [f"{count} {state}" for state, count in self.counts.items()]
        rest = len(ranked) - MAX_SAVED
        card = TableCard(
            name=self.name,
            title=" · ".join([f"{card_parts.pluralize(len(ranked), 'trial')}: {', '.join(sentence)}", *cost]),
            titles=("trial", "state", *names, *([f"best {metric}"] if metric else []), *others),
            rows=[self._cells(row, has_metric=bool(metric)) for row in ranked[:MAX_SAVED]],
            colours=_COLOURS,
            sentences=self.seeds.sentences(),
            problems=[*([update.note] if update and update.note else []), *_failures(ranked)],
            omitted=f"and {card_parts.pluralize(rest, 'more trial')}" if rest > 0 else "",
            reopen_command=self.reopen_command,
        )
        return {"text/html": table_card_html(card), "text/plain": table_card_text(card)}

    def chart(self) -> Bundle:
        """The metric of each trial and the best one so far, as a PNG with a text equivalent."""
        from batchai_magics.metrics.charts.comparison_chart import plot_sweep

        points = [(row.number, row.best) for row in self.trials.values() if row.best is not None]
        axes = plot_sweep(sorted(points), self.update.metric if self.update else "", self.sign)
        return figure(axes, f"Chart of the sweep {self.name}")

    def _cells(self, row: TrialRow, *, has_metric: bool) -> tuple[str, ...]:
        values = ("" if value is None else str(value) for value in row.parameters)
        star = "★ " if self.best and row.number == self.best.number else ""
        value = f"{star}{_number(row.best)}"
        columns = len(self.update.metrics) if self.update else 0  # of all trials together
        metrics = map(_number, (*row.metrics, *[None] * (columns - len(row.metrics))))
        return row.name, row.state, *values, *([value] if has_metric else []), *metrics


def _number(value: float | None) -> str:
    return "" if value is None else number_text(value)


_COLOURS = {**card_parts.JOB_COLOURS, "waiting": card_parts.GREY, "pruned": card_parts.PURPLE}


def _failures(rows: Iterable[TrialRow]) -> list[str]:
    """Why trials failed, each cause once: `lr-t2 and 3 more: rank 0: exit code 2`."""
    by_cause: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.failure:
            by_cause[row.failure].append(row.name)
    causes = []
    for cause, (first, *more) in list(by_cause.items())[:MAX_CAUSES]:
        others = f" and {len(more)} more" if more else ""
        causes.append(f"{first}{others}: {cause}")
    return causes


class _SweepReader:
    """Reads the trials that have changed; the metrics of ended trials are read once."""

    def __init__(
        self, sweep: Sweep, costs: JobCosts, clock: Callable[[], float], *, takes_steps: bool
    ) -> None:
        self._takes_steps = takes_steps
        self.is_complete = False  # whether the metrics of every trial have been read at least once
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
        definition, trials = self._sweep.read(takes_step=self._takes_steps)
        names = self._parameters = definition.parameters
        is_complete = self.is_complete = self._read_results(trials)
        rows = []
        for trial in trials:
            row = self._row(trial, names)
            if self._known.get(trial.number) != row:
                self._known[trial.number] = row
                rows.append(row)
        metric, direction = self._goal
        if (is_max := definition.options.goal.is_max) is not None:
            direction = Direction.RISES if is_max else Direction.FALLS
        metrics, state = tuple(self._metrics.values()), state_of(definition, trials)
        is_over = is_complete and state != RUNNING and not any(trial.is_open for trial in trials)
        head = (state, definition.note, names, metric, direction, metrics, self._cost(trials))
        if not rows and head == self._head and not is_over:
            return None
        self._head = head
        return SweepUpdate(*head, rows=tuple(rows), is_over=is_over)

    def _read_results(self, trials: Sequence[Trial]) -> bool:
        """Reads the metrics of some trials; returns whether those of all are known, as for `is_complete`."""
        until = self._clock() + READ_S
        due = sorted(filter(self._is_due, trials), key=lambda trial: self._read_at.get(trial.number, 0.0))
        for count, trial in enumerate(due):
            if count and self._clock() > until:
                return all(rest.is_open and rest.number in self._read_at for rest in due[count:])
            self._read_parts[trial.number] = self._parts_of(trial)
            self._read_at[trial.number] = self._clock()
            if not trial.is_open:
                self._final[trial.number] = len(trial.runs)
        return True

    def _parts_of(self, trial: Trial) -> dict[str, Any]:
        """The fields of a trial's row that are read from its logs."""
        result, progress = self._sweep.result(trial), self._sweep.progress(trial)
        if result.metric and not self._goal[0]:
            self._goal = result.metric, result.direction
        values = {metric.name: json_number(metric.headline_value) for metric in result.others}
        known = {self._goal[0], *self._metrics, *self._parameters}
        new = [metric for metric in result.others if metric.name not in known]
        for metric in new[: MAX_METRICS - len(self._metrics)]:
            is_rising = metric.direction is Direction.RISES
            self._metrics[metric.name] = TrialMetric(metric.name, metric.label, is_rising)
        return {
            "value": json_number(result.value),
            "best": json_number(result.best),
            "metrics": tuple(values.get(name) for name in self._metrics),
            "curve": curve_of([*result.points.values()]),
            "progress": progress and progress_fields(progress),
            "failure": cause_of(trial.backend, trial.resource) if trial.resource else "",
        }

    def _is_due(self, trial: Trial) -> bool:
        if trial.resource is None or trial.resource.execution is None:
            return False
        if not trial.is_open:
            return self._final.get(trial.number) != len(trial.runs)
        last = self._read_at.get(trial.number)
        return last is None or self._clock() - last >= RUNNING_INTERVAL_S

    def _row(self, trial: Trial, names: Sequence[str]) -> TrialRow:
        known, parts = self._known.get(trial.number), self._read_parts.get(trial.number, {})
        if known and not trial.is_open and known.ended and (known.state, known.attempts) == _state(trial):
            return known._replace(**parts)
        execution = trial.resource.execution if trial.resource else None
        cost = None if trial.is_open else self._costs.of_jobs(trial.runs)
        if cost:
            self._ended_costs[trial.number] = cost
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

    def _cost(self, trials: Sequence[Trial]) -> Cost | None:
        """What all trials have cost."""
        if not self._costs.has_prices:
            return None
        open_costs = (self._costs.of_jobs(trial.runs) for trial in trials if trial.is_open)
        return total([*self._ended_costs.values(), *filter(None, open_costs)])


def curve_of(values: Sequence[float]) -> tuple[float, ...]:
    """A few of the finite values, evenly spaced, with the first and the last one."""
    known, last = [value for value in values if math.isfinite(value)], CURVE_POINTS - 1
    if len(known) > CURVE_POINTS:
        known = [known[round(i * (len(known) - 1) / last)] for i in range(CURVE_POINTS)]
    return tuple(float(f"{value:.{CURVE_DIGITS}g}") for value in known)


def _state(trial: Trial) -> tuple[str, int]:
    return trial.word, trial.attempts


def _run_in_thread(task: Callable[[], None]) -> None:
    threading.Thread(target=task, daemon=True, name="batchai-sweep").start()


class SweepStream(DashboardStream):
    """Trials as rows, sent when they change."""

    script = "sweep_view"
    _model: SweepModel

    _sent_version: int
    _unsent: dict[int, None]  # numbers of trials

    def on_hello(self, content: PageData) -> None:
        """A page has said hello: it has no trials yet."""
        super().on_hello(content)
        self._sent_version, self._unsent = 0, {}

    def next_message(self, limit_bytes: int) -> Batch | None:
        """The next trials for which the page is out of date."""
        for number, version in reversed(self._model.changed.items()):
            if version <= self._sent_version:
                break
            self._unsent[number] = None
        self._sent_version = self._model.version
        numbers = list(self._unsent)[:ROWS_PER_MESSAGE]
        for number in numbers:
            del self._unsent[number]
        if not numbers:
            return None
        return Batch({"kind": "trials", "rows": [self._model.trials[number] for number in numbers]})


def show(sweep: Sweep, publisher: Publisher, open_jobs: OpenJobs, *, ui: str) -> None:
    """Shows a sweep beneath the cell, and takes its steps until it has ended; `ui` as for a comparison."""
    key, model = shared_model(sweep, publisher, is_whole=ui == "text")
    if ui == "text" and sweep.state != RUNNING:  # a terminal would print the end later, between other outputs
        publisher.wait_for(lambda: model.is_over, MAX_WAIT_S)

    def make_view() -> SweepStream:
        work = publisher.run_in_background
        return SweepStream(model, work=work, clock=publisher.clock, open_jobs=open_jobs)

    show_figure(key, model, make_view, publisher, ui=ui)


def shared_model(
    sweep: Sweep, publisher: Publisher, *, takes_steps: bool = True, is_whole: bool = False
) -> tuple[str, SweepModel]:
    """The model that all views of a sweep share, with its key; `is_whole`: with the metrics of all trials."""

    def make_model() -> SweepModel:
        costs = JobCosts(sweep.backend)
        model = SweepModel(sweep, costs, clock=publisher.clock, takes_steps=takes_steps)
        model.read(is_whole=is_whole)
        return model

    key = f"sweep {sweep.experiment.key} {sweep.name}"
    return key, publisher.model(key, make_model)
