"""A job that is told to end has time to save, the same on every backend, and can be killed before that."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_logs import saving_text
from batchai_magics.models.states import ExecutionState
from tests.contract.place import Place
from tests.contract.places import PLACES
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("engine")]

# It takes as long to save as the test wants.
SAVER = """
import os, signal, sys, time

def save(*_):
    print("saving", flush=True)
    while not os.path.exists({path!r}):
        time.sleep(0.05)
    print("saved", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(1000)
"""
STUBBORN = """
import signal, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(1000)
"""
RANKS = "--nodes 2 --processes 2 --toolkit pytorch"


def lines_of(job: Job) -> list[str]:
    return job.log().split()


def is_up(job: Job, count: int = 1) -> None:
    until(lambda: lines_of(job).count("up") == count)


@pytest.mark.sample
@pytest.mark.needs("own_termination")
def test_a_cancelled_job_has_time_to_save_unless_somebody_insists(place: Place, tmp_path: Path) -> None:
    job = place.submit(f"j --grace 10m {RANKS}", SAVER.format(path=str(tmp_path / "go")))
    is_up(job, 2)
    place.backend.terminate(job.id)
    until(lambda: lines_of(job).count("saving") == 2)
    assert job.show().state is ExecutionState.TERMINATING
    place.backend.terminate(job.id)  # as a client repeats it
    (tmp_path / "go").touch()
    assert place.wait(job.id).is_cancelled
    assert lines_of(job).count("saved") == 2
    other = place.submit("other --grace 1h", STUBBORN)
    is_up(other)
    other.cancel()
    until(lambda: other.show().state is ExecutionState.TERMINATING)
    other.cancel()
    assert place.wait(other.id).is_cancelled


@pytest.mark.decided_by("nodes")
@pytest.mark.sample
def test_a_job_at_its_time_limit_has_time_to_save_and_is_killed_when_its_grace_is_over(
    place: Place, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    job = place.submit("j --grace 10m --max-time 10s", SAVER.format(path=str(tmp_path / "go")))
    other = place.submit("other --grace 1s", STUBBORN)
    is_up(other)
    place.backend.terminate(other.id)
    if PLACES[request.node.callspec.params["place"]].has("state_at_time_limit"):
        until(lambda: saving_text(job.show()) == "saving, up to 10 min")
    until(lambda: "saving" in lines_of(job))
    (tmp_path / "go").touch()
    ended = place.wait(job.id)
    assert (ended.has_failed, ended.execution.errors[0].code) == (True, "JobMaxWallClockTimeReached")
    assert "saved" in lines_of(job)
    assert place.wait(other.id).is_cancelled
