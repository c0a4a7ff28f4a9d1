"""What is known of runs that are set side by side: kept current by the publisher, read by all views."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.handle import Job
from batchai_magics.metrics import Comparison, Scaling, summarize
from batchai_magics.metrics.charts.comparison_chart import Overlay, overlay
from batchai_magics.metrics.record import Record
from batchai_magics.metrics.runs.compared_runs import Run
from batchai_magics.metrics.runs.curve import Curve, workers
from batchai_magics.metrics.runs.scaling import scaling_so_far
from batchai_magics.models.states import CANCELLED, STOPPED
from batchai_magics.widgets.comparison.event_source import DELETED, Looked, News, RunGrew, RunMoved
from batchai_magics.widgets.core.display import Bundle, figure
from batchai_magics.widgets.core.feed import DashboardFeed

COST_SHARE = 0.05  # of a core may go into reading the numbers again
LONGEST_PAUSE_S = 10.0  # until they are read again, however dear that is
LOG = "log"  # the state of a run that is no job
ENDED = (LOG, DELETED, "succeeded", "failed", CANCELLED, STOPPED)


class ComparisonFeed(DashboardFeed[News]):
    """The runs as they are now. `version` grows with every change; `lines` are what an overlay draws of them.

    `runs` and `lines` are brought up to date after a look at the jobs, unless that costs too much: then less
    often, and once more at the end. `spent` is the processor time of the thread, in seconds: on a machine
    that is busy with something else nothing comes later for it.
    """

    noun = "comparison"
    kind = "compare"

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        clock: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        super().__init__()
        self.runs = tuple(runs)
        self.jobs = {place: job for place, run in enumerate(runs) if (job := _job_of(run))}
        self.states = [_state_of(run) for run in runs]
        self.lines: list[Overlay] = [overlay(run) for run in runs]
        self.line_versions = [1] * len(runs)
        self._clock, self._spent = clock, spent
        self._due_at = clock()
        self._records: dict[int, list[Record]] = {place: [] for place in self.jobs}
        self._changed: set[int] = set()

    def take(self, event: News) -> None:
        """Takes what is new."""
        if isinstance(event, RunMoved):
            self.states[event.place] = event.state
            self.version += 1
        elif isinstance(event, RunGrew):
            if event.is_restarted:
                self._records[event.place].clear()
            self._records[event.place].extend(event.records)
            self._changed.add(event.place)
        elif isinstance(event, Looked) and self._clock() >= self._due_at:
            self._sum_up()

    def end(self) -> None:
        """All jobs have ended."""
        self._changed.update(self.jobs)  # they do not run any more
        self._sum_up()
        super().end()

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is about to happen; a job that waits in a queue may start at any time."""
        return True

    @property
    def has_ended(self) -> bool:
        """Whether the jobs themselves have ended, which may not have been seen yet; asks the backend."""
        try:
            return all(job.is_done for job in self.jobs.values())
        except BatchAIError:
            return False

    @property
    def way_back(self) -> str:
        """The command that sets the runs side by side again."""
        return f"%batchai {self.kind} {' '.join(run.name for run in self.runs)}"

    @property
    def value(self) -> Comparison | Scaling:
        """The runs as they are now, as `compare` would give them."""
        return Comparison(self.runs)

    def facts(self) -> dict[str, Any]:
        """What the head of the view shows (`ComparisonFacts` in frontend/comparison/messages.d.ts)."""
        going = sum(state not in ENDED for state in self.states)
        return {"kind": self.kind, "jobs": len(self.jobs), "going": going, "problem": self.problem}

    def rows(self) -> list[dict[str, Any]]:
        """The runs (`RunRow` in frontend/comparison/messages.d.ts)."""
        rows = Comparison(self.runs).rows()
        return [
            {
                **{name: finite(row[name]) for name in _ROW},
                "name": run.name,
                "state": state,
                "workers": workers(run) if run.summary.ranks or run.summary.device_count else None,
            }
            for run, row, state in zip(self.runs, rows, self.states, strict=True)
        ]

    def bundle(self) -> Bundle:
        """The table as HTML and text."""
        value = self.value
        ends = self._sentence()
        text = f"{value!r}\n{ends}" if ends else repr(value)
        return {
            "text/html": f"{value._repr_html_()}<p>{html.escape(ends)}</p>" if ends else value._repr_html_(),
            "text/plain": text,
        }

    def chart(self) -> Bundle:
        """The figure as a PNG with a text twin."""
        names = ", ".join(run.name for run in self.runs)
        return figure(self.value.plot(), f"Chart of {names}")

    def _sentence(self) -> str:
        """Which jobs did not succeed, or go on."""
        odd = [
            f"{run.name}: {state}"
            for run, state in zip(self.runs, self.states, strict=True)
            if state not in ("succeeded", LOG)
        ]
        return f"{', '.join(odd)}." if odd else ""

    def _sum_up(self) -> None:
        """Reads the numbers of the runs that have told more."""
        began = self._spent()
        for place in self._changed:
            self._sum_up_run(place)
        if self._changed:
            self.version += 1
        self._changed.clear()
        self._due_at = self._clock() + min(LONGEST_PAUSE_S, (self._spent() - began) / COST_SHARE)

    def _sum_up_run(self, place: int) -> None:
        run, records = self.runs[place], tuple(self._records[place])
        is_running = self.states[place] not in ENDED
        grown = Run(run.name, records, summarize(records), is_running, run.source)
        self.runs = (*self.runs[:place], grown, *self.runs[place + 1 :])
        self.lines[place] = overlay(grown)
        self.line_versions[place] += 1


class ScalingFeed(ComparisonFeed):
    """The same as a study of how speed grows with processes."""

    noun = "study"
    kind = "scaling"

    @property
    def value(self) -> Scaling:
        """The study as far as it has come."""
        return scaling_so_far(self.runs)

    def facts(self) -> dict[str, Any]:
        """What the head and the two charts show."""
        value = self.value
        unit = "GPUs" if value.curves and all(curve.is_on_gpus for curve in value.curves) else "processes"
        curves = [_columns(curve) for curve in value.curves]
        return {**super().facts(), "curves": curves, "unit": unit, "sentences": str(value).splitlines()}

    def rows(self) -> list[dict[str, Any]]:
        """The runs, each with the place of the curve that it is a point of, None if it is of none."""
        curves = self.value.curves
        places = {name: i for i, curve in enumerate(curves) for point in curve.points for name in point.runs}
        return [{**row, "curve": places.get(row["name"])} for row in super().rows()]


_ROW = (
    "model", "processes", "batch_size_global", "steps", "images_per_sec", "uncertainty", "jitter", "speedup",
    "stragglers", "last_loss", "loss_trend", "has_nan",
)  # fmt: skip


def _columns(curve: Curve) -> dict[str, Any]:
    """A curve as columns of one length (`Curve` on the page)."""
    return {
        "label": curve.label,
        "processes": [point.processes for point in curve.points],
        "rates": [finite(point.images_per_sec) for point in curve.points],
        "ideals": [finite(point.ideal) for point in curve.points],
        "percents": [finite(point.efficiency_percent) for point in curve.points],
    }


def finite(value: Any) -> Any:
    """A value as JSON can hold it: a number that is not finite is None, six digits of others are kept."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _job_of(run: Run) -> Job | None:
    """The job that is to be followed, if the run is one that goes on."""
    return run.source if run.is_running and isinstance(run.source, Job) else None


def _state_of(run: Run) -> str:
    return run.source.show().word if isinstance(run.source, Job) else LOG
