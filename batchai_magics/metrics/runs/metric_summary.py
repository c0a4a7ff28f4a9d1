"""The figures of one metric over a run: first, last, best and mean value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from batchai_magics.metrics.measurement import json_value
from batchai_magics.metrics.runs.metric_traits import Direction, MetricKind, MetricTraits, traits_of

_LARGE, _SMALL = 1e5, 1e-3


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """A metric over all ranks: summed for rates that each rank prints for itself, else averaged.

    Attributes:
        name: Its name.
        label: Its name for display.
        quantity: What it shares with the same metric of other phases.
        phase: `train`, `val` or `test`.
        unit: Its unit, as printed.
        direction: Which values are better.
        count: The number of its values; of those at one step, the last counts.
        first: Its first value.
        last: Its last value.
        last_step: The step (or epoch) of the last value; None if the log tells no position.
        best: The best finite value; None if no direction is known.
        best_step: The step (or epoch) of the best value.
        axis: Whether these are steps or epochs, or `order` where the log tells no position.
        mean: The mean of a rate over the run; None for other metrics.
        total: What the program printed of all ranks at the end.
    """

    name: str
    label: str
    quantity: str
    phase: str
    unit: str
    direction: Direction
    count: int
    first: float
    last: float
    last_step: float | None
    best: float | None = None
    best_step: float | None = None
    mean: float | None = None
    total: float | None = None
    axis: str = "step"

    def renamed(self, traits: MetricTraits) -> MetricSummary:
        """The same figures under the name that another run gives this metric."""
        return replace(self, name=traits.name, label=traits.label, quantity=traits.quantity)

    @property
    def is_timer(self) -> bool:
        """Whether it is a duration."""
        return traits_of(self.name, self.phase, self.unit).kind is MetricKind.TIMER

    @property
    def headline_value(self) -> float:
        """The one number for lists and cards: the total or mean of a rate, the last value of others."""
        return next((value for value in (self.total, self.mean) if value is not None), self.last)

    @property
    def text(self) -> str:
        """The figures in words: `0.412 (best 0.398 at step 1,200)`."""
        shown = self.value_text
        if self.mean is not None:
            return shown if self.total is not None or self.count < 2 else f"{shown} on average"
        if self.best is None or self.count < 2:
            return shown
        if (self.best, self.best_step) == (self.last, self.last_step):
            return f"{shown} (best)"
        position = "" if self.best_step is None else f" at {self.axis} {number_text(self.best_step)}"
        return f"{shown} (best {number_text(self.best)}{position})"

    @property
    def value_text(self) -> str:
        """The one number for lists, with its unit."""
        unit = "" if self.label.endswith(self.unit) else f" {self.unit}"
        return f"{number_text(self.headline_value)}{unit}"

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values, without those that it lacks."""
        values = {name: json_value(getattr(self, name)) for name in self.__slots__}
        return {name: value for name, value in values.items() if value not in (None, "")}


_BARS = "▁▂▃▄▅▆▇█"
_BARS_SHOWN = 8


def sparkline(values: Sequence[float], *, is_free: bool = False) -> str:
    """Numbers as a sparkline: `▁▃▆█`; heights start at zero, or if `is_free` at the least of them."""
    if is_free and values:
        least = min(values)
        values = [value - least for value in values]
    if not values or max(values) <= 0:
        return ""
    count, top = min(len(values), _BARS_SHOWN), max(values)
    stride = (len(values) - 1) / max(1, count - 1)
    thinned = [values[round(i * stride)] for i in range(count)]
    return "".join(_BARS[min(len(_BARS) - 1, int(value / top * len(_BARS)))] for value in thinned)


def number_text(value: float) -> str:
    """A number for display, with about four significant digits: `0.4123`, `2,799.5`, `1.2e-05`."""
    size = abs(value)
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and size < _LARGE * 10:
        return f"{int(value):,}"
    if size >= 100:
        return f"{value:,.1f}"
    return f"{value:.4g}" if size >= _SMALL else f"{value:.3g}"
