"""The anywidget model of a job's live view: small state as traits, log and points as binary messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from batchai_magics.jobs.job_model import JobModel
from batchai_magics.widgets.core import pages
from batchai_magics.widgets.core.cell_output import RunInBackground
from batchai_magics.widgets.core.feed import PageData
from batchai_magics.widgets.core.flow_control import main_loop_scheduler
from batchai_magics.widgets.job.job_stream import JobStream
from batchai_magics.widgets.job.message_batch import Batch
from batchai_magics.widgets.job.page_requests import OpenJob

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job


class JobView(JobStream, anywidget.AnyWidget):
    """The live view in a notebook: the kernel carries what it is sent."""

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    view_id = traitlets.Unicode().tag(sync=True)
    facts = traitlets.Dict().tag(sync=True)
    counts = traitlets.Dict().tag(sync=True)
    history: traitlets.List[Any] = traitlets.List().tag(sync=True)
    files: traitlets.List[str] = traitlets.List().tag(sync=True)

    def __init__(
        self,
        job: Job,
        feed: JobModel,
        *,
        view_id: str,
        work: RunInBackground,
        open_job: OpenJob | None = None,
    ) -> None:
        JobStream.__init__(self, job, feed, work=work, schedule=main_loop_scheduler(), open_job=open_job)
        anywidget.AnyWidget.__init__(
            self, _esm=pages.script(), _css=pages.style(), view_id=view_id, **self.state
        )
        self.on_msg(lambda _widget, content, _buffers: self.receive(content))
        self._forget_route()

    def transmit(self, message: Batch) -> None:
        """Sends a message to the page."""
        self.send(message.content, message.buffers)
        self._forget_route()

    def publish_state(self, state: PageData) -> None:
        """Replaces the state that the page has, by name."""
        with self.hold_sync():
            for name, value in state.items():
                setattr(self, name, value)
        self._forget_route()

    def _forget_route(self) -> None:
        """Restores the routing of the page's messages to the subshell that it chose.

        ipykernel 7.4 routes them to the event loop that published last. For the publisher's thread that is
        the main loop, which receives nothing while a cell runs.
        """
        self.comm.__dict__.pop("_reply_subshell_id", None)
