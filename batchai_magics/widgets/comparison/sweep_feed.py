"""The feed of a sweep, which all its views share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from batchai_magics.cards import card_parts
from batchai_magics.cards.card_parts import TableCard, table_card_html, table_card_text
from batchai_magics.metrics.runs.metric_summary import number_text
from batchai_magics.metrics.runs.metric_traits import Direction
from batchai_magics.widgets.comparison.sweep_source import RUNNING, SweepUpdate, TrialRow
from batchai_magics.widgets.core.display import Bundle, figure
from batchai_magics.widgets.core.feed import FigureFeed, PageData

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_SAVED = 20  # trials in a saved notebook: the best ones


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
        self._find_best(event.rows, is_turned=is_turned)

    def _find_best(self, rows: Iterable[TrialRow], *, is_turned: bool) -> None:
        """Finds the best trial: among these and the best one so far, or among all if that has changed."""
        last = self.best
        is_same = last is None or self.trials[last.number].best == last.best
        candidates = self.trials.values() if is_turned or not is_same else [*filter(None, [last]), *rows]
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


def _number(value: float | None) -> str:
    return "" if value is None else number_text(value)


_COLOURS = {**card_parts.JOB_COLOURS, "waiting": card_parts.GREY, "pruned": card_parts.PURPLE}
