"""Which charts a job's live view has."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.jobs.job_model import JobModel
from batchai_magics.metrics.runs.metric_traits import (
    MetricPreferences,
    MetricTraits,
    charts_of,
    is_default,
)
from batchai_magics.widgets.core.polled_model import PageData


def charts_fields(model: JobModel) -> list[PageData]:
    """The charts, the headline's first (`Chart` in frontend/core/messages.d.ts)."""
    units = dict(model.points.metrics)
    charts = charts_of(units, model.preferences)
    return [{**chart_fields(lines, model.preferences), "unit": units[lines[0]]} for lines in charts]


def chart_fields(lines: Sequence[MetricTraits], preferences: MetricPreferences) -> PageData:
    """A chart of one quantity (`Chart` in frontend/core/messages.d.ts), without its unit."""
    first = lines[0]
    return {
        "title": first.label if len(lines) == 1 else first.quantity,
        "quantity": first.quantity,
        "direction": preferences.direction(first).value,
        "is_rate": first.is_rate,
        "is_summed": first.is_summed,
        "is_default": is_default(lines),
        "lines": [{"name": line.name, "phase": line.phase} for line in lines],
    }
