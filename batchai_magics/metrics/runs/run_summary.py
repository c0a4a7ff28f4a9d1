"""The summary of a run: speed, ranks and loss, also as text lines and an HTML table."""

from __future__ import annotations

import enum
import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypedDict

from batchai_magics.metrics.json_values import json_value
from batchai_magics.metrics.record import Record, StepRecord, TotalRecord
from batchai_magics.metrics.runs.run_header import RunHeader, run_header
from batchai_magics.metrics.runs.steady_speed import (
    RankHistory,
    Speed,
    Speeds,
    common_warm_up,
    rate_per_node,
    skew,
    speeds,
)
from batchai_magics.metrics.runs.step_series import LossMeans, by_rank, runs, runs_of_columns
from batchai_magics.metrics.runs.stragglers import stragglers

if TYPE_CHECKING:
    from batchai_magics.metrics.reading.bulk.columns import Columns


_MOST_POINTS = 200
_LEAST_POINTS = 5
_SIGNIFICANT = 1.96  # standard deviations: 5 % of flat losses are misclassified


class LossTrend(str, enum.Enum):
    """How the loss develops over a run."""

    FALLING = "falling"
    FLAT = "flat"
    RISING = "rising"


@dataclass(frozen=True)
class Summary:
    """The summary of a run: the last one of a log. Fields that the log does not contain are None.

    Rates are in images/sec. Losses are averaged over the ranks at each step.

    Attributes:
        model: The model that the program named.
        dataset: The data set.
        variable_update: How variables are updated: `horovod`, `parameter_server`, ….
        batch_size_global: Images per step of all devices.
        batch_size_per_device: Images per step of a device.
        devices: The names of the devices.
        device_count: Their number.
        is_rate_global: Each rank prints the speed of all; then nothing is known of single ranks.
        ranks: The number of processes.
        steps: The last step.
        warm_up_steps: The steps that `steady` leaves out.
        steady: The speed of all ranks together after the warm-up, with standard error and jitter, which add
            up because ranks wait for each other. Ranks missing from the log count like the others.
        images_per_sec: The same including the warm-up.
        total_images_per_sec: What the program printed at the end.
        per_process: `steady` divided by the processes.
        per_device: `steady` divided by the devices.
        per_node: Node → its part of `steady`; ranks without a rate share equally in the remainder.
        rates: Rank → its steady speed; unknown ranks are numbered in order of appearance.
        skew: The range of the rates relative to their mean.
        stragglers: The ranks significantly more than 5 % behind the median, slowest first.
        straggler_reasons: Straggler → why it is slow, if resource usage is known.
        first_loss: The loss at the first printed step.
        last_loss: The loss at the last printed step.
        loss_trend: How the loss develops.
        has_nan: Whether a loss is NaN or infinite.
    """

    model: str | None = None
    dataset: str | None = None
    variable_update: str | None = None
    batch_size_global: int | None = None
    batch_size_per_device: int | None = None
    devices: tuple[str, ...] = ()
    device_count: int | None = None
    is_rate_global: bool = False
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
    straggler_reasons: Mapping[int, str] | None = None
    first_loss: float | None = None
    last_loss: float | None = None
    loss_trend: LossTrend | None = None
    has_nan: bool = False

    def to_dict(self) -> dict[str, object]:
        """The fields as JSON values: rank keys are strings, numbers that are not finite are words."""
        return {field.name: json_value(getattr(self, field.name)) for field in fields(self)}

    def __str__(self) -> str:
        return "\n".join(summary_lines(self))

    def _repr_html_(self) -> str:
        return summary_html(self)


def summarize(records: Iterable[Record], *, nodes: Mapping[int, str] | None = None) -> Summary:
    """Summarizes the last run in these records.

    Args:
        records: The records of a log, in file order.
        nodes: Rank → node, for `per_node`.
    """
    run = runs(records)[-1]
    return _summary(run, by_rank(run).items(), nodes or {})


def summarize_columns(columns: Columns) -> Summary:
    """Summarize a large log with step lines, creating the records of one process at a time."""
    return _summary(*runs_of_columns(columns), {})


def warm_up_of(records: Iterable[Record]) -> int | None:
    """The `warm_up_steps` of the summary, without computing the rest."""
    steps_by_rank = by_rank(runs(records)[-1])
    return common_warm_up({rank: RankHistory.of(steps) for rank, steps in steps_by_rank.items()})


