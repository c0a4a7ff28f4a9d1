"""The button that runs a job once more: what the kernel does then."""

from __future__ import annotations

import pytest

from batchai_magics import cell
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.submit import submit
from batchai_magics.widgets.job.page_requests import RequestHandler
from tests.patience import PATIENCE_S
from tests.world import World

pytestmark = pytest.mark.slow
QUESTION = {"kind": "again", "id": "q1"}


def job_of(world: World, line: str, **env: str):
    request = cell.parse(line, "print('hello')", settings=world.settings, notebook=cell.Notebook(env=env))
    return submit(world.backend, request, world.settings).job.wait(PATIENCE_S)


def test_a_job_is_run_again_under_the_next_name_and_its_view_is_made(world: World) -> None:
    job, opened = job_of(world, "resnet --metric 'loss=loss: ([0-9.]+)'"), []

    def open_job(made):
        opened.append(made)
        return "the model"

    answers = RequestHandler(job, JobModel(), open_job)
    content = answers.handle(QUESTION).content
    assert content == {"kind": "reply", "id": "q1", "text": "resnet-2 was submitted", "model": "the model"}
    (made,) = opened
    assert (made.wait(PATIENCE_S).log(), made.patterns) == ("hello\n", job.patterns)
    assert made.show().spec == job.show().spec


def test_a_secret_that_is_not_there_is_named(world: World, monkeypatch) -> None:
    monkeypatch.delenv("TOKEN", raising=False)
    answers = RequestHandler(
        job_of(world, "resnet --secret TOKEN", TOKEN="t0p"), JobModel(), lambda made: "the model"
    )
    content = answers.handle(QUESTION).content
    assert "needs the secrets TOKEN, which are not stored" in content["text"]
    assert content["model"] == ""
    monkeypatch.setenv("TOKEN", "t0p")
    assert answers.handle(QUESTION).content["text"] == "resnet-2 was submitted"


def test_a_view_that_can_open_none_runs_nothing_again(world: World) -> None:
    job = job_of(world, "resnet")
    assert RequestHandler(job, JobModel()).handle(QUESTION).content["model"] == ""
    assert world.backend.names(job.id.parent, job.id.kind) == ["resnet"]
