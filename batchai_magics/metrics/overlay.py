"""A run as lines that are laid over those of other runs: images/sec and loss, and where its steps stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from batchai_magics.errors import UsageError
from batchai_magics.metrics.losses import mean_losses
from batchai_magics.metrics.series import by_rank, rates_together, runs
from batchai_magics.metrics.sources import Run

OVER = ("step", "images", "seconds")
"""What an overlay can be drawn over: steps, images seen, seconds of training."""

Places = Mapping[int, float]


@dataclass(frozen=True)
class Overlay:
    """The images/sec of all processes and the mean loss of a run, by step.

    `places` tells for each of OVER where a step stands there, as far as the log tells it.
    """

    name: str
    rates: Mapping[int, float]
    losses: Mapping[int, float]
    places: Mapping[str, Places]

    def places_over(self, over: str) -> Places:
        """Where each step stands; UsageError where the log does not tell, or for no word of OVER."""
        if over not in OVER:
            raise UsageError(f"over: {over!r} is none of {', '.join(OVER)}")
        if over not in self.places:
            raise UsageError(f"the log of {self.name} tells no batch size", hint="Draw it over step.")
        return self.places[over]


def overlay(run: Run) -> Overlay:
    """The lines of a run."""
    series = by_rank(runs(run.records)[-1])
    summary = run.summary
    steps = sorted({record.step for records in series.values() for record in records})
    places: dict[str, Places] = {"step": {step: float(step) for step in steps}}
    size = summary.batch_size_global
    if size is not None:
        share = size if summary.is_rate_global else size / max(summary.ranks, 1)
        first = next(iter(series.values()), [])
        places["images"] = {step: float(step * size) for step in steps}
        places["seconds"] = {r.step: r.step * share / r.images_per_sec for r in first if r.images_per_sec > 0}
    rates = rates_together(series, 1 if summary.is_rate_global else summary.ranks)
    return Overlay(run.name, rates, mean_losses(series), places)
