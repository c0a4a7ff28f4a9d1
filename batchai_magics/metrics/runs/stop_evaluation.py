"""Evaluates the `--stop-if` conditions of a running job against its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from batchai_magics.metrics.grammar.metric_names import TRAIN
from batchai_magics.metrics.record import Record
from batchai_magics.metrics.runs.metric_traits import traits_of
from batchai_magics.metrics.runs.tidy_table import Number, numbers
from batchai_magics.models.stop_conditions import StopCondition, metric_name

STOP_IF = "stop-if"  # prefix of every reason
MAX_NAMES = 8  # listed in a message


@dataclass
class _HeldCondition:
    """Since when a condition has held for a rank without interruption, and the last value."""

    since_s: float
    last: Number


class StopEvaluation:
    """Conditions on the metrics of a job, evaluated per rank as records arrive.

    Times are seconds of the caller's clock. The last value of a rank holds until the next one.
    """

    def __init__(self, conditions: Sequence[StopCondition]) -> None:
        self._conditions = conditions
        self._holding: dict[tuple[StopCondition, int | None], _HeldCondition] = {}
        self._reason = ""
        self._names: dict[str, str] = {}  # printed metric names by normalized name

    @property
    def unseen(self) -> list[str]:
        """One sentence for each condition whose metric never appeared."""
        known = ", ".join(sorted(set(self._names.values()))[:MAX_NAMES]) or "none at all"
        unseen = [each for each in self._conditions if each.metric not in self._names]
        return [
            f'{STOP_IF} "{each.text}" had nothing to check: no {each.metric} was printed ({known})'
            for each in unseen
        ]

    def add(self, records: Iterable[Record], now_s: float) -> None:
        """Add the next records."""
        for number in numbers(records):
            names = condition_names(number.metric)
            for name in names:
                self._names.setdefault(name, number.metric)
            for condition in self._conditions:
                if condition.metric in names:
                    self._check(condition, number, now_s)

    def reason(self, now_s: float) -> str:
        """Why the job should be stopped; empty if it should not."""
        for (condition, _), holding in self._holding.items():
            if condition.held_s and now_s - holding.since_s >= condition.held_s:
                return self._reason or _sentence(condition, holding.last)
        return self._reason

    def _check(self, condition: StopCondition, number: Number, now_s: float) -> None:
        place = (condition, number.rank)
        if not condition.is_met_by(number.value):
            self._holding.pop(place, None)
            return
        holding = self._holding.setdefault(place, _HeldCondition(now_s, number))
        holding.last = number
        if not condition.held_s:
            self._reason = self._reason or _sentence(condition, number)


@lru_cache(4096)
def condition_names(metric: str) -> frozenset[str]:
    """The names by which a condition may mean a metric: `val/loss` is `val_loss`, in any spelling."""
    traits = traits_of(metric)
    names = {metric_name(metric)}
    if traits.phase != TRAIN:
        names.add(f"{traits.phase}_{traits.quantity}")
    return frozenset(names)


def _sentence(condition: StopCondition, number: Number) -> str:
    """`stop-if "loss is nan": loss was nan at step 3 of rank 0`."""
    step = "" if number.step is None else f" at step {number.step}"
    rank = "" if number.rank is None else f" of rank {number.rank}"
    return f'{STOP_IF} "{condition.text}": {number.metric} was {number.value:g}{step}{rank}'
