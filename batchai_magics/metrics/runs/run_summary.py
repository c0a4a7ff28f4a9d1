"""The summary of a run: speed, ranks, loss and the figures of every metric, also as text and HTML."""

from __future__ import annotations

import enum
import html
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields

from batchai_magics.metrics.measurement import json_value
from batchai_magics.metrics.runs.metric_summary import MetricSummary, number_text
from batchai_magics.metrics.runs.metric_traits import MetricTraits, find_metric, traits_of
from batchai_magics.metrics.runs.steady_speed import Speed


class LossTrend(str, enum.Enum):
    """How the loss develops over a run."""

    FALLING = "falling"
    FLAT = "flat"
    RISING = "rising"


@dataclass(frozen=True, repr=False)
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
        is_total_of_one_rank: Whether that is what one of several ranks did alone.
        total_rank: The rank whose total it is; None if it is that of all, or the rank is unknown.
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
        metrics: The figures of every metric, the headline's first.
        headline: The metric that stands for the run; None without metrics, or with timers only.
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
        """Whose the printed total is: `rank 3`, or `one rank` if unknown; empty if it is that of all."""
        if not self.is_total_of_one_rank:
            return ""
        return "one rank" if self.total_rank is None else f"rank {self.total_rank}"

    @property
    def traits(self) -> tuple[MetricTraits, ...]:
        """The traits of its metrics."""
        return tuple(traits_of(metric.name, metric.phase, metric.unit) for metric in self.metrics)

    def metric(self, name: str) -> MetricSummary | None:
        """The figures of the metric that the user means by a name, as `find_metric` finds it."""
        found = find_metric([metric.name for metric in self.metrics], name)
        return next((metric for metric in self.metrics if metric.name == found), None)

    def to_dict(self) -> dict[str, object]:
        """The fields as JSON values: rank keys are strings, numbers that are not finite are words.

        `headline` is the name of one of the `metrics`.
        """
        values = {field.name: json_value(getattr(self, field.name)) for field in fields(self)}
        values["metrics"] = [metric.to_dict() for metric in self.metrics]
        return {**values, "headline": self.headline.name if self.headline else None}

    def __str__(self) -> str:
        return "\n".join(summary_lines(self))

    def __repr__(self) -> str:
        return str(self) or "Summary()"

    def _repr_html_(self) -> str:
        return summary_html(self)


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
    metrics = ((metric.label, metric.text) for metric in summary.metrics if metric.name not in _IN_LINES)
    return [(label, text) for label, text in (*lines, *metrics) if text]


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
    return f"{summary.first_loss:.3f} to {summary.last_loss:.3f}{trend}{_best_loss(summary.metrics)}"


def _best_loss(metrics: Iterable[MetricSummary]) -> str:
    """The best loss, where that is neither the first nor the last one."""
    loss = next((metric for metric in metrics if metric.name == "loss"), None)
    if loss is None or loss.best is None or loss.best in (loss.first, loss.last):
        return ""
    place = "" if loss.best_step is None else f" at {loss.axis} {number_text(loss.best_step)}"
    return f", best {loss.best:.3f}{place}"


def _total(summary: Summary) -> str:
    """The printed total, with its rank if it is the total of one rank alone."""
    if not summary.total_images_per_sec:
        return ""
    whose = f" of {summary.total_of} alone" if summary.total_of else ""
    return f"{summary.total_images_per_sec:,.2f}{whose}"


def _join_limited(items: Iterable[str]) -> str:
    every = list(items)
    rest = f", … {len(every) - _MOST_SHOWN} more" if len(every) > _MOST_SHOWN else ""
    return ", ".join(every[:_MOST_SHOWN]) + rest


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
    ("total images/sec", _total),
    ("by rank", _rates_in_words),
    ("by node", lambda summary: _rates(summary.per_node or {})),
    ("skew", lambda summary: "" if summary.skew is None else f"{summary.skew:.1%} between ranks"),
    ("stragglers", _stragglers),
    ("loss", _loss),
    ("NaN or infinite loss", lambda summary: "seen" if summary.has_nan else ""),
)
_IN_LINES = frozenset(["images_per_sec", "loss"])  # metrics that have lines of their own
