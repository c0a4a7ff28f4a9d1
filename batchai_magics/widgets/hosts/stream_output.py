"""The publisher's output for a stream that no cell shows, such as a plain page or a recording."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from batchai_magics.jobs.job_model import JobModel
from batchai_magics.widgets.core.cell_output import CellOutput, WaitFor
from batchai_magics.widgets.core.display import EMPTY, Bundle

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job


class OpenStream(Protocol):
    """What an output needs of a stream."""

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is to be sent."""

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if any, of about `limit_bytes` at most; returns its size in bytes."""

    def finish(self) -> None:
        """Called once, when it is finished or the publisher ends."""


class StreamOutput(CellOutput):
    """Sends a stream until it is finished."""

    def __init__(self, job: Job, feed: JobModel, stream: OpenStream) -> None:
        super().__init__(job.id.key, feed, clock=time.monotonic)
        self.stream = stream

    def open(self) -> None:
        """Does nothing: no cell shows it."""

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self.stream.is_finished:
            self.close()
            return 0
        return self.stream.send_next(limit_bytes)

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Does nothing: no cell shows it."""

    def _render(self) -> Bundle:
        return EMPTY

    def _freeze(self) -> int:
        self.is_frozen = True
        self.stream.finish()
        return 0
