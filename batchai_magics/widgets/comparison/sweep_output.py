"""A sweep in a cell's output: live, as refreshed HTML or as text; at the end a table and a figure."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from batchai_magics.cards import card_parts
from batchai_magics.cards.card_parts import TableCard, table_card_html, table_card_text
from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.job_costs import job_costs
from batchai_magics.jobs.job_handle import Job
from batchai_magics.metrics.runs.metric_summary import number_text
from batchai_magics.metrics.runs.metric_traits import Direction
from batchai_magics.metrics.runs.seed_groups import SEED, SeededRun, SeedGroups, seed_groups
from batchai_magics.models.runs.parameters import Parameter
from batchai_magics.models.states import ExecutionState
from batchai_magics.widgets.comparison.comparison_output import (
    ComparisonOutput,
    LiveComparison,
    TextComparisonOutput,
)
from batchai_magics.widgets.comparison.sweep_source import (
    INTERVAL_S,
    RUNNING,
    ShownSweep,
    SweepSource,
    SweepUpdate,
    TrialRow,
)
from batchai_magics.widgets.core.cell_output import Clock, RunInBackground
from batchai_magics.widgets.core.display import Bundle, figure
from batchai_magics.widgets.core.feed import FigureFeed, PageData
from batchai_magics.widgets.dashboards.dashboard_output import DashboardOutput, Opener
from batchai_magics.widgets.dashboards.dashboard_view import DashboardView, answer_to

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from batchai_magics.widgets.core.publisher import Publisher

MAX_SAVED = 20  # trials in a saved notebook: the best ones
ROWS_PER_MESSAGE = 300  # about 100 KB


class SweepFeed(FigureFeed[SweepUpdate]):
    """The current state of a sweep. An update costs as much as the trials that it changes.

    `changed` has the version of each trial, the latest changes last.
    """

    noun = "sweep"

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.update: SweepUpdate | None = None
        self.trials: dict[int, TrialRow] = {}
        self.changed: dict[int, int] = {}
        self.best: TrialRow | None = None
        self.seeds = SeedGroups()
        self._counts: Counter[str] = Counter()

    def take(self, event: SweepUpdate) -> None:
        """Applies an update."""
        self.version += 1
        is_turned = self.update is not None and event.direction is not self.update.direction
        self.update = event
        for row in event.rows:
            old = self.trials.get(row.number)
            self._counts[row.state] += 1
            if old:
                self._counts[old.state] -= 1
            self.trials[row.number] = row
            self.changed.pop(row.number, None)
            self.changed[row.number] = self.version
        self.seeds = self._seed_groups()
        self._find_best(event.rows, is_turned=is_turned)

    def _seed_groups(self) -> SeedGroups:
        """The trials that differ in their seed alone; those that have succeeded."""
        names = self.update.parameters if self.update else ()
        if SEED not in names:
            return SeedGroups()
        runs = (
            SeededRun(
                _parameters_of(names, row), row.best if row.state == ExecutionState.SUCCEEDED.value else None
            )
            for row in self.trials.values()
        )
        rises = self.sign < 0 if self.sign else None
        return seed_groups(runs, self.update.metric if self.update else "", rises=rises)

    def _find_best(self, rows: Iterable[TrialRow], *, is_turned: bool) -> None:
        """Finds the best trial: among these and the best one so far, or among all if that has changed."""
        last = self.best
        is_same = last is None or self.trials[last.number].best == last.best
        candidates = self.trials.values() if is_turned or not is_same else [*filter(None, [last]), *rows]
        if self.seeds.reference is not None:
            every = [*self.trials.values()]
            candidates = [every[index] for index in self.seeds.groups[self.seeds.reference].values]
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
    def is_at_rest(self) -> bool:
        """Always True; another process may start a trial at any time."""
        return True

    @property
    def has_ended(self) -> bool:
        """Whether the sweep has ended as far as the feed knows."""
        return self.update is not None and self.update.state != RUNNING

    @property
    def way_back(self) -> str:
        """The command that shows the sweep again."""
        return f"%batchai sweep show -n {self.name}"

    @property
    def counts(self) -> dict[str, int]:
        """The number of trials by state."""
        return {state: count for state, count in self._counts.items() if count}

    def facts(self) -> PageData:
        """What the view's header shows (`SweepFacts` in frontend/core/messages.d.ts)."""
        now, best = self.update, self.best
        return {
            "name": self.name,
            "problem": self.problem,
            "state": now.state if now else RUNNING,
            "note": now.note if now else "",
            "parameters": list(now.parameters) if now else [],
            "metric": now.metric if now else "",
            "sign": self.sign,
            "metrics": [each._asdict() for each in now.metrics] if now else [],
            "cost": now.cost.text if now and now.cost else "",
            "total": len(self.trials),
            "counts": self.counts,
            "best": best.number if best else None,
            "sentences": self.seeds.sentences(),
        }

    def rows(self) -> list[PageData]:
        """Nothing: the trials are sent as messages, each once per change."""
        return []

    def bundle(self) -> Bundle:
        """The best trials as a table, in HTML and text."""
        card = self._card()
        return {"text/html": table_card_html(card), "text/plain": table_card_text(card)}

    def chart(self) -> Bundle:
        """The metric of each trial and the best one so far, as a PNG with a text equivalent."""
        return figure(self._plot(), f"Chart of the sweep {self.name}")

    def _card(self) -> TableCard:
        now, names = self.update, list(self.update.parameters) if self.update else []
        ranked = sorted(self.trials.values(), key=self._rank)
        metric = now.metric if now else ""
        others = [each.label for each in now.metrics] if now else []
        sentence = [f"{count} {state}" for state, count in self.counts.items()]
        cost = [f"cost {now.cost.text}"] if now and now.cost else []
        rest = len(ranked) - MAX_SAVED
        return TableCard(
            name=self.name,
            title=" · ".join([f"{card_parts.pluralize(len(ranked), 'trial')}: {', '.join(sentence)}", *cost]),
            titles=("trial", "state", *names, *([f"best {metric}"] if metric else []), *others),
            rows=[self._cells(row, has_metric=bool(metric)) for row in ranked[:MAX_SAVED]],
            colours=_COLOURS,
            sentences=self.seeds.sentences(),
            problems=[now.note] if now and now.note else [],
            omitted=f"and {card_parts.pluralize(rest, 'more trial')}" if rest > 0 else "",
            reopen_command=self.way_back,
        )

    def _rank(self, row: TrialRow) -> tuple[bool, float, int]:
        """The best trials first, those without a value last."""
        return row.best is None, self.sign * (row.best or 0.0), row.number

    def _cells(self, row: TrialRow, *, has_metric: bool) -> tuple[str, ...]:
        values = ("" if value is None else str(value) for value in row.parameters)
        star = "★ " if self.best and row.number == self.best.number else ""
        value = f"{star}{_number(row.best)}"
        metrics = map(_number, self._metrics_of(row))
        return row.name, row.state, *values, *([value] if has_metric else []), *metrics

    def _metrics_of(self, row: TrialRow) -> tuple[float | None, ...]:
        """The other metrics of a trial, as many as all trials have together."""
        columns = len(self.update.metrics) if self.update else 0
        return (*row.metrics, *[None] * (columns - len(row.metrics)))

    def _plot(self) -> Axes:
        from batchai_magics.metrics.charts.comparison_chart import plot_sweep

        points = [(row.number, row.best) for row in self.trials.values() if row.best is not None]
        return plot_sweep(sorted(points), self.update.metric if self.update else "", self.sign)


