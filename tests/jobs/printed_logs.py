"""The two logs of a job as a script prints them, and how they are read: live, and after the job has ended."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from batchai_magics.backends.base import Chunk, FileRef, Span, WriteTime
from batchai_magics.follow import MetricsAdded
from batchai_magics.follow.metric_streams import MetricStreams
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.metrics.runs.log_records import in_time_order
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from tests.widgets.scripted_job import JOB

OUT, ERR = "stdout.txt", "stderr.txt"


@dataclass(frozen=True)
class Print:
    """A text that a script prints at a time, and the rank that prints it; None if that is not known."""

    file: str
    time: float
    text: str
    rank: int | None = None


class Logs:
    """The two logs of a job, of which parts are read."""

    def __init__(self):
        self.streams, self._ends = MetricStreams({}), {OUT: 0, ERR: 0}

    def read(self, file, prints):
        start, data, times, spans = self._ends[file], b"", [], []
        for each in prints:
            begin = start + len(data)
            data += each.text.encode()
            times.append(WriteTime(begin, each.time))
            spans += [Span(begin, start + len(data), each.rank)] if each.rank is not None else []
        self._ends[file] = end = start + len(data)
        return tuple(self.streams.feed(file, Chunk(data, start, end, False, tuple(spans), tuple(times))))


def fed(parts):
    """A feed that has taken these parts of the logs, one a poll."""
    logs, feed = Logs(), JobModel()
    for file, prints in parts:
        feed.take(MetricsAdded(JOB, logs.read(file, prints), FileRef(JOB, file)))
        feed.poll_ended()
    feed.take(MetricsAdded(JOB, logs.streams.finish()))
    feed.end()
    return feed


def by_file(prints):
    return [(file, [each for each in prints if each.file == file]) for file in (OUT, ERR)]


def lines_of(feed):
    """The points of each line on the page by what it is called: the mean over ranks of their last values."""
    found = {}
    for name, values in feed.numbers.series.items():
        steps, ranks, column, *_ = values.columns(0, len(values))
        columns = zip(
            np.frombuffer(steps, np.float64),
            np.frombuffer(ranks, np.int32),
            np.frombuffer(column, np.float32),
            strict=True,
        )
        points = defaultdict(dict)
        for step, rank, value in columns:
            points[float(step)][int(rank)] = float(value)
        label = feed.numbers.labels.get(name, name)
        found[label] = {step: round(sum(of.values()) / len(of), 4) for step, of in sorted(points.items())}
    return found


def records_of(prints):
    """The records of the ended job, as `job.records()` reads them."""
    logs = Logs()
    parts = [logs.read(file, of) for file, of in by_file(prints)]
    return list(in_time_order([*parts, logs.streams.finish()]))


def expected_lines(records, axis):
    lines = {}
    for metric in RunMetrics(records).values():
        curves = metric.curves(axis)
        for curve in curves:
            is_named = len(curves) > 1 and curve.name
            lines[f"{metric.name} ({curve.name})" if is_named else metric.name] = {
                position: round(value, 4) for position, value in curve.points.items()
            }
    return lines
