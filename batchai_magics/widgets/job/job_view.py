"""The anywidget model of a job's live view: small state as traits, log and points as binary messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from batchai_magics.jobs.job_model import JobModel
from batchai_magics.widgets.core.flow_control import main_loop_scheduler
from batchai_magics.widgets.core.live_view import LiveView
from batchai_magics.widgets.core.view_stream import RunInBackground
from batchai_magics.widgets.job.job_stream import JobStream
from batchai_magics.widgets.job.page_requests import OpenJob

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job


class JobView(JobStream, LiveView):
    """The live view in a notebook: the kernel carries what it is sent."""

    facts = traitlets.Dict().tag(sync=True)
    counts = traitlets.Dict().tag(sync=True)
    history: traitlets.List[Any] = traitlets.List().tag(sync=True)
    files: traitlets.List[str] = traitlets.List().tag(sync=True)
    profile = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        job: Job,
        model: JobModel,
        *,
        view_id: str,
        work: RunInBackground,
        open_job: OpenJob | None = None,
    ) -> None:
        JobStream.__init__(self, job, model, work=work, schedule=main_loop_scheduler(), open_job=open_job)
        self.open_model("job_view", view_id)
