"""Speed over the number of processes for one model: a curve, its points, and the kind of scaling."""

from __future__ import annotations

import enum
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from batchai_magics.metrics.measurement import RATE_UNIT
from batchai_magics.metrics.runs.compared_runs import Run
from batchai_magics.metrics.runs.metric_traits import ordered
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from batchai_magics.metrics.runs.steady_speed import Speed, standard_error

_Key = TypeVar("_Key", bound=Hashable)
_BATCH_SIZES: dict[str, Callable[[Run], int | None]] = {
    "per process": lambda run: run.summary.batch_size_per_device,
    "in all": lambda run: run.summary.batch_size_global,
}


class Growth(str, enum.Enum):
    """How the batch size changes with the number of processes."""

    WEAK = "weak"  # fixed batch per process: the work grows
    STRONG = "strong"  # fixed global batch, shared by the processes
    MIXED = "mixed"  # batches vary otherwise: efficiencies mean little
    UNKNOWN = "unknown"  # the logs contain no batch size


_KINDS = {
    Growth.WEAK: "weak scaling",
    Growth.STRONG: "strong scaling",
    Growth.MIXED: "neither weak nor strong scaling",
    Growth.UNKNOWN: "batch sizes unknown",
}


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """The runs of one model with one number of processes.

    `images_per_sec` is the steady speed of all processes (or another rate), averaged over the runs. `ideal`
    is the speed of the smallest number of processes, scaled linearly; `efficiency_percent` is relative to it;
    `speedup` is relative to the smallest number of processes. Uncertainties are standard errors.
    """

    model: str
    processes: int
    images_per_sec: float
    uncertainty: float
    ideal: float
    speedup: float
    efficiency_percent: float
    efficiency_uncertainty: float
    batch_size_per_device: int | None
    batch_size_global: int | None
    runs: tuple[str, ...]


@dataclass(frozen=True)
class ScalingCurve:
    """The points of one model by number of processes; `str()` summarizes them. `rate` is what is measured."""

    label: str
    growth: Growth
    is_on_gpus: bool
    points: tuple[ScalingPoint, ...]
    rate: str = RATE_UNIT

    @property
    def kind(self) -> str:
        """The kind of scaling, in words."""
        return _KINDS[self.growth]

    @property
    def batch(self) -> str:
        """The constant batch size, in words; empty if there is none."""
        first = self.points[0]
        if self.growth is Growth.WEAK:
            return f"batch of {first.batch_size_per_device} per process"
        return f"batch of {first.batch_size_global} in all" if self.growth is Growth.STRONG else ""

    @property
    def batches(self) -> str:
        """The kind of scaling and the constant batch size, in words."""
        return f"{self.kind}, {self.batch}" if self.batch else self.kind

    def __str__(self) -> str:
        first, last = self.points[0], self.points[-1]
        if first is last:
            count = f"{first.processes} process{'' if first.processes == 1 else 'es'}"
            known = f"{first.images_per_sec:,.1f} {self.rate} with {count}"
            return f"{self.label}: {self.batches}. {known}, and no other number of them."
        reached = f"{last.efficiency_percent:.1f} % ± {last.efficiency_uncertainty:.1f} %"
        return (
            f"{self.label}: {self.batches}. From {first.processes} to {last.processes} processes "
            f"{last.speedup:.2f} times the {self.rate}: {reached} of the ideal."
        )


def scaling_curves(runs: Iterable[Run], rate: str = RATE_UNIT) -> tuple[ScalingCurve, ...]:
    """The curves of all runs with a speed, at least one per model; `rate` is the label of the speed."""
    groups = _grouped(filter(has_speed, runs), lambda run: run.summary.model or "model")
    curves = (_curves(label, group) for label, group in groups.items())
    return tuple(replace(curve, rate=rate) for curve in chain.from_iterable(curves))


