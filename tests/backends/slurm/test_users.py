"""Who uses it: an ordinary user, two kernels at once, the quickstart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.local.namespace import scene, tell
from tests.backends.slurm.real_slurm import RealSlurm, running, skip_reason
from tests.contract.place import HOLD, PlaceOptions
from tests.contract.places import place_on
from tests.world import until

pytestmark = pytest.mark.slow
AS_NOBODY = ("unshare", "-Um", "--map-user=65534", "--map-group=65534")


def jobs_of_an_ordinary_user(folder: Path) -> None:
    """A Slurm and a job of two nodes, all of a user without rights."""
    with (
        running(RealSlurm, folder / "slurm", count=2) as slurm,
        place_on(slurm, folder, PlaceOptions()) as place,
    ):
        job = place.wait(place.start_ranks("id -u", count=4))
        tell(job.state.value, place.log(job.id).decode().split())


def test_an_ordinary_user_needs_no_rights(tmp_path):
    if reason := skip_reason():
        pytest.skip(reason)
    told = scene(jobs_of_an_ordinary_user, tmp_path, who=AS_NOBODY)
    assert told == [["succeeded", ["65534"] * 4]]


def test_variables_for_slurms_commands_hide_no_job_and_no_node(place, monkeypatch):
    monkeypatch.setenv("SQUEUE_STATES", "SUSPENDED")
    monkeypatch.setenv("SQUEUE_PARTITION", "none")
    monkeypatch.setenv("SINFO_PARTITION", "none")
    monkeypatch.setenv("SCANCEL_STATE", "SUSPENDED")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    first, second = place.start(HOLD, "first", nodeCount=2), place.start(HOLD, "second", nodeCount=2)
    place.has(place.cluster, running=2)
    until(lambda: "expects it to start" in place.backend.show(second).waiting)
    place.backend.terminate(first)
    until(lambda: place.backend.show(second).is_running)
    until(lambda: place.backend.show(first).is_cancelled)