def _summary(
    run: Sequence[Record],
    steps_by_rank: Iterable[tuple[int, Sequence[StepRecord]]],
    nodes: Mapping[int, str],
) -> Summary:
    histories, losses = {}, LossMeans()
    for rank, steps in steps_by_rank:
        histories[rank] = RankHistory.of(steps)
        losses.add(steps)
    header = run_header(run, ranks_seen=len(histories))
    cut = common_warm_up(histories)
    ranks = max(header.ranks, len(histories))
    run_speeds = speeds(histories, cut, ranks=ranks, is_rate_global=header.is_rate_global)
    return Summary(
        model=header.model,
        dataset=header.dataset,
        variable_update=header.variable_update,
        batch_size_global=header.batch_size_global,
        batch_size_per_device=header.batch_size_per_device,
        devices=header.devices,
        device_count=header.device_count,
        is_rate_global=header.is_rate_global,
        ranks=ranks,
        steps=max((history.last_step for history in histories.values()), default=0),
        warm_up_steps=cut,
        images_per_sec=_over_all_steps(histories, run_speeds),
        total_images_per_sec=_total(run),
        **_shares_of(run_speeds.total, ranks, header),
        **_by_rank(run_speeds, header, nodes, whole=_total_rate(run, run_speeds, header, nodes)),
        stragglers=() if header.is_rate_global else stragglers(histories, run_speeds.rates, cut=cut),
        **_losses(list(losses.means().values())),
    )


def _over_all_steps(histories: Mapping[int, RankHistory], run_speeds: Speeds) -> float | None:
    last = [histories[rank].last.images_per_sec for rank in run_speeds.by_rank]
    return run_speeds.share * sum(last) if last else None


def _total(run: Sequence[Record]) -> float | None:
    """The last printed total: all ranks print the same one, except for the last digit."""
    return next((r.images_per_sec for r in reversed(run) if isinstance(r, TotalRecord)), None)


class _Shares(TypedDict):
    steady: Speed | None
    per_process: float | None
    per_device: float | None


def _shares_of(steady: Speed | None, ranks: int, header: RunHeader) -> _Shares:
    rate, devices = steady.images_per_sec if steady else None, header.device_count
    return {
        "steady": steady,
        "per_process": rate / ranks if rate is not None else None,
        "per_device": rate / devices if rate is not None and devices else None,
    }


class _Ranks(TypedDict):
    rates: Mapping[int, float]
    per_node: Mapping[str, float] | None
    skew: float | None


def _total_rate(
    run: Sequence[Record], run_speeds: Speeds, header: RunHeader, nodes: Mapping[int, str]
) -> float | None:
    """The rate of all ranks; None if the log contains too few of them."""
    total = _total(run)
    if total is not None:
        return total
    together = run_speeds.total
    is_known = header.is_rate_global or header.ranks >= len(nodes)
    return together.images_per_sec if together and is_known else None


def _by_rank(
    run_speeds: Speeds, header: RunHeader, nodes: Mapping[int, str], *, whole: float | None
) -> _Ranks:
    """The speeds of single ranks; unknown if each rank prints the speed of all."""
    rates = {} if header.is_rate_global else run_speeds.rates
    return {
        "rates": rates,
        "per_node": rate_per_node(rates, nodes, whole=whole),
        "skew": skew(list(rates.values())),
    }


class _Losses(TypedDict):
    first_loss: float | None
    last_loss: float | None
    loss_trend: LossTrend | None
    has_nan: bool


def _losses(losses: Sequence[float]) -> _Losses:
    return {
        "first_loss": losses[0] if losses else None,
        "last_loss": losses[-1] if losses else None,
        "loss_trend": loss_trend(losses),
        "has_nan": any(not math.isfinite(loss) for loss in losses),
    }


def loss_trend(losses: Iterable[float]) -> LossTrend | None:
    """Whether losses fall or rise significantly; None for fewer than five finite values.

    This is the Mann-Kendall test at 5 %. It compares pairs, so a loss may level off and outliers do not
    matter.
    """
    values = _thinned([loss for loss in losses if math.isfinite(loss)])
    count = len(values)
    if count < _LEAST_POINTS:
        return None
    score = sum(
        (later > value) - (later < value)
        for place, value in enumerate(values)
        for later in values[place + 1 :]
    )
    spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    if abs(score) - 1 <= _SIGNIFICANT * spread:
        return LossTrend.FLAT
    return LossTrend.FALLING if score < 0 else LossTrend.RISING


