"""What a training log comes to: one run's speed, its processes, its loss."""

from __future__ import annotations

import enum
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass

from batchai_magics.metrics.losses import LossTrend, loss_trend, mean_losses
from batchai_magics.metrics.record import HeaderRecord, Record, TotalRecord
from batchai_magics.metrics.series import by_rank, count_ranks, runs
from batchai_magics.metrics.steady import Speed, common_warm_up, steady_speed
from batchai_magics.metrics.summary_text import summary_html, summary_lines
from batchai_magics.metrics.values import count_devices

_STRAGGLER_LAG = 0.05  # a rank this much slower than the median one is a straggler
_GLOBAL_RATE = (
    "distributed_all_reduce"  # the only mode in which each process prints the job's rate, not its own
)
_QUOTED = re.compile(r"'([^']*)'")


@dataclass(frozen=True)
class Summary:
    """One run: its last one where a log holds several. None where the log does not tell.

    `steady` is the speed of all ranks together after `warm_up_steps` steps, with its standard error and
    jitter: ranks that wait for each other err together, so that these add up too. Where only some ranks are
    in the log, they stand for the others. `per_process`, `per_device` and `per_node` share it out.
    `images_per_sec` is the same over all steps, warm-up and all; `total_images_per_sec` is what the program
    said at the end.

    `rates` is each rank's steady speed; where ranks are unknown they are numbered as they appear. `skew` is
    the span of the rates over their mean; `stragglers` are the ranks more than 5 % behind the median one, the
    slowest first. Losses are the mean of the ranks at a step.
    """

    model: str | None = None
    dataset: str | None = None
    variable_update: str | None = None
    batch_size_global: int | None = None
    batch_size_per_device: int | None = None
    devices: tuple[str, ...] = ()
    device_count: int | None = None
    ranks: int = 0
    steps: int = 0
    warm_up_steps: int | None = None
    steady: Speed | None = None
    images_per_sec: float | None = None
    total_images_per_sec: float | None = None
    per_process: float | None = None
    per_device: float | None = None
    per_node: Mapping[str, float] | None = None
    rates: Mapping[int, float] | None = None
    skew: float | None = None
    stragglers: tuple[int, ...] = ()
    first_loss: float | None = None
    last_loss: float | None = None
    loss_trend: LossTrend | None = None
    has_nan: bool = False

    @property
    def straggler(self) -> int | None:
        """The slowest rank, if it is a straggler."""
        return self.stragglers[0] if self.stragglers else None

    @property
    def is_rate_global(self) -> bool:
        """Whether each process prints the rate of all, not its own."""
        return self.variable_update == _GLOBAL_RATE

    def to_dict(self) -> dict[str, object]:
        """The fields by name, ready for JSON: ranks are strings, a number that is not finite is None."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    def __str__(self) -> str:
        return "\n".join(summary_lines(self))

    def _repr_html_(self) -> str:
        return summary_html(self)


def summarize(records: Iterable[Record], *, nodes: Mapping[int, str] | None = None) -> Summary:
    """The summary of the last run in these records; `nodes` tells on which node each rank was."""
    run = runs(records)[-1]
    header = _header(run)
    series = by_rank(run)
    cut = common_warm_up(series)
    found = {rank: steady_speed(steps, cut) for rank, steps in series.items()}
    speeds = {rank: speed for rank, speed in found.items() if speed}
    rates = {rank: speed.images_per_sec for rank, speed in speeds.items()}
    ranks = max(_promised(run), len(series))
    is_global = header.get("variables") == _GLOBAL_RATE
    share = (1 if is_global else ranks) / (len(speeds) or 1)
    steady = _sum(speeds.values(), share)
    devices = _devices(run)
    device_count = len(devices) or count_devices(run) or None
    losses = list(mean_losses(series).values())
    return Summary(
        model=header.get("model"),
        dataset=header.get("dataset"),
        variable_update=header.get("variables"),
        batch_size_global=_count(header.get("batch_size_global")),
        batch_size_per_device=_count(header.get("batch_size_per_device")),
        devices=devices,
        device_count=device_count,
        ranks=ranks,
        steps=max((record.step for steps in series.values() for record in steps), default=0),
        warm_up_steps=cut,
        steady=steady,
        images_per_sec=share * sum(series[rank][-1].images_per_sec for rank in speeds) if speeds else None,
        total_images_per_sec=_total(run),
        per_process=steady.images_per_sec / ranks if steady else None,
        per_device=steady.images_per_sec / device_count if steady and device_count else None,
        per_node=None if is_global else _per_node(rates, nodes or {}),
        rates=rates,
        skew=_skew(list(rates.values())),
        stragglers=_stragglers(rates),
        first_loss=losses[0] if losses else None,
        last_loss=losses[-1] if losses else None,
        loss_trend=loss_trend(losses),
        has_nan=any(not math.isfinite(loss) for loss in losses),
    )


def _header(run: Sequence[Record]) -> dict[str, str]:
    return {record.key: record.value for record in run if isinstance(record, HeaderRecord)}


def _devices(run: Sequence[Record]) -> tuple[str, ...]:
    """Every device that a header names, once: with Horovod each rank names all, else its own."""
    named = (record.value for record in run if isinstance(record, HeaderRecord) and record.key == "devices")
    return tuple(dict.fromkeys(device for value in named for device in _QUOTED.findall(value)))


def _promised(run: Sequence[Record]) -> int:
    named = max((count_ranks(record) for record in run if isinstance(record, HeaderRecord)), default=0)
    return max(named, count_devices(run))


def _total(run: Sequence[Record]) -> float | None:
    """What the last rank to tell the total has told: all ranks tell the same one, but for the last digit."""
    return next((r.images_per_sec for r in reversed(run) if isinstance(r, TotalRecord)), None)


def _sum(speeds: Collection[Speed], share: float) -> Speed | None:
    """The speed of all, `share` times the sum of the known ones."""
    if not speeds:
        return None
    return Speed(
        share * sum(speed.images_per_sec for speed in speeds),
        share * sum(speed.uncertainty for speed in speeds),
        share * sum(speed.jitter for speed in speeds),
    )


def _per_node(rates: Mapping[int, float], nodes: Mapping[int, str]) -> dict[str, float] | None:
    result: defaultdict[str, float] = defaultdict(float)
    for rank, rate in rates.items():
        if rank in nodes:
            result[nodes[rank]] += rate
    return dict(sorted(result.items())) or None


def _skew(rates: Sequence[float]) -> float | None:
    if len(rates) < 2 or not sum(rates):
        return None
    return (max(rates) - min(rates)) * len(rates) / sum(rates)


def _stragglers(rates: Mapping[int, float]) -> tuple[int, ...]:
    ordered = sorted(rates, key=lambda rank: rates[rank])
    if len(ordered) < 2:
        return ()
    middle = len(ordered) // 2
    median = (rates[ordered[middle]] + rates[ordered[~middle]]) / 2
    return tuple(rank for rank in ordered if rates[rank] < (1 - _STRAGGLER_LAG) * median)


def _count(value: str | None) -> int | None:
    """A header's number; Python 3 printed `64.0` for some months of 2018."""
    try:
        return None if value is None else int(float(value))
    except (ValueError, OverflowError):
        return None


def _plain(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
