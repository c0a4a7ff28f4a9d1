"""A sweep in a cell's output: live, as refreshed HTML or as text; at the end a table and a figure."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.job_costs import job_costs
from batchai_magics.jobs.job_handle import Job
from batchai_magics.widgets.comparison.comparison_output import (
    ComparisonOutput,
    LiveComparison,
    TextComparisonOutput,
)
from batchai_magics.widgets.comparison.sweep_feed import SweepFeed
from batchai_magics.widgets.comparison.sweep_source import INTERVAL_S, ShownSweep, SweepSource
from batchai_magics.widgets.core.cell_output import Clock, RunInBackground
from batchai_magics.widgets.core.feed import PageData
from batchai_magics.widgets.dashboards.dashboard_output import DashboardOutput, Opener
from batchai_magics.widgets.dashboards.dashboard_view import DashboardView, answer_to

if TYPE_CHECKING:
    from batchai_magics.widgets.core.publisher import Publisher

ROWS_PER_MESSAGE = 300  # about 100 KB


class SweepView(DashboardView):
    """Trials as rows, sent when they change; the request `open` embeds a view of some of their jobs.

    `open_jobs` creates the live view of a job, or a comparison of several, and returns its model's id.
    """

    script = "sweep_view"
    requests = ("open",)

    def __init__(
        self,
        sweep: ShownSweep,
        feed: SweepFeed,
        *,
        view_id: str,
        work: RunInBackground,
        clock: Clock,
        open_jobs: Opener,
    ) -> None:
        self._sweep, self._trials, self._open_jobs = sweep, feed, open_jobs
        self._sent_version = 0
        self._unsent: dict[int, None] = {}  # numbers of trials
        super().__init__(feed, view_id=view_id, work=work, clock=clock)

    def reset_page(self) -> None:
        """A page has said hello: it has no trials yet."""
        self._sent_version = 0

    def next_message(self, limit_bytes: int) -> PageData | None:
        """The next trials for which the page is out of date."""
        for number, version in reversed(self._trials.changed.items()):
            if version <= self._sent_version:
                break
            self._unsent[number] = None
        self._sent_version = self._trials.version
        numbers = list(self._unsent)[:ROWS_PER_MESSAGE]
        for number in numbers:
            del self._unsent[number]
        return (
            {"kind": "trials", "rows": [self._trials.trials[number] for number in numbers]}
            if numbers
            else None
        )

    def answer_open(self, content: PageData) -> PageData:
        """Creates the live view of the jobs `content["names"]`."""
        try:
            jobs = self._jobs([str(name) for name in content.get("names", ())])
            return {**answer_to(content, ""), "model": self._open_jobs(*jobs)}
        except BatchAIError as error:
            return answer_to(content, error.message, is_done=False)

    def _jobs(self, names: Sequence[str]) -> list[Job]:
        by_name = {trial.name: trial.job for trial in self._sweep.snapshot().trials if trial.name in names}
        return [job for name in names if (job := by_name.get(name))]


def show(sweep: ShownSweep, publisher: Publisher, open_jobs: Opener, *, ui: str) -> None:
    """Shows a sweep beneath the cell, and takes its steps until it has ended; `ui` as for a comparison."""
    key = f"sweep {sweep.backend.capabilities.name} {sweep.name}"
    feed = publisher.feed(key, lambda: _opened(sweep, publisher.clock), max_interval_s=INTERVAL_S)
    for older in publisher.outputs(key):
        if isinstance(older, (ComparisonOutput, TextComparisonOutput)):
            older.close()  # only the newest static output is refreshed
    output = _output(key, sweep, feed, publisher, open_jobs, ui=ui)
    output.open()
    publisher.add(output)


def _output(
    key: str, sweep: ShownSweep, feed: SweepFeed, publisher: Publisher, open_jobs: Opener, *, ui: str
) -> DashboardOutput:
    if ui in ("html", "text"):
        kind = ComparisonOutput if ui == "html" else TextComparisonOutput
        return kind(key, feed, clock=publisher.clock)
    work, clock = publisher.run_in_background, publisher.clock
    view = SweepView(sweep, feed, view_id=uuid.uuid4().hex, work=work, clock=clock, open_jobs=open_jobs)
    return LiveComparison(key, view, feed, clock=clock)


def _opened(sweep: ShownSweep, clock: Clock) -> tuple[SweepSource, SweepFeed]:
    """A source of a sweep's changes, and a feed with its current state."""
    source, feed = SweepSource(sweep, job_costs(sweep.backend), clock=clock), SweepFeed(sweep.name)
    if update := source.read():
        feed.take(update)
    return source, feed
