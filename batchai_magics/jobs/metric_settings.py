"""The user's settings for metrics."""

from __future__ import annotations

from collections.abc import Iterable

from batchai_magics.backends.base.backend_registry import load_settings
from batchai_magics.config import Settings
from batchai_magics.metrics.runs.metric_traits import MetricPreferences


def metric_preferences(settings: Settings | None = None, patterns: Iterable[str] = ()) -> MetricPreferences:
    """The headline metric and the directions that the settings name, by default this process's settings.

    `patterns` are the names of metrics with a pattern of the user.

    Raises:
        UsageError: A setting is unknown or invalid.
    """
    settings = settings or load_settings()
    rising, falling = (
        tuple(filter(None, map(str.strip, text.split(","))))
        for text in (settings.rising_metrics, settings.falling_metrics)
    )
    return MetricPreferences(settings.headline_metric, rising, falling, tuple(patterns))
