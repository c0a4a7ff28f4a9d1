"""What one supervisor may write of its job, and what nobody else may."""

from __future__ import annotations

import os

import pytest

from batchai_magics.backends.local import process
from batchai_magics.backends.node.outcome import failed_with, stopped
from batchai_magics.launch.outcome import Outcome
from tests.backends.local.local_reports import is_assigned, is_open, started, writer_of
from tests.backends.local.still import Still, dead

pytestmark = pytest.mark.slow

ENDED = ("succeeded", "failed")


@pytest.mark.parametrize("is_alive", [True, False])
def test_nobody_claims_a_job_that_has_another_supervisor(still: Still, is_alive: bool) -> None:
    other = process.identity(os.getppid()) if is_alive else dead()
    job, writer = started(still, supervisor=other)
    assert not writer.claim()
    assert still.state(job)["supervisor"] == other


@pytest.mark.parametrize("state", ENDED)
def test_nobody_claims_or_begins_a_job_that_has_ended(still: Still, state: str) -> None:
    job, writer = started(still, state=state)
    assert not writer.claim()
    assert not writer.begin()
    assert not is_open(writer)
    assert still.state(job)["state"] == state


def test_nobody_claims_a_later_run_of_the_job(still: Still) -> None:
    job, _ = started(still)
    earlier = writer_of(still, "another run")
    assert not earlier.claim()
    assert not is_open(earlier)
    assert not is_assigned(earlier)
    earlier.finish(failed_with("JobFailed", "it is another one"))
    assert still.state(job)["state"] == "queued"


def test_what_has_ended_stays_as_it_ended(still: Still) -> None:
    job, writer = started(still)
    writer.finish(Outcome(0))
    before = tuple(still.state(job))
    writer.finish(failed_with("JobSupervisorLost", "too late"))
    writer.finish(stopped("requeue"))
    assert tuple(still.state(job)) == before
