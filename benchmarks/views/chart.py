"""Kernel CPU of one chart update: points appended to the live view, against a matplotlib PNG of all of them.

Two series of `count` points arrive in 40 updates, as they would in a job of 10 s watched at 4 Hz. The view
takes them as a follower gives them; the last rows count from the bytes of the log on, against the parser that
makes one record of each line, and the same view.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence

from batchai_magics.backends.base import Chunk
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.config import Settings
from batchai_magics.follow import MetricsAdded
from batchai_magics.follow.metric_streams import parse_metrics
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.metrics import Parser
from batchai_magics.metrics.measurement import Record, lines_of
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.runs.log_records import records_in
from batchai_magics.models.resource_ids import Kind, workspace_id
from batchai_magics.widgets.core.cell_output import KernelWidget
from batchai_magics.widgets.job.job_view import JobStream
from benchmarks.row import Row, table
from benchmarks.views.counting import page

UPDATES = 40
TRIES = 3  # of which the best counts: the first one imports what it needs


def rows() -> Iterator[Row]:
    """One row for each size of an update."""
    for count in (10_000, 50_000):
        ours, theirs = cpu_ms(live_view(), count), cpu_ms(picture(), count)
        what = f"kernel CPU per chart update of {count // UPDATES:,} points"
        yield Row(what, ours, "matplotlib PNG of all", theirs, "ms")
    for count, ranks in ((10_000, 1), (50_000, 1), (50_000, 256)):
        tries = [
            [reading_cpu_ms(read, live_view(), chunks(count, ranks)) for read in (parse_metrics, one_by_one)]
            for _ in range(TRIES)
        ]
        ours, theirs = map(min, zip(*tries, strict=True))
        of_ranks = f" of {ranks} ranks" if ranks > 1 else ""
        what = f"the same from the log's bytes: {count // UPDATES:,} lines{of_ranks}"
        yield Row(what, ours, "a record of each line", theirs, "ms")


Records = tuple[Record, ...] | MeasurementTable


def cpu_ms(update: Callable[[Records], None], count: int) -> float:
    """The mean CPU time of one of the updates that bring `count` points."""
    parser = Parser()
    updates = [parse_metrics(chunk, parser) for chunk in chunks(count)]
    began = time.process_time()
    for records in updates:
        update(records)
    return (time.process_time() - began) / UPDATES * 1000


def reading_cpu_ms(
    read: Callable[[Chunk, Parser], Records], update: Callable[[Records], None], updates: Sequence[Chunk]
) -> float:
    """The same, with what it takes to read the log's lines."""
    parser = Parser()
    began = time.process_time()
    for chunk in updates:
        update(read(chunk, parser))
    return (time.process_time() - began) / UPDATES * 1000


def one_by_one(chunk: Chunk, parser: Parser) -> Records:
    """The records as the parser makes them, one of each line."""
    return tuple(records_in(chunk, parser))


def chunks(count: int, ranks: int = 1) -> list[Chunk]:
    """The pieces of a log with so many points, as a follower gets them, with tags of several ranks."""
    lines = list[str]()
    for number in range(count):
        step, rank = divmod(number, ranks)
        tag = f"[1,{rank}]<stdout>:" if ranks > 1 else ""
        rate = f"images/sec: {50 + step % 7:.1f} +/- 0.5 (jitter = 1.0)"
        lines.append(f"{tag}{step + 1}\t{rate}\t{7 - number / count:.3f}\n")
    size, offset, found = count // UPDATES, 0, []
    for first in range(0, count, size):
        data = "".join(lines[first : first + size]).encode()
        found.append(Chunk(data, offset, offset + len(data), False))
        offset += len(data)
    return found


def live_view() -> Callable[[Records], None]:
    """Appends the records to a live view and sends what its page lacks."""
    settings, model = Settings(), JobModel()
    id = workspace_id(settings).child(Kind.EXPERIMENT, "default").child(Kind.JOB, "chart")
    view = JobStream(Job(open_backend(settings), id), model, work=lambda task: task())
    KernelWidget(view)
    page.say_ready()

    def update(records: Records) -> None:
        model.take(MetricsAdded(id, records))
        while view.send_next(400_000):
            pass

    return update


def picture() -> Callable[[Records], None]:
    """Draws all records so far with matplotlib: one figure, its lines changed, saved as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5))
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 1)
    lines = [ax.plot([], [])[0] for ax in axes]
    steps: list[int] = []
    values: tuple[list[float], list[float]] = ([], [])

    def update(records: Records) -> None:
        for line in lines_of(records):
            steps.append(line[0].step or 0)
            values[0].append(line[0].value)
            values[1].append(line[3].value)
        for ax, line, value in zip(axes, lines, values, strict=True):
            line.set_data(steps, value)
            ax.relim()
            ax.autoscale_view()
        figure.savefig(io.BytesIO(), format="png")

    return update


if __name__ == "__main__":
    print(table(rows()))
