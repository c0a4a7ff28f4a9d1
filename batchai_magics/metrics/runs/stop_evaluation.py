"""Evaluates the `--stop-if` conditions of a running job against its metrics and what is measured of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from batchai_magics.metrics.measurement import Measurement, Record
from batchai_magics.metrics.runs.metric_traits import spellings_of
from batchai_magics.metrics.runs.number_frames import numbers
from batchai_magics.models.prices import Cost
from batchai_magics.models.stop_conditions import (
    COST,
    CPU,
    GPU,
    MEASURED,
    Predicate,
    StopCondition,
    metric_name,
    stop_condition,
)

STOP_IF = "stop-if"  # prefix of every reason
MAX_NAMES = 8  # listed in a message
_MEASURED_TEXTS = {
    CPU: "its processes used {:.3g} % of a core on average",
    GPU: "its GPUs were used at {:.3g} % on average",
    COST: "it had cost {}",
}
_NOTHING = " had nothing to check: "
_NO_PROGRESS = "it made no progress (`batchai profile` shows where the time of a running job goes)"
_NOT_MEASURED = {
    CPU: "no CPU use was sampled",
    GPU: "no GPU use was sampled",
    COST: "the price of its nodes is unknown",
}


@dataclass
class _HeldCondition:
    """Since when a condition has held for a rank without interruption, and the last value."""

    since_s: float
    last: Measurement


class StopEvaluation:
    """Conditions on the metrics of a job, evaluated per rank as records arrive.

    Times are seconds of the caller's clock. The last value of a rank holds until the next one; a
    measured value counts at its time only.

    Args:
        conditions: The conditions.
        measured: The names that stand for what is measured, and for no printed metric.
        now_s: When the job started.
    """

    def __init__(
        self, conditions: Sequence[StopCondition], measured: Collection[str] = (), now_s: float = 0.0
    ) -> None:
        self._conditions = [condition for condition in conditions if condition.metric not in measured]
        self._measured = [condition for condition in conditions if condition.metric in measured]
        self._progress_s = now_s
        self._holding: dict[tuple[StopCondition, int | None], _HeldCondition] = {}
        self._met_since_s: dict[StopCondition, float] = {}  # measured
        self._reason = ""
        self._names: dict[str, str] = {}  # printed metric names by normalized name

    @classmethod
    def of(cls, texts: Iterable[str], patterns: Iterable[str], now_s: float = 0.0) -> StopEvaluation:
        """The evaluation of conditions in text form; a name with a pattern is printed, not measured."""
        measured = MEASURED - set(map(metric_name, patterns))
        return cls([stop_condition(text) for text in texts], measured, now_s)

    def unmet(self, unreadable: Sequence[str]) -> list[str]:
        """One sentence for each condition that was not evaluated as it should have been.

        `unreadable` names files that could not be read to their end, and why.
        """
        known = ", ".join(sorted(set(self._names.values()))[:MAX_NAMES]) or "none at all"
        causes = {condition: f"no {condition.metric} was printed ({known})" for condition in self._conditions}
        causes |= {
            condition: _NOT_MEASURED[condition.metric]
            for condition in self._measured
            if condition.metric in _NOT_MEASURED
        }
        unseen = [
            f'{STOP_IF} "{condition.text}"{_NOTHING}{cause}'
            for condition, cause in causes.items()
            if spellings_of(condition.metric).isdisjoint(self._names)
        ]
        if not unreadable:
            return unseen
        why = f"was not evaluated to the end: {'; '.join(unreadable[:MAX_NAMES])}"
        return [*unseen, *(f'{STOP_IF} "{condition.text}" {why}' for condition in self._conditions)]

    def needs(self, *names: str) -> bool:
        """Whether a condition is on one of these measured values."""
        return any(condition.metric in names for condition in self._measured)

    def add(self, records: Iterable[Record], now_s: float) -> None:
        """Add the next records."""
        for number in numbers(records):
            names = spellings_of(number.name)
            for name in names:
                self._names.setdefault(name, number.name)
            for condition in self._conditions:
                if not names & spellings_of(condition.metric):
                    continue
                key = (condition, number.rank)
                if not condition.is_met_by(number.value):
                    self._holding.pop(key, None)
                    continue
                self._holding.setdefault(key, _HeldCondition(now_s, number)).last = number
                if not condition.held_s:
                    self._reason = self._reason or _sentence(condition, number)

    def measure(self, name: str, value: float, now_s: float) -> None:
        """Add a measured value."""
        self._names.setdefault(name, name)
        shown = Cost(value).text if name == COST else value
        for condition in self._measured:
            if condition.metric != name:
                continue
            if not condition.is_met_by(value):
                self._met_since_s.pop(condition, None)
            elif now_s - self._met_since_s.setdefault(condition, now_s) >= condition.held_s:
                text = f'{STOP_IF} "{condition.text}": {_MEASURED_TEXTS[name].format(shown)}'
                self._reason = self._reason or text

    def advance(self, now_s: float) -> None:
        """Note that the job has made progress."""
        self._progress_s = now_s

    def reason(self, now_s: float) -> str:
        """Why the job should be stopped; empty if it should not."""
        for condition in self._measured:
            if condition.test is Predicate.MISSING and now_s - self._progress_s >= condition.held_s:
                return self._reason or f'{STOP_IF} "{condition.text}": {_NO_PROGRESS}'
        for (condition, _), holding in self._holding.items():
            if condition.held_s and now_s - holding.since_s >= condition.held_s:
                return self._reason or _sentence(condition, holding.last)
        return self._reason


def unmet_everywhere(texts: Sequence[Sequence[str]]) -> list[str]:
    """Merge the sentences that several evaluations of the same conditions return from `unmet`.

    A condition had nothing to check only if that is so in all of them.
    """
    unseen = [{text.partition(_NOTHING)[0] for text in sentences if _NOTHING in text} for sentences in texts]
    unseen_by_all = set[str].intersection(*unseen) if unseen else set[str]()
    said = dict[str, str]()
    for text in (text for sentences in texts for text in sentences):
        condition, nothing, _ = text.partition(_NOTHING)
        if not nothing or condition in unseen_by_all:
            said.setdefault(condition, text)
    return list(said.values())


def _sentence(condition: StopCondition, number: Measurement) -> str:
    """`stop-if "loss is nan": loss was nan at step 3 of rank 0`."""
    step = "" if number.step is None else f" at step {number.step}"
    rank = "" if number.rank is None else f" of rank {number.rank}"
    return f'{STOP_IF} "{condition.text}": {number.name} was {number.value:g}{step}{rank}'
