"""The stream of one open page of a job: frames that its HTTP response sends."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from batchai_magics.widgets.core.cell_output import RunInBackground
from batchai_magics.widgets.core.feed import PageData
from batchai_magics.widgets.job.job_feed import JobFeed
from batchai_magics.widgets.job.job_stream import JobStream
from batchai_magics.widgets.job.message_batch import Batch

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job

IDLE_S = 5.0  # without a message, after which an empty one shows whether the page is still there


class PageStream(JobStream):
    """What one page is sent. `frames` ends with `finish`."""

    def __init__(self, job: Job, feed: JobFeed, *, work: RunInBackground) -> None:
        super().__init__(job, feed, work=work, schedule=lambda call: call())
        self._frames: SimpleQueue[bytes | None] = SimpleQueue()
        self.is_finished = False
        self.publish_state({**self.state, "is_first": True})

    def transmit(self, message: Batch) -> None:
        """Queues a message for the page."""
        self._frames.put(frame({"content": message.content}, *message.buffers))

    def publish_state(self, state: PageData) -> None:
        """Queues parts of the state for the page."""
        self._frames.put(frame({"state": {"is_first": False, **state}}))

    def finish(self) -> None:
        """Ends `frames`."""
        self.is_finished = True
        self._frames.put(None)

    def frames(self) -> Iterator[bytes]:
        """The frames to send, as they come; blocks between them."""
        while True:
            try:
                data = self._frames.get(timeout=IDLE_S)
            except Empty:
                data = frame({"state": {"is_first": False}})
            if data is None:
                return
            yield data


def frame(header: PageData, *buffers: bytes) -> bytes:
    """The length of a header, the header as JSON with the lengths of the buffers, the buffers."""
    text = json.dumps({**header, "buffers": list(map(len, buffers))}, default=float).encode()
    return b"".join((struct.pack(">I", len(text)), text, *buffers))
