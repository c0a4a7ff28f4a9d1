"""When a job is to be stopped: `loss is nan`, `images/sec < 50 for 5m`.

Of the standard library alone: nodes of a cluster read conditions too.
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

FORM = "write it as `loss is nan`, `loss > 10` or `images/sec < 50 for 5m`"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_CONDITION = re.compile(
    rf"\s*(?P<metric>[A-Za-z_][\w./%-]*?)\s*"
    rf"(?:(?<![\w./%-])is\s+(?P<word>not\s+finite|nan|inf)|(?P<sign><=|>=|==|!=|<|>)\s*(?P<bound>{_NUMBER}))"
    r"(?:\s+for\s+(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>s|m|h))?\s*",
    re.IGNORECASE,
)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Predicate(enum.Enum):
    """What is asked of a number; the value is how people write it."""

    BELOW = "<"
    AT_MOST = "<="
    ABOVE = ">"
    AT_LEAST = ">="
    EQUAL = "=="
    DIFFERENT = "!="
    NAN = "is nan"
    INFINITE = "is inf"
    NOT_FINITE = "is not finite"


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
}


@dataclass(frozen=True)
class StopCondition:
    """A metric, what is asked of its values, and for how long that has to hold without a break."""

    text: str
    metric: str  # as metrics are called: images_per_sec
    test: Predicate
    bound: float = 0.0
    held_s: float = 0.0

    def is_met_by(self, value: float) -> bool:
        """Whether one value of the metric is such."""
        return _COMPARISONS[self.test](value, self.bound)


def stop_condition(text: str) -> StopCondition:
    """The condition that a text stands for; ValueError that says what is wrong, and how to write it."""
    match = _CONDITION.fullmatch(text)
    if not match:
        raise ValueError(f"{quoted(text)} is no condition{_guess(text)}; {FORM}")
    word, bound = match["word"], float(match["bound"] or 0)
    test = Predicate(f"is {' '.join(word.lower().split())}" if word else match["sign"])
    held_s = float(match["count"]) * _UNITS[match["unit"].lower()] if match["count"] else 0.0
    return StopCondition(" ".join(text.split()), metric_name(match["metric"]), test, bound, held_s)


def conditions_of(texts: Iterable[str] | None, option: str = "--stop-if") -> tuple[str, ...]:
    """The conditions that a line gives, each once; UsageError that names the one that is wrong."""
    for text in texts or ():
        try:
            stop_condition(text)
        except ValueError as error:
            raise UsageError(f"{option}: {error}", hint="Nothing was written or submitted.") from None
    return tuple(dict.fromkeys(texts or ()))


def with_conditions(
    body: Mapping[str, Any], conditions: Sequence[str], patterns: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A job's wire fields with more conditions, and those of the patterns whose metrics these name."""
    merged = dict(body)
    if not conditions:
        return merged
    present = merged.get("batchaiStopIf")
    merged["batchaiStopIf"] = list(
        dict.fromkeys([*(present if isinstance(present, list) else []), *conditions])
    )
    used = _patterns_of(conditions, patterns or {})
    if used:
        of_file = merged.get("batchaiPatterns")
        merged["batchaiPatterns"] = {**(of_file if isinstance(of_file, Mapping) else {}), **used}
    return merged


def _patterns_of(conditions: Sequence[str], patterns: Mapping[str, str]) -> dict[str, str]:
    names = {stop_condition(text).metric for text in conditions}
    return {name: pattern for name, pattern in patterns.items() if metric_name(name) in names}


def metric_name(text: str) -> str:
    """A metric's name as the readers of logs have it: `images/sec` is `images_per_sec`."""
    return re.sub(r"[-./\s]+", "_", text.replace("/", "_per_")).replace("%", "percent").lower()


def _guess(text: str) -> str:
    """What in particular is odd about it; empty when that is hard to say."""
    if not text.strip():
        return ""
    if re.search(r"(?<![<>=!])=(?!=)", text):
        return ": one = compares nothing, == does"
    if re.search(r"\bnot\s+(nan|inf)\b", text, re.IGNORECASE):
        return ": a job is not stopped for being well"
    if re.search(r"\bfor\b", text) and not re.search(r"\bfor\s+\d+(\.\d+)?\s*[smh]\s*$", text, re.IGNORECASE):
        return ": its time is a number with s, m or h"
    if not re.search(r"[<>=]|\bis\b", text):
        return ": it compares with nothing"
    return ""


def checked(text: str) -> str:
    """The text of a condition as it is; ValueError as for `stop_condition`."""
    stop_condition(text)
    return text
