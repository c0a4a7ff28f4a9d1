"""The summary of a run: speed, ranks, loss and the figures of every metric, also as text and HTML."""

from __future__ import annotations

import enum
import html
import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain

from batchai_magics.metrics.measurement import Record, json_value
from batchai_magics.metrics.runs.log_runs import RunHeader
from batchai_magics.metrics.runs.metric_summary import MetricSummary, number_text
from batchai_magics.metrics.runs.metric_traits import (
    NO_PREFERENCES,
    MetricPreferences,
    MetricTraits,
    find_metric,
    traits_of,
)
from batchai_magics.metrics.runs.positions import AXES
from batchai_magics.metrics.runs.run_metrics import RATE, RunMetrics
from batchai_magics.metrics.runs.steady_speed import Speed, rate_per_node, skew, stragglers

_MOST_POINTS = 200
_LEAST_POINTS = 5
_SIGNIFICANT = 1.96  # standard deviations: 5 % of flat losses are misclassified
_MOST_SHOWN = 8


class LossTrend(str, enum.Enum):
    """How the loss develops over a run."""

    FALLING = "falling"
    FLAT = "flat"
    RISING = "rising"


@dataclass(frozen=True, repr=False)
class Summary(RunHeader):
    """The summary of a run: the last one of a log. Fields that the log does not contain are None.

    Rates are in images/sec. Losses are averaged over the ranks at each step. Ranks that have printed count
    even if fewer were announced, those of a known job even if they print nothing.

    Attributes:
        steps: The last step; the last epoch, if the log tells epochs only.
        warm_up_steps: The steps that `steady` leaves out.
        steady: The speed of all ranks together after the warm-up, with standard error and jitter, which add
            up because ranks wait for each other. Ranks missing from the log count like the others.
        images_per_sec: The same including the warm-up.
        total_images_per_sec: What the program printed at the end.
        is_total_of_one_rank: Whether that is what one of several ranks did alone.
        total_rank: The rank whose total it is; None if it covers all ranks, or the rank is unknown.
        per_process: `steady` divided by the processes. A rate that one of a job's processes alone prints is
            that of all; None while the job runs, as others may still print theirs.
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
        metrics: The figures of every metric, the headline's first.
        headline: The metric that stands for the run; None without metrics, or with timers only.
    """

    steps: int = 0
    warm_up_steps: int | None = None
    steady: Speed | None = None
    images_per_sec: float | None = None
    total_images_per_sec: float | None = None
    is_total_of_one_rank: bool = False
    total_rank: int | None = None
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
    metrics: tuple[MetricSummary, ...] = ()
    headline: MetricSummary | None = None

    @property
    def total_of(self) -> str:
        """Whose the printed total is: `rank 3`, or `one rank` if unknown; empty if it covers all ranks."""
        if not self.is_total_of_one_rank:
            return ""
        return "one rank" if self.total_rank is None else f"rank {self.total_rank}"

    @property
    def step_unit(self) -> str:
        """What `steps` counts: `steps` or `epochs`."""
        return "epochs" if any(metric.axis == AXES[1] for metric in self.metrics) else "steps"

    @property
    def traits(self) -> tuple[MetricTraits, ...]:
        """The traits of its metrics."""
        return tuple(traits_of(metric.name, metric.phase, metric.unit) for metric in self.metrics)

    def metric(self, name: str) -> MetricSummary | None:
        """The figures of the metric that the user means by a name, as `find_metric` finds it."""
        full_name = find_metric([metric.name for metric in self.metrics], name)
        return next((metric for metric in self.metrics if metric.name == full_name), None)

    def to_dict(self) -> dict[str, object]:
        """The fields as JSON values: rank keys are strings, numbers that are not finite are words.

        `headline` is the name of one of the `metrics`.
        """
        values = {field.name: json_value(getattr(self, field.name)) for field in fields(self)}
        values["metrics"] = [metric.to_dict() for metric in self.metrics]
        return {**values, "headline": self.headline.name if self.headline else None}

    def __str__(self) -> str:
        rows = _labelled_rows(self)
        width = max((len(label) for label, _ in rows), default=0)
        return "\n".join(f"{label.ljust(width)}  {text}" for label, text in rows)

    def __repr__(self) -> str:
        return str(self) or "Summary()"

    def _repr_html_(self) -> str:
        cells = (
            f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for label, text in _labelled_rows(self)
        )
        return f"<table><tbody>{''.join(cells)}</tbody></table>"


