"""Opens pages of jobs and recordings, and exports recordings as HTML: the port `user_ports.PAGES`.

The stream of an open page is the frames that its HTTP response sends.
"""

from __future__ import annotations

import base64
import html
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from batchai_magics.errors import StorageError
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.widgets.core import pages
from batchai_magics.widgets.core.cell_output import EmbeddedOutput, RunInBackground
from batchai_magics.widgets.core.flow_control import Budget
from batchai_magics.widgets.core.polled_model import PageData
from batchai_magics.widgets.core.publisher import Publisher
from batchai_magics.widgets.hosts.page_server import PageServer
from batchai_magics.widgets.hosts.recorder import BYTES_PER_S, MESSAGES_PER_S, record, settings_report
from batchai_magics.widgets.hosts.recording_file import check_recording, read_recording
from batchai_magics.widgets.job.job_stream import JobStream, followed_job
from batchai_magics.widgets.job.message_batch import Batch

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job


__all__ = ["export_html", "open_job", "open_recording", "record", "settings_report"]

STATIC_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{style}</style>
</head>
<body class="ba-page"><main id="view"></main>
<script type="module">
import widget from "data:text/javascript;base64,{script}";
const recording = "data:application/gzip;base64,{recording}";
const model = {{ get: (name) => (name === "recording" ? recording : undefined) }};
widget().render({{ model, el: document.getElementById("view") }});
</script>
</body>
</html>
"""


def open_job(job: Job) -> PageServer:
    """Serves a job's live view until the server is closed."""
    job.show()  # raises NotFoundError for a deleted job
    publisher = Publisher(budget=Budget(messages_per_s=MESSAGES_PER_S, bytes_per_s=BYTES_PER_S)).start()

    def connect() -> PageStream:
        model = publisher.model(job.id.key, lambda: followed_job(job))
        stream = PageStream(job, model, work=publisher.run_in_background)
        publisher.add(EmbeddedOutput(job.id.key, model, stream))
        return stream

    return PageServer(connect=connect, on_close=publisher.close).start()


def open_recording(path: Path) -> PageServer:
    """Serves the replay of a recording until the server is closed."""
    check_recording(path)
    return PageServer(recording=read_recording(path)).start()


def export_html(recording: Path, target: Path) -> Path:
    """Writes a page that replays a recording, in one file without references."""
    name = check_recording(recording)["name"]
    page = STATIC_PAGE.format(
        title=html.escape(str(name)),
        style=pages.style().replace("</", "<\\/"),
        script=_base64(pages.script().encode()),
        recording=_base64(read_recording(recording)),
    )
    try:
        part = target.with_name(f".{target.name}.part")
        part.write_text(page, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror}") from error
    return target


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


IDLE_S = 5.0  # without a message, after which an empty one shows whether the page is still there


class PageStream(JobStream):
    """What one page is sent. `frames` ends with `close`."""

    def __init__(self, job: Job, model: JobModel, *, work: RunInBackground) -> None:
        super().__init__(job, model, work=work, schedule=lambda call: call())
        self._frames: SimpleQueue[bytes | None] = SimpleQueue()
        self._is_closed = False
        self.publish_state({**self.state, "is_first": True})

    def transmit(self, message: Batch) -> None:
        """Queues a message for the page."""
        self._frames.put(frame({"content": message.content}, *message.buffers))

    def publish_state(self, state: PageData) -> None:
        """Queues parts of the state for the page."""
        self._frames.put(frame({"state": {"is_first": False, **state}}))

    @property
    def is_gone(self) -> bool:
        """Whether the page is gone."""
        return self._is_closed

    def close(self) -> None:
        """Ends `frames`."""
        self._is_closed = True
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
