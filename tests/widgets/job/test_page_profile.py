"""The button that profiles a job: what the kernel replies."""

from __future__ import annotations

import pytest

from batchai_magics import cell
from batchai_magics.jobs.submit import submit
from batchai_magics.widgets.job.page_requests import RequestHandler
from tests.patience import PATIENCE_S
from tests.world import World, until

pytestmark = pytest.mark.slow
QUESTION = {"kind": "profile", "id": "q1"}


def test_why_there_is_no_profile_is_told_without_keeping_the_page_waiting(world: World) -> None:
    request = cell.parse("ended", "print('hello')", settings=world.settings)
    handler = RequestHandler(submit(world.backend, request, world.settings).job.wait(PATIENCE_S))
    assert handler.handle({**QUESTION, "begin": True}).content.keys() >= {"kind", "id"}
    reply = until(
        lambda: (
            (content := handler.handle({**QUESTION, "begin": False}).content)
            and not content.get("is_running")
            and content
        )
    )
    assert reply["text"] == "job ended is not running (succeeded); only a running job can be profiled"
