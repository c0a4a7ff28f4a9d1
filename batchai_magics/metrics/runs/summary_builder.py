"""Summarizes the records of a run."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from batchai_magics.metrics.runs.run_summary import LossTrend, Summary
from batchai_magics.metrics.runs.steady_speed import Speeds, rate_per_node, skew
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
    run = RunMetrics(records, preferences)
    header, speeds, total = run.header, run.speeds, run.total
    is_own = total is not None and speeds.is_of_one_rank(float(total.value))
    losses = _values_of("loss", run)
    found = Summary(
        model=header.model,
        dataset=header.dataset,
        variable_update=header.variable_update,
        batch_size_global=header.batch_size_global,
        batch_size_per_device=header.batch_size_per_device,
        devices=header.devices,
        device_count=header.device_count,
        is_rate_global=header.is_rate_global,
        ranks=speeds.ranks,
        steps=max((history.last_step for history in speeds.histories.values()), default=0),
        warm_up_steps=speeds.warm_up_steps,
        steady=speeds.total,
        images_per_sec=_over_all_steps(speeds),
        total_images_per_sec=float(total.value) if total else None,
        is_total_of_one_rank=is_own,
        total_rank=total.rank if total and is_own else None,
        rates=speeds.rates,
        skew=skew([*speeds.rates.values()]),
        stragglers=stragglers(speeds),
        first_loss=losses[0] if losses else None,
        last_loss=losses[-1] if losses else None,
        loss_trend=loss_trend(losses),
        has_nan=not all(map(math.isfinite, losses)),
    )
    found, figures = _shared_out(found, nodes or {}, header.ranks), run.summaries
    top = run.headline
    headline = next((each for each in figures if top and each.name == top.name), None)
    return replace(found, metrics=figures, headline=headline)


def _shared_out(found: Summary, nodes: Mapping[int, str], announced: int) -> Summary:
    """The summary with its speed by process, device and node; `announced` ranks may not all be seen."""
    rate = found.steady.images_per_sec if found.steady else None
    whole = rate if found.is_rate_global or announced >= len(nodes) else None
    if found.total_images_per_sec is not None and not found.is_total_of_one_rank:
        whole = found.total_images_per_sec
    return replace(
        found,
        per_process=None if rate is None else rate / found.ranks,
        per_device=rate / found.device_count if rate is not None and found.device_count else None,
        per_node=rate_per_node(found.rates or {}, nodes, whole=whole),
    )


def _values_of(name: str, metrics: RunMetrics) -> array[float]:
    """All values of a metric, in the order of its curves; empty if the run has none."""
    curves = metrics[name].curves() if name in metrics else []
    return array("d", chain.from_iterable(curve.values for curve in curves))


def _over_all_steps(speeds: Speeds) -> float | None:
    last = [speeds.histories[rank].last.images_per_sec for rank in speeds.by_rank]
    return speeds.share * sum(last) if last else None


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
