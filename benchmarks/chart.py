"""Kernel CPU of one chart update: points appended to the live view, against a matplotlib PNG of all of them.

Two series of `count` points arrive in 40 updates, as they would in a job of 10 s watched at 4 Hz.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence

from counting import page
from row import Row, table

from batchai_magics.backends.base.registry import open_backend
from batchai_magics.config import Settings
from batchai_magics.follow import MetricsSeen
from batchai_magics.jobs.handle import Job
from batchai_magics.metrics.record import StepRecord
from batchai_magics.models.ids import Kind, workspace_id
from batchai_magics.widgets.job.feed import JobFeed
from batchai_magics.widgets.job.view import JobView

UPDATES = 40


def rows() -> Iterator[Row]:
    """One row for each size of an update."""
    for count in (10_000, 100_000):
        ours, theirs = cpu_ms(live_view(), count), cpu_ms(picture(), count)
        what = f"kernel CPU per chart update of {count // UPDATES:,} points"
        yield Row(what, ours, "matplotlib PNG of all", theirs, "ms")


def cpu_ms(update: Callable[[Sequence[StepRecord]], None], count: int) -> float:
    """The mean CPU time of one of the updates that bring `count` points."""
    records = [StepRecord(step, 0, 50 + step % 7, 0.5, 1.0, 7 - step / count) for step in range(1, count + 1)]
    size = count // UPDATES
    began = time.process_time()
    for first in range(0, count, size):
        update(records[first : first + size])
    return (time.process_time() - began) / UPDATES * 1000


def live_view() -> Callable[[Sequence[StepRecord]], None]:
    """Appends the records to a live view and sends what its page lacks."""
    settings, feed = Settings(), JobFeed()
    id = workspace_id(settings).child(Kind.EXPERIMENT, "default").child(Kind.JOB, "chart")
    view = JobView(Job(open_backend(settings), id), feed, view_id="chart", work=lambda task: task())
    page.say_ready()

    def update(records: Sequence[StepRecord]) -> None:
        feed.take(MetricsSeen(id, tuple(records)))
        while view.send_next(400_000):
            pass

    return update


def picture() -> Callable[[Sequence[StepRecord]], None]:
    """Draws all records so far with matplotlib: one figure, its lines changed, saved as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5))
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 1)
    lines = [ax.plot([], [])[0] for ax in axes]
    steps: list[int] = []
    values: tuple[list[float], list[float]] = ([], [])

    def update(records: Sequence[StepRecord]) -> None:
        steps.extend(record.step for record in records)
        values[0].extend(record.images_per_sec for record in records)
        values[1].extend(record.loss for record in records)
        for ax, line, value in zip(axes, lines, values, strict=True):
            line.set_data(steps, value)
            ax.relim()
            ax.autoscale_view()
        figure.savefig(io.BytesIO(), format="png")

    return update


if __name__ == "__main__":
    print(table(rows()))
