"""A shared folder without a free byte: jobs end and are cancelled as ever, and none is half submitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.errors import StorageError
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.real_slurm import RealSlurm
from tests.contract.place import HOLD, Place, PlaceOptions
from tests.contract.places import place_on
from tests.small_disk import SmallDisk
from tests.world import processes_of, until

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """What the shared folder lies on."""
    made = SmallDisk(tmp_path / "small")
    yield made
    made.close()


@pytest.fixture
def place(slurm: RealSlurm, disk: SmallDisk) -> Iterator[Place]:
    """A place whose shared folder can be filled."""
    with place_on(slurm, disk.folder, PlaceOptions()) as place:
        yield place
        disk.free()


def test_ranks_whose_output_finds_no_room_in_time_end_and_the_job_says_why(place, slurm, disk, tmp_path):
    """The grace runs out while they run."""
    backend = SlurmBackend(replace(place.backend.settings, disk_grace_s=1.0))
    impatient = replace(place, backend=backend)
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    prints = "while :; do echo 0123456789012345678901234567890123456789; done"
    id = impatient.start_ranks(f"echo up; {wait}; {prints}", count=2)
    until(lambda: impatient.log(id).count(b"up") == 2)
    disk.fill()
    (tmp_path / "go").touch()
    until(slurm.is_idle)
    job = impatient.wait(id)
    assert (job.state, job.execution.errors[0].code) == (ExecutionState.FAILED, "DiskFull")
    until(lambda: not processes_of(disk.folder / "home"))


def test_the_first_rank_to_fail_is_named_though_the_share_was_full(place, disk, tmp_path):
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    fail = f"[ $PMI_RANK = 0 ] || {{ echo $$ > {tmp_path}/pid; echo late; exit 7; }}"
    id = place.start_ranks(f"echo up; {wait}; {fail}; exec sleep 1000", count=2)
    until(lambda: place.log(id) == b"up\nup\n")
    disk.fill()
    (tmp_path / "go").touch()
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    until(lambda: not psutil.pid_exists(int((tmp_path / "pid").read_text())))
    assert place.backend.show(id).state is ExecutionState.RUNNING
    disk.free()
    job = place.wait(id)
    assert (job.state, job.execution.exit_code) == (ExecutionState.FAILED, 7)
    slurm_client = {detail.name: detail.value for detail in job.execution.errors[0].details}
    assert (slurm_client["failedRank"], slurm_client["failedNode"]) == ("1", "node2")
    assert sorted(place.log(id).splitlines()) == [b"late", b"up", b"up"]


def test_jobs_are_cancelled_while_the_share_is_full(place, slurm, disk):
    running = place.start(HOLD)
    place.is_up(running)
    waiting = place.start(name="waiting", nodeCount=2)
    disk.fill()
    for id in (waiting, running):
        place.backend.terminate(id)
    until(slurm.is_idle)
    ends = [place.wait(id) for id in (waiting, running)]
    assert [job.execution.errors[0].code for job in ends] == ["JobTerminated"] * 2
    place.backend.delete(waiting)
    assert [job.id for job in place.backend.list(place.experiment, Kind.JOB)] == [running]


def test_a_job_for_which_there_is_no_room_is_refused_with_the_folder_and_what_to_do(place, slurm, disk):
    disk.fill()
    with pytest.raises(StorageError, match=str(disk.folder / "home")) as caught:
        place.start()
    assert (caught.value.code, "slurm.home" in str(caught.value.hint)) == ("DiskFull", True)
    assert slurm.is_idle()
    assert not list(place.backend.list(place.experiment, Kind.JOB))
    assert not list((disk.folder / "home").glob("jobs/*"))
    disk.free()
    assert place.run().state is ExecutionState.SUCCEEDED


def test_a_job_that_begins_while_the_share_is_full_says_so(place, slurm, disk):
    first = place.start(HOLD, nodeCount=2)
    place.is_up(first)
    second = place.start(name="second")
    disk.fill()
    place.backend.terminate(first)
    until(slurm.is_idle)
    job = place.wait(second)
    assert job.execution.errors[0].code == "DiskFull"