def default_rate(runs: Sequence[Run]) -> str:
    """The rate that most of the study is about: empty for images/sec, else the first rate of any run."""
    if any(map(has_speed, runs)):
        return ""
    rates = (traits for run in runs for traits in run.summary.traits if traits.is_rate)
    return next((traits.name for traits in ordered(dict.fromkeys(rates))), "")


def with_rate(run: Run, name: str) -> Run:
    """The run with the mean of this rate as its steady speed; without one if the log lacks it."""
    metric = RunMetrics(run.records).find(name)
    curves = metric.curves() if metric else []
    finite = [value for curve in curves for value in curve.values if math.isfinite(value)]
    speed = None
    if finite:
        error = standard_error(finite) if len(finite) > 1 else 0.0
        speed = Speed(math.fsum(finite) / len(finite), error, 0.0)
    return replace(run, summary=replace(run.summary, steady=speed))


def has_speed(run: Run) -> bool:
    """Whether the log contains a positive speed."""
    return run.summary.steady is not None and run.summary.steady.images_per_sec > 0


def workers(run: Run) -> int:
    """The number of workers: processes, or devices if one process drives several."""
    return max(run.process_count, run.summary.device_count or 0, 1)


def _curves(label: str, runs: Sequence[Run]) -> list[ScalingCurve]:
    """One curve, or one per batch size if only that gives weak or strong scaling."""
    if _growth(runs) is Growth.MIXED:
        for name, batch_size in _BATCH_SIZES.items():
            parts = _grouped(runs, batch_size)
            if all(len({workers(run) for run in part}) > 1 for part in parts.values()):
                return [_curve(f"{label}, batch of {size} {name}", part) for size, part in parts.items()]
    return [_curve(label, runs)]


def _curve(label: str, runs: Sequence[Run]) -> ScalingCurve:
    by_count = _grouped(runs, workers)
    least = min(by_count)
    base = _speed(by_count[least])
    points = []
    for count, at_count in sorted(by_count.items()):
        speed, first = _speed(at_count), at_count[0].summary
        ideal = base.images_per_sec * count / least
        efficiency = 100 * speed.images_per_sec / ideal
        compared = (speed, base) if count > least else ()
        errors = [measured.uncertainty / measured.images_per_sec for measured in compared]
        point = ScalingPoint(
            model=label,
            processes=count,
            images_per_sec=speed.images_per_sec,
            uncertainty=speed.uncertainty,
            ideal=ideal,
            speedup=speed.images_per_sec / base.images_per_sec,
            efficiency_percent=efficiency,
            efficiency_uncertainty=efficiency * math.hypot(*errors),
            batch_size_per_device=first.batch_size_per_device,
            batch_size_global=first.batch_size_global,
            runs=tuple(run.name for run in at_count),
        )
        points.append(point)
    is_on_gpus = all("gpu" in device.lower() for run in runs for device in run.summary.devices or [""])
    return ScalingCurve(label, _growth(runs), is_on_gpus, tuple(points))


def _growth(runs: Sequence[Run]) -> Growth:
    per_device = {run.summary.batch_size_per_device for run in runs}
    in_all = {run.summary.batch_size_global for run in runs}
    if None in per_device or None in in_all:
        return Growth.UNKNOWN
    if len(per_device) == 1:
        return Growth.WEAK
    return Growth.STRONG if len(in_all) == 1 else Growth.MIXED


def _speed(runs: Iterable[Run]) -> Speed:
    """The mean speed; its error is the standard error between runs, or within the only run."""
    steady = [run.summary.steady for run in runs if run.summary.steady]
    if len(steady) == 1:
        return steady[0]
    speeds = [speed.images_per_sec for speed in steady]
    jitter = sum(speed.jitter for speed in steady) / len(steady)
    return Speed(sum(speeds) / len(speeds), standard_error(speeds), jitter)


def _grouped(runs: Iterable[Run], key: Callable[[Run], _Key]) -> dict[_Key, list[Run]]:
    groups: defaultdict[_Key, list[Run]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(groups)
