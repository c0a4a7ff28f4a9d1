"""Opens pages of jobs and recordings, and exports recordings as HTML; `jobs.job_pages` calls it by name."""

from __future__ import annotations

import base64
import html
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.errors import StorageError
from batchai_magics.widgets.core import pages
from batchai_magics.widgets.core.flow_control import Budget
from batchai_magics.widgets.core.publisher import Publisher
from batchai_magics.widgets.hosts.page_server import PageServer
from batchai_magics.widgets.hosts.page_stream import PageStream
from batchai_magics.widgets.hosts.recorder import BYTES_PER_S, MESSAGES_PER_S, record, settings_report
from batchai_magics.widgets.hosts.recording_file import check_recording
from batchai_magics.widgets.hosts.stream_output import StreamOutput
from batchai_magics.widgets.job.job_feed import open_feed

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
        feed = publisher.feed(job.id.key, lambda: open_feed(job))
        stream = PageStream(job, feed, work=publisher.run_in_background)
        publisher.add(StreamOutput(job, feed, stream))
        return stream

    return PageServer(connect=connect).start()


def open_recording(path: Path) -> PageServer:
    """Serves the replay of a recording until the server is closed."""
    check_recording(path)
    return PageServer(recording=path.read_bytes()).start()


def export_html(recording: Path, target: Path) -> Path:
    """Writes a page that replays a recording, in one file without references."""
    name = check_recording(recording)["name"]
    page = STATIC_PAGE.format(
        title=html.escape(str(name)),
        style=pages.style().replace("</", "<\\/"),
        script=_base64(pages.script().encode()),
        recording=_base64(recording.read_bytes()),
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
