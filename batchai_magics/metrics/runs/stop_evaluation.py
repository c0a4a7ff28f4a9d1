"""Whether the numbers of a running job are such that it is to be stopped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from batchai_magics.metrics.record import Record
from batchai_magics.metrics.runs.tidy import Number, numbers
from batchai_magics.models.stop_conditions import StopCondition, metric_name

STOP_IF = "stop-if"  # what a reason begins with
MOST_NAMES = 8  # that are told


@dataclass
class _Holding:
    """Since when a condition has held for a rank without a break, and the last number for which it did."""

    since_s: float
    last: Number


class Stopping:
    """Conditions held against the numbers of a job as they come; each counts for every rank by itself.

    Times are the reader's own clock, in seconds. The last number of a rank stands until the next one comes.
    """

    def __init__(self, conditions: Sequence[StopCondition]) -> None:
        self._conditions = conditions
        self._holding: dict[tuple[StopCondition, int | None], _Holding] = {}
        self._reason = ""
        self._names: dict[str, str] = {}  # of all numbers that have come, by their plain names

    @property
    def unseen(self) -> list[str]:
        """Conditions about a number that has never come, each in a sentence."""
        known = ", ".join(sorted(self._names.values())[:MOST_NAMES]) or "none at all"
        unseen = [each for each in self._conditions if each.metric not in self._names]
        return [
            f'{STOP_IF} "{each.text}" had nothing to check: no {each.metric} was printed ({known})'
            for each in unseen
        ]

    def take(self, records: Iterable[Record], now_s: float) -> None:
        """Takes the next records."""
        for number in numbers(records):
            name = metric_name(number.metric)
            self._names.setdefault(name, number.metric)
            for condition in self._conditions:
                if condition.metric == name:
                    self._judge(condition, number, now_s)

    def reason(self, now_s: float) -> str:
        """Why the job is to be stopped; empty while it is not."""
        for (condition, _), holding in self._holding.items():
            if condition.held_s and now_s - holding.since_s >= condition.held_s:
                return self._reason or _sentence(condition, holding.last)
        return self._reason

    def _judge(self, condition: StopCondition, number: Number, now_s: float) -> None:
        place = (condition, number.rank)
        if not condition.is_met_by(number.value):
            self._holding.pop(place, None)
            return
        holding = self._holding.setdefault(place, _Holding(now_s, number))
        holding.last = number
        if not condition.held_s:
            self._reason = self._reason or _sentence(condition, number)


def _sentence(condition: StopCondition, number: Number) -> str:
    """`stop-if "loss is nan": loss was nan at step 3 of rank 0`."""
    step = "" if number.step is None else f" at step {number.step}"
    rank = "" if number.rank is None else f" of rank {number.rank}"
    return f'{STOP_IF} "{condition.text}": {number.metric} was {number.value:g}{step}{rank}'
