"""The user's settings for metrics."""

from __future__ import annotations

from collections.abc import Iterable

from batchai_magics.backends.base.backend_registry import load_settings
from batchai_magics.config import Settings
from batchai_magics.metrics.runs.metric_traits import MetricPreferences


def metric_preferences(settings: Settings | None = None, patterns: Iterable[str] = ()) -> MetricPreferences:
    """The headline metric and the directions that the settings name, by default those of this process.

    Args:
        settings: The settings.
        patterns: The names of the user's patterns.

    Raises:
        UsageError: A setting is unknown or invalid.
    """
    given = settings or load_settings()
    return MetricPreferences(
        given.headline_metric, _names(given.rising_metrics), _names(given.falling_metrics), tuple(patterns)
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