def _thinned(values: list[float]) -> list[float]:
    """Average neighbours until at most 200 values remain."""
    width = math.ceil(len(values) / _MOST_POINTS) or 1
    groups = [values[start : start + width] for start in range(0, len(values), width)]
    return [sum(group) / len(group) for group in groups]


_MOST_SHOWN = 8


def summary_lines(summary: Summary) -> list[str]:
    """The summary as text lines; unknown values are omitted."""
    rows = _labelled_rows(summary)
    width = max((len(label) for label, _ in rows), default=0)
    return [f"{label.ljust(width)}  {text}" for label, text in rows]


def summary_html(summary: Summary) -> str:
    """The summary as an escaped HTML table."""
    cells = (
        f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
        f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
        for label, text in _labelled_rows(summary)
    )
    return f"<table><tbody>{''.join(cells)}</tbody></table>"


def _labelled_rows(summary: Summary) -> list[tuple[str, str]]:
    lines = ((label, text_of(summary)) for label, text_of in _LINES)
    return [(label, text) for label, text in lines if text]


def _batch_size(summary: Summary) -> str:
    sizes = (summary.batch_size_global, "global"), (summary.batch_size_per_device, "per device")
    return ", ".join(f"{size:,} {what}" for size, what in sizes if size)


def _devices(summary: Summary) -> str:
    if not summary.devices:
        return ""
    return f"{len(summary.devices)}: {_join_limited(summary.devices)}"


def _processes(summary: Summary) -> str:
    way = f", {summary.variable_update}" if summary.variable_update else ""
    return f"{summary.ranks}{way}" if summary.ranks else ""


def _warm_up(summary: Summary) -> str:
    cut = summary.warm_up_steps
    if cut is None:
        return ""
    return f"to step {cut:,}, left out" if cut else "over before step 1"


def _shares(summary: Summary) -> str:
    shares = (summary.per_process, "per process"), (summary.per_device, "per device")
    return ", ".join(f"{rate:,.1f} {what}" for rate, what in shares if rate)


def _rates_in_words(summary: Summary) -> str:
    rates = summary.rates or {}
    if len(rates) < 2:
        return ""
    if len(rates) > _MOST_SHOWN:
        return f"{min(rates.values()):,.1f} to {max(rates.values()):,.1f}"
    return _rates(rates)


def _rates(rates: Mapping[int, float] | Mapping[str, float]) -> str:
    return ", ".join(f"{name}: {rate:,.1f}" for name, rate in rates.items())


def _stragglers(summary: Summary) -> str:
    rates = summary.rates or {}
    if len(rates) < 2:
        return ""
    reasons = summary.straggler_reasons or {}
    named = [
        f"rank {rank} ({'; '.join(filter(None, (f'{rates[rank]:,.1f}', reasons.get(rank))))})"
        for rank in summary.stragglers
    ]
    return _join_limited(named) or "none significantly slow"


def _loss(summary: Summary) -> str:
    if summary.first_loss is None or summary.last_loss is None:
        return ""
    trend = f", {summary.loss_trend.value}" if summary.loss_trend else ""
    return f"{summary.first_loss:.3f} to {summary.last_loss:.3f}{trend}"


def _join_limited(items: Iterable[str]) -> str:
    every = list(items)
    rest = f", … {len(every) - _MOST_SHOWN} more" if len(every) > _MOST_SHOWN else ""
    return ", ".join(every[:_MOST_SHOWN]) + rest


def _rate(value: float | None) -> str:
    return f"{value:,.2f}" if value else ""


_LINES: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("model", lambda summary: summary.model or ""),
    ("dataset", lambda summary: summary.dataset or ""),
    ("batch size", _batch_size),
    ("devices", _devices),
    ("processes", _processes),
    ("steps", lambda summary: f"{summary.steps:,}" if summary.steps else ""),
    ("warm-up", _warm_up),
    ("steady images/sec", lambda summary: str(summary.steady or "")),
    ("of these", _shares),
    ("total images/sec", lambda summary: _rate(summary.total_images_per_sec)),
    ("by rank", _rates_in_words),
    ("by node", lambda summary: _rates(summary.per_node or {})),
    ("skew", lambda summary: "" if summary.skew is None else f"{summary.skew:.1%} between ranks"),
    ("stragglers", _stragglers),
    ("loss", _loss),
    ("NaN or infinite loss", lambda summary: "seen" if summary.has_nan else ""),
)
