"""Working directories on the nodes' own disks: collected at the end of a run, however that comes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.errors import UsageError
from batchai_magics.models.job_execution import WORKDIR
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.job_files import first_error, number
from tests.backends.slurm.real_slurm import RealSlurm
from tests.contract.place import HOLD, Place, PlaceOptions
from tests.contract.places import place_on
from tests.world import processes_of, until

pytestmark = pytest.mark.slow
SAVE = "pwd > part; mv part file-$PMI_RANK; echo up"


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """Where the disks of all nodes are: they are one machine."""
    return tmp_path / "disks"


@pytest.fixture
def place(slurm: RealSlurm, tmp_path: Path, disks: Path) -> Iterator[Place]:
    with place_on(slurm, tmp_path, PlaceOptions(), scratch=str(disks)) as place:
        yield place


def limited(place: Place, **settings: object) -> Place:
    """The same place with other settings."""
    return replace(place, backend=SlurmBackend(replace(place.backend.settings, **settings)))


def folders(place: Place, job) -> list[str]:
    """The working directory that each rank was in, by the files that were collected."""
    listed = place.backend.files(job.id, WORKDIR)
    files = [file for node in listed for file in place.backend.files(job.id, WORKDIR, node.path)]
    return [place.backend.read(FileRef(job.id, file.path, WORKDIR)).data.decode().strip() for file in files]


def test_a_job_that_slurm_cancels_loses_no_file(place, disks, slurm):
    id = place.start_ranks(f"{SAVE}; exec sleep 1000", count=2)
    until(lambda: place.log(id).count(b"up") == 2)
    slurm.ask("scancel", number(place, id))
    job = place.wait(id)
    assert job.state is ExecutionState.FAILED
    guid = job.output_path_segment.rpartition("/")[2]
    nodes = [f"{disks}/batchai-{guid}/{name}" for name in sorted(rank.node for rank in job.ranks)]
    until(lambda: folders(place, job) == nodes)
    until(lambda: list(disks.iterdir()) == [])


def test_a_job_whose_program_was_killed_tells_where_its_files_are(place, disks):
    place.is_up(id := place.start(f"touch model.pt; {HOLD}"))
    for process in processes_of(disks.parent):
        with contextlib.suppress(psutil.NoSuchProcess):  # one that has just ended
            if any("slurm.node.run_job" in word for word in process.cmdline()):
                process.kill()
    lost, left = place.wait(id).execution.errors
    (file,) = disks.glob("*/*/*")
    assert (lost.code, left.code) == ("JobSupervisorLost", "FilesLeftBehind")
    assert f"in {file.parent}: the node did not tell that they were copied" in left.message


def test_what_is_beyond_the_limit_stays_on_the_node_and_is_told(place, disks):
    place = limited(place, scratch_limit_mib=1)
    job = place.run(
        "head -c 900K /dev/zero > old; touch -d 2001-01-01 old; head -c 600K /dev/zero > new; echo x > x"
    )
    node = job.ranks[0].node
    assert [file.name for file in place.backend.files(job.id, WORKDIR, node)] == ["new", "x"]
    (left,) = disks.glob("*/*/*")
    error = first_error(job)
    assert (job.state, error.code) == (ExecutionState.SUCCEEDED, "FilesLeftBehind")
    text = f"1 file (0.9 MiB) was left on {node}, in {left.parent}: slurm.scratch_limit_mib allows no more"
    assert error.message == text
    assert text in place.log(job.id, "execution.log").decode()
    assert left.name == "old"


def test_a_scratch_folder_may_be_named_by_variables_of_the_nodes(place, disks):
    place = limited(place, scratch=f"{disks}/$SLURM_JOB_PARTITION/of-$USER_OF_TEST")
    job = place.run("true")
    assert first_error(job).code == "JobLaunchFailed"
    assert "slurm.scratch: $USER_OF_TEST is not set on " in first_error(job).message
    place = limited(place, scratch=f"{disks}/$SLURM_JOB_PARTITION")
    assert place.log(place.run("pwd", "second").id).startswith(f"{disks}/".encode())


def test_a_relative_scratch_folder_is_refused_by_name(place):
    with pytest.raises(UsageError, match=r"setting slurm\.scratch: 'scratch' is not an absolute path"):
        replace(place.backend.settings, scratch="scratch").check()
