"""Summarizes the records of a run."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypedDict

from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.runs.mean_rates import mean_rates
from batchai_magics.metrics.runs.metric_summary import MetricSummary
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.metrics.runs.run_header import RunHeader, run_header
from batchai_magics.metrics.runs.run_metrics import RATE, RunMetrics, metrics_of_run
from batchai_magics.metrics.runs.run_summary import LossTrend, Summary
from batchai_magics.metrics.runs.steady_speed import (
    RankHistory,
    Speed,
    Speeds,
    common_warm_up,
    is_rate_of_one,
    rate_per_node,
    skew,
    speeds,
)
from batchai_magics.metrics.runs.step_series import has_step_lines, runs, total_of
from batchai_magics.metrics.runs.stragglers import stragglers

_MOST_POINTS = 200
_LEAST_POINTS = 5
_SIGNIFICANT = 1.96  # standard deviations: 5 % of flat losses are misclassified


def summarize(
    records: Iterable[Record],
    *,
    nodes: Mapping[int, str] | None = None,
    preferences: MetricPreferences = NO_PREFERENCES,
) -> Summary:
    """Summarizes the last run in these records.

    Args:
        records: The records of a log, in file order.
        nodes: Rank → node, for `per_node`.
        preferences: What the user has said of metrics.
    """
    run = runs(records)[-1]
    mean = mean_rates(run)
    histories = {rank: RankHistory.of(rates) for rank, rates in mean.items()}
    header = run_header(run, ranks_seen=len(histories))
    cut = common_warm_up(histories)
    ranks = max(header.ranks, len(histories))
    run_speeds = speeds(histories, cut, ranks=ranks, is_rate_global=header.is_rate_global)
    total = _total(run, run_speeds, header)
    nodes = nodes or {}
    whole = _total_rate(total, run_speeds, header, nodes)
    metrics = metrics_of_run(run, mean, preferences, header)
    found = Summary(
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
        **total,
        **_shares_of(run_speeds.total, ranks, header),
        **_by_rank(run_speeds, header, nodes, whole=whole),
        stragglers=() if header.is_rate_global else stragglers(histories, run_speeds.rates, cut=cut),
        **_losses(metrics),
    )
    figures = metrics.summaries
    if has_step_lines(run):
        figures = tuple(
            _with_speed(each, found, run_speeds.share) if each.name == RATE else each for each in figures
        )
    return replace(found, metrics=figures, headline=_headline(metrics, figures))


def warm_up_of(records: Iterable[Record]) -> int | None:
    """The `warm_up_steps` of the summary, without computing the rest."""
    rates = mean_rates(runs(records)[-1])
    return common_warm_up({rank: RankHistory.of(lines) for rank, lines in rates.items()})


def _headline(metrics: RunMetrics, figures: Iterable[MetricSummary]) -> MetricSummary | None:
    return next((each for each in figures if metrics.headline and each.name == metrics.headline.name), None)


def _with_speed(figures: MetricSummary, found: Summary, share: float) -> MetricSummary:
    """The figures of images/sec, of all processes: `share` is their number by that of those seen.

    The program prints cumulative means, so the steady speed is their mean.
    """
    scale = 1.0 if found.is_rate_global else share
    mean = found.steady.images_per_sec if found.steady else figures.mean
    total = None if found.is_total_of_one_rank else found.total_images_per_sec
    best = None if figures.best is None else scale * figures.best
    return replace(
        figures, first=scale * figures.first, last=scale * figures.last, best=best, mean=mean, total=total
    )


def _over_all_steps(histories: Mapping[int, RankHistory], run_speeds: Speeds) -> float | None:
    last = [histories[rank].last.images_per_sec for rank in run_speeds.by_rank]
    return run_speeds.share * sum(last) if last else None


class _Total(TypedDict):
    total_images_per_sec: float | None
    is_total_of_one_rank: bool
    total_rank: int | None


def _total(run: MeasurementTable, run_speeds: Speeds, header: RunHeader) -> _Total:
    """The last printed total: all ranks print the same one, except for the last digit.

    Ranks that do not train together each print their own: it is closer to the speed of one than of all.
    """
    last = total_of(run)
    total = float(last.value) if last else None
    rates, together = list(run_speeds.rates.values()), run_speeds.total
    is_own = False
    if total and together and not header.is_rate_global:
        is_own = is_rate_of_one(total, rates, together.images_per_sec)
    return {
        "total_images_per_sec": total,
        "is_total_of_one_rank": is_own,
        "total_rank": last.rank if last and is_own else None,
    }


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
    total: _Total, run_speeds: Speeds, header: RunHeader, nodes: Mapping[int, str]
) -> float | None:
    """The rate of all ranks; None if the log contains too few of them."""
    if total["total_images_per_sec"] is not None and not total["is_total_of_one_rank"]:
        return total["total_images_per_sec"]
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


def _losses(metrics: RunMetrics) -> _Losses:
    found = metrics.get("loss")
    curves = found.curves() if found else []
    losses = array("d", chain.from_iterable(curve.values for curve in curves))
    return {
        "first_loss": losses[0] if losses else None,
        "last_loss": losses[-1] if losses else None,
        "loss_trend": loss_trend(losses),
        "has_nan": not all(map(math.isfinite, losses)),
    }


def loss_trend(losses: Iterable[float]) -> LossTrend | None:
    """Whether losses fall or rise significantly; None for fewer than five finite values.

    This is the Mann-Kendall test at 5 %. It compares pairs, so a loss may level off and outliers do not
    matter.
    """
    values = _thinned(array("d", filter(math.isfinite, losses)))
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


def _thinned(values: Sequence[float]) -> list[float]:
    """Average neighbours until at most 200 values remain."""
    width = math.ceil(len(values) / _MOST_POINTS) or 1
    groups = [values[start : start + width] for start in range(0, len(values), width)]
    return [sum(group) / len(group) for group in groups]
