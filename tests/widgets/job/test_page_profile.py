"""The button that profiles a job: what the kernel replies, and what all views of the job show."""

from __future__ import annotations

import threading

import pytest

from batchai_magics import cell
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.submit import submit
from batchai_magics.widgets.job.job_header import profile_fields
from batchai_magics.widgets.job.page_requests import RequestHandler
from tests.patience import PATIENCE_S
from tests.world import World, until

pytestmark = pytest.mark.slow
QUESTION = {"kind": "profile", "id": "q1"}


def test_why_there_is_no_profile_is_told_in_all_views_of_the_job(world: World) -> None:
    request = cell.parse("ended", "print('hello')", settings=world.settings)
    model = JobModel()
    handler = RequestHandler(submit(world.backend, request, world.settings).job.wait(PATIENCE_S), model)
    model.note_profile(is_profiling=True)
    assert handler.handle(QUESTION).content["text"] == ""  # another view's profile is this one's
    assert "batchai-profile" not in [thread.name for thread in threading.enumerate()]
    assert (model.is_profiling, model.profile_fault) == (True, "")
    model.note_profile(fault="")
    assert handler.handle(QUESTION).content == {"kind": "reply", "id": "q1", "text": ""}
    until(lambda: not model.is_profiling)
    told = "job ended is not running (succeeded); only a running job can be profiled"
    assert profile_fields(model) == {"is_running": False, "text": told}