def _parameters_of(names: Sequence[str], row: TrialRow) -> dict[str, Parameter]:
    """The parameters that a trial has."""
    return {name: value for name, value in zip(names, row.parameters, strict=True) if value is not None}


def _number(value: float | None) -> str:
    return "" if value is None else number_text(value)


_COLOURS = {**card_parts.JOB_COLOURS, "waiting": card_parts.GREY, "pruned": card_parts.PURPLE}


class SweepView(DashboardView):
    """Trials as rows, sent when they change; the request `open` embeds a view of some of their jobs.

    `open_jobs` creates the live view of a job, or a comparison of several, and returns its model's id.
    """

    script = "sweep_view"
    requests = ("open",)

    def __init__(
        self,
        sweep: ShownSweep,
        feed: SweepFeed,
        *,
        view_id: str,
        work: RunInBackground,
        clock: Clock,
        open_jobs: Opener,
    ) -> None:
        self._sweep, self._trials, self._open_jobs = sweep, feed, open_jobs
        self._sent_version = 0
        self._unsent: dict[int, None] = {}  # numbers of trials
        super().__init__(feed, view_id=view_id, work=work, clock=clock)

    def reset_page(self) -> None:
        """A page has said hello: it has no trials yet."""
        self._sent_version = 0

    def next_message(self, limit_bytes: int) -> PageData | None:
        """The next trials for which the page is out of date."""
        for number, version in reversed(self._trials.changed.items()):
            if version <= self._sent_version:
                break
            self._unsent[number] = None
        self._sent_version = self._trials.version
        numbers = list(self._unsent)[:ROWS_PER_MESSAGE]
        for number in numbers:
            del self._unsent[number]
        return (
            {"kind": "trials", "rows": [self._trials.trials[number] for number in numbers]}
            if numbers
            else None
        )

    def answer_open(self, content: PageData) -> PageData:
        """Creates the live view of the jobs `content["names"]`."""
        try:
            jobs = self._jobs([str(name) for name in content.get("names", ())])
            return {**answer_to(content, ""), "model": self._open_jobs(*jobs)}
        except BatchAIError as error:
            return answer_to(content, error.message, is_done=False)

    def _jobs(self, names: Sequence[str]) -> list[Job]:
        by_name = {trial.name: trial.job for trial in self._sweep.snapshot().trials if trial.name in names}
        return [job for name in names if (job := by_name.get(name))]