def summarize(
    records: Iterable[Record],
    *,
    nodes: Mapping[int, str] = {},
    processes: int = 0,
    is_running: bool = False,
    preferences: MetricPreferences = NO_PREFERENCES,
) -> Summary:
    """Summarizes these records; speeds are those of the last run that trains.

    Args:
        records: The records of a log, in file order.
        nodes: Rank → node, for `per_node`.
        processes: The number of the job's processes; 0 if it is unknown.
        is_running: Whether the job still runs.
        preferences: What the user has said of metrics.
    """
    run = RunMetrics(records, preferences)
    header, speeds = run.header, run.speeds
    total = float(run.total.value) if run.total else None
    is_own = total is not None and speeds.is_of_one_rank(total)
    curves = run["loss"].curves() if "loss" in run else []
    losses = array("d", chain.from_iterable(curve.values for curve in curves))
    summary = Summary(
        **{**vars(header), "ranks": speeds.ranks},
        steps=run.last_step,
        warm_up_steps=speeds.warm_up_steps,
        steady=speeds.total,
        images_per_sec=speeds.mean,
        total_images_per_sec=total,
        is_total_of_one_rank=is_own,
        total_rank=run.total.rank if run.total and is_own else None,
        rates=speeds.rates,
        skew=skew([*speeds.rates.values()]),
        stragglers=stragglers(speeds),
        first_loss=losses[0] if losses else None,
        last_loss=losses[-1] if losses else None,
        loss_trend=loss_trend(losses),
        has_nan=not all(map(math.isfinite, losses)),
        metrics=run.summaries,
        headline=run.headline.summary if run.headline else None,
    )
    if speeds.ranks == 1 < processes:
        return _shared_by_job(summary, nodes, processes, is_running=is_running)
    return replace(_shared_out(summary, nodes, header.ranks), ranks=max(speeds.ranks, processes))


def _shared_by_job(
    summary: Summary, nodes: Mapping[int, str], processes: int, *, is_running: bool
) -> Summary:
    """The summary of a job where one process printed a rate: the whole job's, unless others print theirs."""
    if is_running:
        return replace(_shared_out(summary, nodes, summary.ranks), ranks=processes, per_process=None)
    shared = _shared_out(replace(summary, ranks=processes, rates={}), nodes, processes)
    return replace(shared, rates=summary.rates)


def _shared_out(summary: Summary, nodes: Mapping[int, str], announced: int) -> Summary:
    """The summary with its speed by process, device and node; `announced` ranks may not all be seen."""
    rate = summary.steady.images_per_sec if summary.steady else None
    whole = rate if summary.is_rate_global or announced >= len(nodes) else None
    if summary.total_images_per_sec is not None and not summary.is_total_of_one_rank:
        whole = summary.total_images_per_sec
    return replace(
        summary,
        per_process=None if rate is None else rate / summary.ranks,
        per_device=rate / summary.device_count if rate is not None and summary.device_count else None,
        per_node=rate_per_node(summary.rates or {}, nodes, whole=whole),
    )


def loss_trend(losses: Iterable[float]) -> LossTrend | None:
    """Whether losses fall or rise significantly; None for fewer than five finite values.

    This is the Mann-Kendall test at 5 %. It compares pairs, so a loss may level off and outliers do not
    matter.
    """
    finite = array("d", filter(math.isfinite, losses))
    width = math.ceil(len(finite) / _MOST_POINTS) or 1  # of neighbours that are averaged
    groups = [finite[start : start + width] for start in range(0, len(finite), width)]
    values = [sum(group) / len(group) for group in groups]
    count = len(values)
    if count < _LEAST_POINTS:
        return None
    score = sum(
        (later > value) - (later < value)
        for index, value in enumerate(values)
        for later in values[index + 1 :]
    )
    spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    if abs(score) - 1 <= _SIGNIFICANT * spread:
        return LossTrend.FLAT
    return LossTrend.FALLING if score < 0 else LossTrend.RISING


