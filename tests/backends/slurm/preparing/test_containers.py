"""Jobs in real containers on the nodes of a real Slurm; refused by name where nothing runs any."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.slurm import preparation
from batchai_magics.backends.slurm.backend import SlurmBackend
from batchai_magics.errors import CapabilityError
from batchai_magics.models.states import ExecutionState
from tests.backends.local.boxes import (
    IMAGE,
    MPI_IMAGE,
    PROGRAMS,
    files_of,
    files_of_python,
    limited,
    make_image,
)
from tests.contract.place import MOUNTED, Place
from tests.world import below, until

BOX = {"containerSettings": {"imageSourceRegistry": {"image": IMAGE}}}
SCRIPT = """
from mpi4py import MPI
import os
world = MPI.COMM_WORLD
near = world.Split_type(MPI.COMM_TYPE_SHARED).size
print(world.rank, "of", world.size, "sum", world.allreduce(world.rank + 1), os.path.exists("/etc/os-release"))
"""


@pytest.fixture
def boxed(place: Place, podman: str, tmp_path: Path) -> Iterator[Place]:
    """A place whose jobs run in podman's containers."""
    settings = replace(place.backend.settings, container_command=str(limited(podman, tmp_path)))
    with closing(SlurmBackend(settings)) as backend:
        yield replace(place, backend=backend)


@pytest.mark.slow
def test_a_job_sees_its_image_and_its_mounts_and_its_exit_code_counts(boxed: Place) -> None:
    prepare = {"commandLine": "cat /in-the-image > $AZ_BATCHAI_SHARED_JOB_TEMP/prepared"}
    command = f"cat $AZ_BATCHAI_SHARED_JOB_TEMP/prepared; cat /in-the-image > {MOUNTED}/kept; exit 9"
    job = boxed.run(command, jobPreparation=prepare, **BOX)
    assert job.execution.exit_code == 9, boxed.log(job.id, "stderr.txt")
    assert (boxed.log(job.id), boxed.stored("kept")) == (b"yes\n", "yes\n")


@pytest.mark.slow
def test_ranks_in_containers_of_two_nodes_compute_together(boxed: Place, podman: str, tmp_path: Path) -> None:
    files = {**files_of(PROGRAMS), **files_of_python("mpi4py.MPI")}
    assert not make_image(podman, MPI_IMAGE, files, tmp_path / "image.tar")
    boxed.backend.storage.upload(boxed.share, {"t.py": SCRIPT.encode()})
    settings = {
        "pythonScriptFilePath": f"{MOUNTED}/t.py",
        "pythonInterpreterPath": sys.executable,
        "processCount": 4,
    }
    box = {"containerSettings": {"imageSourceRegistry": {"image": MPI_IMAGE}}}
    job = boxed.run(nodeCount=2, customToolkitSettings=None, horovodSettings=settings, **box)
    assert job.state is ExecutionState.SUCCEEDED, boxed.log(job.id, "stderr.txt")
    lines = sorted(boxed.log(job.id).decode().splitlines())
    assert lines == [f"{rank} of 4 sum 10 False" for rank in range(4)]
    assert {rank.node for rank in job.ranks} == {"node1", "node2"}


@pytest.mark.slow
def test_a_terminated_container_is_gone(boxed: Place, podman: str, tmp_path: Path) -> None:
    id = boxed.start("echo up; trap '' TERM; while true; do sleep 1; done", **BOX)
    boxed.is_up(id)
    boxed.backend.terminate(id)
    assert boxed.wait(id).is_cancelled
    left = subprocess.run([*podman.split(), "ps", "-aq"], capture_output=True, text=True, check=True).stdout
    assert left == ""
    until(lambda: not below(tmp_path / "home"))


def test_containers_are_refused_by_name_where_nothing_runs_them() -> None:
    with pytest.raises(CapabilityError, match=r"properties\.containerSettings .* no apptainer.* or podman"):
        preparation.container_engine("", has_credentials=False, has=lambda _: False)


@pytest.mark.parametrize(
    ("configured", "there", "engine"),
    [
        ("", {"podman", "apptainer"}, ("apptainer",)),
        ("", {"podman", "enroot"}, ("enroot",)),
        ("singularity --quiet", set(), ("singularity", "--quiet")),
        ("host", {"apptainer"}, ()),
    ],
)
def test_what_was_set_or_is_there_runs_them(
    configured: str, there: set[str], engine: tuple[str, ...]
) -> None:
    assert preparation.container_engine(configured, has_credentials=False, has=there.__contains__) == engine


def test_a_password_for_an_image_is_refused_by_name() -> None:
    with pytest.raises(CapabilityError, match=r"imageSourceRegistry\.credentials"):
        preparation.container_engine("podman", has_credentials=True, has=bool)
