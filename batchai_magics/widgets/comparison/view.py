"""The live view of runs side by side: the table as small state, the lines of the overlay as messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchai_magics.metrics.charts.comparison_chart import Overlay
from batchai_magics.widgets.comparison.feed import ComparisonFeed, finite
from batchai_magics.widgets.core.showing import Clock
from batchai_magics.widgets.dashboards.dashboard_view import DashboardView, RunInBackground

MOST_POINTS = 400  # of a line: more than a chart has pixels to tell apart


class ComparisonView(DashboardView):
    """Runs as lines over each other, or as a scaling study. A page that says hello gets all lines anew."""

    script = "comparison_view"

    def __init__(self, feed: ComparisonFeed, *, view_id: str, work: RunInBackground, clock: Clock) -> None:
        self._runs = feed
        self._sent = [0] * len(feed.runs)
        super().__init__(feed, view_id=view_id, work=work, clock=clock)

    def reset_page(self) -> None:
        """A page has said hello: it has no lines."""
        self._sent = [0] * len(self._sent)

    def next_message(self, limit_bytes: int) -> dict[str, Any] | None:
        """The lines of a run that the page does not have."""
        for place, version in enumerate(self._runs.line_versions):
            if self._sent[place] != version:
                self._sent[place] = version
                return {"kind": "lines", "run": place, **columns(self._runs.lines[place])}
        return None


def columns(lines: Overlay) -> dict[str, Any]:
    """A run's lines as columns of one length, evenly thinned, the last point kept (`Lines` on the page)."""
    steps = _thinned(sorted({*lines.rates, *lines.losses}))

    def column(values: Mapping[int, float]) -> list[float | None]:
        return [finite(values.get(step)) for step in steps]

    over = {name: column(places) for name, places in lines.places.items() if places}
    return {"rates": column(lines.rates), "losses": column(lines.losses), "over": over}


def _thinned(steps: list[int]) -> list[int]:
    if len(steps) <= MOST_POINTS:
        return steps
    stride = (len(steps) - 1) / (MOST_POINTS - 1)
    return [steps[round(i * stride)] for i in range(MOST_POINTS)]
