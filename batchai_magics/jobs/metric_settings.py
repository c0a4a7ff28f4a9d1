"""The user's settings for metrics."""

from __future__ import annotations

from collections.abc import Iterable

from batchai_magics.backends.base.backend_registry import load_settings
from batchai_magics.config import Settings
from batchai_magics.metrics.runs.metric_traits import MetricPreferences


def metric_preferences(settings: Settings | None = None, patterns: Iterable[str] = ()) -> MetricPreferences:
    """The headline metric and the directions that the settings name, by default this process's settings.

    `patterns` are the names of the user's own.

    Raises:
        UsageError: A setting is unknown or invalid.
    """
    given = settings or load_settings()
    rising, falling = (
        tuple(filter(None, map(str.strip, text.split(","))))
        for text in (given.rising_metrics, given.falling_metrics)
    )
    return MetricPreferences(given.headline_metric, rising, falling, tuple(patterns))
