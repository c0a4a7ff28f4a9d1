"""Stop conditions of jobs: `loss is nan`, `gpu < 5% for 30m`, `no progress for 15m`, `cost > 20`.

Standard library only: nodes of a cluster parse conditions too.
"""

from __future__ import annotations

import enum
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batchai_magics.errors import UsageError, quoted

FORM = "write it as `loss is nan`, `gpu < 5% for 30m`, `no progress for 15m` or `cost > 20`"
CPU, GPU, COST, PROGRESS = "cpu", "gpu", "cost", "progress"  # what is not printed by the job
PERCENT = (CPU, GPU)
MEASURED = frozenset({CPU, GPU, COST, PROGRESS})
STOP_IF_OPTION = "--stop-if"
_TIME = r"\s+for\s+(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>s|m|h)"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_CONDITION = re.compile(
    rf"\s*(?P<metric>[A-Za-z_][\w./%-]*?)\s*"
    rf"(?:(?<![\w./%-])is\s+(?P<word>not\s+finite|nan|inf)|(?P<sign><=|>=|==|!=|<|>)\s*(?P<bound>{_NUMBER})\s*(?P<percent>%)?)"
    rf"(?:{_TIME})?\s*",
    re.IGNORECASE,
)
_STANDSTILL = re.compile(rf"\s*no\s+progress{_TIME}\s*", re.IGNORECASE)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Predicate(enum.Enum):
    """A test of a number; the value is its syntax."""

    BELOW = "<"
    AT_MOST = "<="
    ABOVE = ">"
    AT_LEAST = ">="
    EQUAL = "=="
    DIFFERENT = "!="
    NAN = "is nan"
    INFINITE = "is inf"
    NOT_FINITE = "is not finite"
    MISSING = "no"


_COMPARISONS: Mapping[Predicate, Callable[[float, float], bool]] = {
    Predicate.BELOW: operator.lt,
    Predicate.AT_MOST: operator.le,
    Predicate.ABOVE: operator.gt,
    Predicate.AT_LEAST: operator.ge,
    Predicate.EQUAL: operator.eq,
    Predicate.DIFFERENT: operator.ne,
    Predicate.NAN: lambda value, _: math.isnan(value),
    Predicate.INFINITE: lambda value, _: math.isinf(value),
    Predicate.NOT_FINITE: lambda value, _: not math.isfinite(value),
    Predicate.MISSING: lambda value, _: False,  # a value is progress
}


@dataclass(frozen=True)
class StopCondition:
    """A stop condition: a metric and a test of its values.

    The metrics in `MEASURED` are not printed by the job but measured by the program that watches it.
    """

    text: str  # the condition as it was written, with single spaces
    metric: str  # the canonical name of the metric: `images_per_sec`
    test: Predicate  # the test of each value
    bound: float = 0.0  # the number that a comparison compares with
    held_s: float = 0.0  # seconds for which the test must hold without interruption

    def is_met_by(self, value: float) -> bool:
        """Whether a value of the metric passes the test."""
        return _COMPARISONS[self.test](value, self.bound)


def stop_condition(text: str) -> StopCondition:
    """Parses a condition such as `images/sec < 50 for 5m`.

    Raises:
        ValueError: It is invalid; the message explains the mistake and the syntax.
    """
    normalized = " ".join(text.split())
    if standstill := _STANDSTILL.fullmatch(text):
        if not (held_s := _seconds(standstill)):
            raise ValueError(f"{quoted(text)} is not a valid condition: its duration is 0; {FORM}")
        return StopCondition(normalized, PROGRESS, Predicate.MISSING, held_s=held_s)
    match = _CONDITION.fullmatch(text)
    if not match:
        raise ValueError(f"{quoted(text)} is not a valid condition{_guess(text)}; {FORM}")
    if match["percent"] and metric_name(match["metric"]) not in PERCENT:
        reason = f"only {' and '.join(PERCENT)} are in percent"
        raise ValueError(f"{quoted(text)} is not a valid condition: {reason}; {FORM}")
    word, bound = match["word"], float(match["bound"] or 0)
    test = Predicate(f"is {' '.join(word.lower().split())}" if word else match["sign"])
    return StopCondition(normalized, metric_name(match["metric"]), test, bound, _seconds(match))


def _seconds(match: re.Match[str]) -> float:
    """The time after `for`; 0 without one."""
    return float(match["count"]) * _UNITS[match["unit"].lower()] if match["count"] else 0.0


def conditions_of(texts: Iterable[str] | None, option: str = STOP_IF_OPTION) -> tuple[str, ...]:
    """Validates conditions and removes duplicates; options other than `--stop-if` accept no standstill.

    Raises:
        UsageError: A condition is invalid; the message names the option that it was given with.
    """
    for text in texts or ():
        try:
            condition = stop_condition(text)
        except ValueError as error:
            raise UsageError(f"{option}: {error}", hint="Nothing was written or submitted.") from None
        if condition.test is Predicate.MISSING and option != STOP_IF_OPTION:
            raise UsageError(f"{option}: {quoted(text)} is a condition of {STOP_IF_OPTION} only")
    return tuple(dict.fromkeys(texts or ()))


def with_conditions(
    body: Mapping[str, Any], conditions: Sequence[str], patterns: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A job's wire fields with these conditions and the patterns (metric → regex) that they use."""
    merged = dict(body)
    present = merged.get("batchaiStopIf")
    merged["batchaiStopIf"] = list(
        dict.fromkeys([*(present if isinstance(present, list) else []), *conditions])
    )
    patterns = patterns or {}
    names = {stop_condition(text).metric for text in conditions}
    used = {name: pattern for name, pattern in patterns.items() if metric_name(name) in names}
    if used:
        present = merged.get("batchaiPatterns")
        merged["batchaiPatterns"] = {**(present if isinstance(present, Mapping) else {}), **used}
    return merged


def metric_name(text: str) -> str:
    """The canonical name of a metric: `images/sec` is `images_per_sec`."""
    return re.sub(r"[-./\s]+", "_", text.replace("/", "_per_")).replace("%", "percent").lower()


def _guess(text: str) -> str:
    """The probable mistake in a condition; empty if unknown."""
    if re.search(r"(?<![<>=!])=(?!=)", text):
        return ": use == to compare, not ="
    return ": it has no comparison" if re.fullmatch(r"\s*[\w./%-]+\s*", text) else ""


def check_condition(text: str) -> str:
    """Returns the text of a valid condition; raises ValueError if it is invalid."""
    stop_condition(text)
    return text
