"""What a look at a job tells, taken apart for tests."""

from __future__ import annotations

import threading

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import StorageError
from batchai_magics.follow import LogBytes, MetricsAdded, StateChanged
from tests.metrics.log_text import step_lines
from tests.widgets.scripted_job import JOB, step_line

STDOUT = FileRef(JOB, "stdout.txt")


class Pauses(threading.Event):
    """What stops a loop, with a function in place of each wait."""

    def __init__(self, wait):
        super().__init__()
        self._wait = wait

    def wait(self, timeout=None):
        self._wait(timeout)
        return self.is_set()


def steps(news):
    seen = [record for event in news if isinstance(event, MetricsAdded) for record in event.records]
    return [(record.step, record.rank) for record in step_lines(seen)]


def plain_step(step):
    return step_line(step).partition(":")[2]


def log(news):
    return [(e.file.path, e.chunk.data, e.restarted) for e in news if isinstance(e, LogBytes)]


def states(news):
    return [event.job.state.value for event in news if isinstance(event, StateChanged)]


def cut(backend, text, file="stdout.txt"):
    (backend.folder / file).write_text(text)


def failing(*_, **__):
    raise StorageError("not now")
