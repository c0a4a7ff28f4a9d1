"""A run as lines that are laid over those of other runs: images/sec and loss, and where its steps stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from batchai_magics.errors import UsageError
from batchai_magics.metrics.record import StepRecord
from batchai_magics.metrics.runs.compared import Run
from batchai_magics.metrics.runs.series import by_rank, mean_losses, rates_together, runs
from batchai_magics.metrics.runs.summary import Summary

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
    ranks = 1 if run.summary.is_rate_global else run.summary.ranks
    return Overlay(run.name, rates_together(series, ranks), mean_losses(series), _places(run.summary, series))


def _places(summary: Summary, series: Mapping[int, Sequence[StepRecord]]) -> dict[str, Places]:
    steps = sorted({record.step for records in series.values() for record in records})
    by_step: Places = {step: float(step) for step in steps}
    size = summary.batch_size_global
    if size is None:
        return {"step": by_step}
    share = size if summary.is_rate_global else size / max(summary.ranks, 1)
    by_images: Places = {step: float(step * size) for step in steps}
    return {"step": by_step, "images": by_images, "seconds": _seconds(next(iter(series.values()), ()), share)}


def _seconds(steps: Sequence[StepRecord], batch: float) -> Places:
    return {r.step: r.step * batch / r.images_per_sec for r in steps if r.images_per_sec > 0}