def show(sweep: ShownSweep, publisher: Publisher, open_jobs: Opener, *, ui: str) -> None:
    """Shows a sweep beneath the cell, and takes its steps until it has ended; `ui` as for a comparison."""
    key = f"sweep {sweep.backend.capabilities.name} {sweep.name}"
    feed = publisher.feed(key, lambda: _opened(sweep, publisher.clock), max_interval_s=INTERVAL_S)
    for older in publisher.outputs(key):
        if isinstance(older, (ComparisonOutput, TextComparisonOutput)):
            older.close()  # only the newest static output is refreshed
    output = _output(key, sweep, feed, publisher, open_jobs, ui=ui)
    output.open()
    publisher.add(output)


def _output(
    key: str, sweep: ShownSweep, feed: SweepFeed, publisher: Publisher, open_jobs: Opener, *, ui: str
) -> DashboardOutput:
    if ui in ("html", "text"):
        kind = ComparisonOutput if ui == "html" else TextComparisonOutput
        return kind(key, feed, clock=publisher.clock)
    work, clock = publisher.run_in_background, publisher.clock
    view = SweepView(sweep, feed, view_id=uuid.uuid4().hex, work=work, clock=clock, open_jobs=open_jobs)
    return LiveComparison(key, view, feed, clock=clock)


def _opened(sweep: ShownSweep, clock: Clock) -> tuple[SweepSource, SweepFeed]:
    """A source of a sweep's changes, and a feed with its current state."""
    source, feed = SweepSource(sweep, job_costs(sweep.backend), clock=clock), SweepFeed(sweep.name)
    if update := source.read():
        feed.take(update)
    return source, feed