def _labelled_rows(summary: Summary) -> list[tuple[str, str]]:
    """What is known, in words, with its label."""
    rows = [
        *_setup_rows(summary),
        *_speed_rows(summary),
        ("loss", _loss_text(summary)),
        ("NaN or infinite loss", "seen" if summary.has_nan else ""),
        *((metric.label, metric.text) for metric in summary.metrics if metric.name not in (RATE, "loss")),
    ]
    return [(label, text) for label, text in rows if text]


def _setup_rows(summary: Summary) -> list[tuple[str, str]]:
    sizes = (summary.batch_size_global, "global"), (summary.batch_size_per_device, "per device")
    devices = f"{len(summary.devices)}: {_join_limited(summary.devices)}" if summary.devices else ""
    update = f", {summary.variable_update}" if summary.variable_update else ""
    return [
        ("model", summary.model or ""),
        ("dataset", summary.dataset or ""),
        ("batch size", ", ".join(f"{size:,} {scope}" for size, scope in sizes if size)),
        ("devices", devices),
        ("processes", f"{summary.ranks}{update}" if summary.ranks > 1 or update else ""),
        (summary.step_unit, f"{summary.steps:,}" if summary.steps else ""),
    ]


def _speed_rows(summary: Summary) -> list[tuple[str, str]]:
    warm_up, total, by_rank = "", "", ""
    if (cut := summary.warm_up_steps) is not None:
        warm_up = f"to step {cut:,}, left out" if cut else "over before step 1"
    if summary.total_images_per_sec:
        whose = f" of {summary.total_of} alone" if summary.total_of else ""
        total = f"{summary.total_images_per_sec:,.2f}{whose}"
    rates = [*(summary.rates or {}).values()]
    if len(rates) > 1:
        by_rank = _join_rates(summary.rates)
    if len(rates) > _MOST_SHOWN:
        by_rank = f"{min(rates):,.1f} to {max(rates):,.1f}"
    return [
        ("warm-up", warm_up),
        ("steady images/sec", str(summary.steady or "")),
        ("of these", _shares_text(summary)),
        ("total images/sec", total),
        ("by rank", by_rank),
        ("by node", _join_rates(summary.per_node)),
        ("skew", "" if summary.skew is None else f"{summary.skew:.1%} between ranks"),
        ("stragglers", _straggler_text(summary)),
    ]


def _shares_text(summary: Summary) -> str:
    """The speed of each process, unless there is one or an unknown number, and of each device."""
    per_process = summary.per_process if summary.ranks > 1 else None
    shares = (per_process, "per process"), (summary.per_device, "per device")
    return ", ".join(f"{rate:,.1f} {scope}" for rate, scope in shares if rate)


def _join_rates(rates: Mapping[int, float] | Mapping[str, float] | None) -> str:
    return ", ".join(f"{name}: {rate:,.1f}" for name, rate in rates.items()) if rates else ""


def _straggler_text(summary: Summary) -> str:
    """The stragglers with their speed, and why they are slow; empty without ranks to compare."""
    rates, reasons = summary.rates or {}, summary.straggler_reasons or {}
    if len(rates) < 2:
        return ""
    named = [
        f"rank {rank} ({'; '.join(filter(None, (f'{rates[rank]:,.1f}', reasons.get(rank))))})"
        for rank in summary.stragglers
    ]
    return _join_limited(named) or "none significantly slow"


def _loss_text(summary: Summary) -> str:
    """The first and last loss, and the best one, where that is neither of them."""
    if summary.first_loss is None or summary.last_loss is None:
        return ""
    trend = f", {summary.loss_trend.value}" if summary.loss_trend else ""
    text = f"{number_text(summary.first_loss)} to {number_text(summary.last_loss)}{trend}"
    loss = next((metric for metric in summary.metrics if metric.name == "loss"), None)
    if loss is None or loss.best is None or loss.best in (loss.first, loss.last):
        return text
    position = "" if loss.best_step is None else f" at {loss.axis} {number_text(loss.best_step)}"
    return f"{text}, best {number_text(loss.best)}{position}"


def _join_limited(items: Iterable[str]) -> str:
    texts = list(items)
    rest = f", … {len(texts) - _MOST_SHOWN} more" if len(texts) > _MOST_SHOWN else ""
    return ", ".join(texts[:_MOST_SHOWN]) + rest
