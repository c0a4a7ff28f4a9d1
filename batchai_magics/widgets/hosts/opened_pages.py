"""Opens pages of jobs and recordings, and exports recordings as HTML: the port `user_ports.PAGES`."""

from __future__ import annotations

import base64
import html
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, unquote

from batchai_magics.backends.base import Backend
from batchai_magics.backends.base.backend_registry import load_settings
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.jobs.sweeps.sweep_handle import Sweep
from batchai_magics.metrics import compare
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.widgets.comparison import comparison_output, sweep_view
from batchai_magics.widgets.comparison.comparison_view import ComparisonStream
from batchai_magics.widgets.comparison.sweep_view import SweepStream
from batchai_magics.widgets.core import pages
from batchai_magics.widgets.core.cell_output import EmbeddedOutput
from batchai_magics.widgets.core.flow_control import Budget
from batchai_magics.widgets.core.publisher import Publisher
from batchai_magics.widgets.core.view_stream import PolledModel, ViewStream
from batchai_magics.widgets.dashboards.jobs_dashboard import AllJobsModel, JobsStream
from batchai_magics.widgets.hosts.page_server import PageConnection, PageServer
from batchai_magics.widgets.hosts.recorder import BYTES_PER_S, MESSAGES_PER_S, record, settings_report
from batchai_magics.widgets.hosts.recording_file import check_recording, read_recording
from batchai_magics.widgets.job.job_view import JobStream, follow_job

__all__ = ["export_html", "open_job", "open_jobs", "open_recording", "record", "settings_report"]

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


def open_job(job: Job, *, is_read_only: bool = False) -> PageServer:
    """Serves the live views of a job and of its backend's other jobs until the server is closed."""
    job.show()  # raises NotFoundError for a deleted job
    views = OpenedViews(job.backend, job.id.parent, is_read_only=is_read_only)
    return views.serve(f"/job/{quote(views.jobs.name_of(job.id), safe='')}")


def open_jobs(backend: Backend, home: ResourceId, *, is_read_only: bool = False) -> PageServer:
    """Serves the list of all jobs of a backend, and their live views, until the server is closed.

    Jobs of the experiment `home` are called by their names alone.
    """
    views = OpenedViews(backend, home, is_read_only=is_read_only)
    views.jobs.poll()  # raises the error of a backend that cannot list jobs
    return views.serve("/")


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


class OpenedViews:
    """The views of a backend's jobs, each with an address; one publisher follows what the open pages show.

    `is_read_only` refuses requests that change anything, and takes no steps of sweeps.
    """

    def __init__(self, backend: Backend, home: ResourceId, *, is_read_only: bool) -> None:
        self.jobs = AllJobsModel(backend, home)
        """Kept while pages show something else, so that logs are read once."""
        self._backend, self._is_read_only = backend, is_read_only
        budget = Budget(messages_per_s=MESSAGES_PER_S, bytes_per_s=BYTES_PER_S)
        self._publisher = Publisher(budget=budget)

    def serve(self, address: str) -> PageServer:
        """Serves them until the server is closed; its page opens at an address."""
        self._publisher.start()
        return PageServer(connect=self.connect, address=address, on_close=self._publisher.close).start()

    def connect(self, address: str) -> PageConnection:
        """The view at `/`, `/job/NAME`, `/compare/NAME/NAME` or `/sweep/NAME`; names are percent-encoded.

        Raises:
            NotFoundError: There is no such view, or what it shows does not exist.
        """
        kind, *names = [unquote(part) for part in address.strip("/").split("/")]
        work, clock = self._publisher.run_in_background, self._publisher.clock
        if not kind and not names:
            key = f"jobs {self.jobs.id.key}"
            jobs = self._publisher.model(key, lambda: self.jobs)
            return self._add(key, jobs, JobsStream(jobs, work=work, clock=clock))
        if kind == "compare" and names:
            runs = [Job(self._backend, self.jobs.id_of(name)) for name in names]
            comparison = compare(runs, preferences=metric_preferences())
            key, model = comparison_output.shared_model(comparison, self._publisher)
            return self._add(key, model, ComparisonStream(model, work=work, clock=clock))
        if kind == "job" and len(names) == 1:
            job = Job(self._backend, self.jobs.id_of(names[0]))
            job_model = self._publisher.model(job.id.key, lambda: follow_job(job))
            view = JobStream(
                job,
                job_model,
                work=work,
                open_job=lambda submitted: self.jobs.name_of(submitted.id),
                is_read_only=self._is_read_only,
            )
            return self._add(job.id.key, job_model, view)
        if kind == "sweep" and len(names) == 1:
            id = self.jobs.id_of(names[0])
            settings = replace(load_settings(), subscription=id.subscription, resource_group=id.group)
            settings = replace(settings, workspace=id.workspace, experiment=id.experiment)
            sweep = Sweep.find(self._backend, id.name, settings)
            takes_steps = not self._is_read_only
            key, sweep_model = sweep_view.shared_model(sweep, self._publisher, takes_steps=takes_steps)
            return self._add(key, sweep_model, SweepStream(sweep_model, work=work, clock=clock))
        raise NotFoundError(f"There is no page {address}.")

    def _add(self, key: str, model: PolledModel, view: ViewStream) -> PageConnection:
        connection = PageConnection(view)
        self._publisher.add(EmbeddedOutput(key, model, view))
        return connection
