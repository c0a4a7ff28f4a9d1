"""A real podman for tests, with an image of its own, and worlds whose jobs run in its containers."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.local.cluster_rows import Limits
from batchai_magics.jobs.handle import Job
from batchai_magics.models.job import JobSpec
from tests.world import World

IMAGE = "localhost/ours:1"
# The plainest podman there is: it needs neither overlay file systems nor cgroups of its own.
PODMAN = (
    "podman --storage-driver vfs --cgroup-manager cgroupfs --runtime runc --root {0}/pod --runroot {0}/run"
)
PROGRAMS = ("bash", "cat", "env", "sleep", "touch")


@pytest.fixture(scope="session")
def podman(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A podman with an image made of a few programs of this machine."""
    if not (shutil.which("podman") and shutil.which("runc")):
        pytest.skip("podman and runc are not installed")
    folder = tmp_path_factory.mktemp("podman")
    command = PODMAN.format(folder)
    archive = folder / "image.tar"
    with tarfile.open(archive, "w") as tar:
        for path in sorted(files_of(PROGRAMS)):
            tar.add(path.resolve(), f".{path}")
        (folder / "in-the-image").write_text("yes\n")
        tar.add(folder / "in-the-image", "./in-the-image")
    done = subprocess.run(
        [*command.split(), "import", str(archive), "ours:1"], capture_output=True, text=True
    )
    tried = [*command.split(), "run", "--rm", "--network=host", *LIMITS, IMAGE, "/bin/bash", "-c", "true"]
    if done.returncode or subprocess.run(tried, capture_output=True).returncode:
        pytest.skip(f"podman cannot run containers here: {done.stderr[-200:]}")
    return command


LIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096")


def files_of(programs: tuple[str, ...]) -> set[Path]:
    """The programs, at /bin, and the libraries that they need."""
    found: set[Path] = set()
    for program in programs:
        place = Path(shutil.which(program) or program)
        listed = subprocess.run(
            ["ldd", str(place.resolve())], capture_output=True, text=True, check=True
        ).stdout
        found |= {Path(word) for word in listed.split() if word.startswith("/")}
        found.add(Path("/bin") / program)
    return found


@pytest.fixture
def boxes(podman: str, tmp_path: Path) -> Iterator[World]:
    wrapper = tmp_path / "podman"  # takes the limits that this machine's runc wants
    run = f'if [ "$1" = run ]; then shift; exec {podman} run {" ".join(LIMITS)} "$@"; fi'
    wrapper.write_text(f'#!/bin/bash\n{run}\nexec {podman} "$@"\n')
    wrapper.chmod(0o755)
    made = World(tmp_path / "home", limits=Limits(container_command=str(wrapper)))
    yield made
    made.close()


def submit(world: World, command: str, name: str = "j", **fields: object) -> Job:
    properties = {
        "cluster": {"id": str(world.cluster)},
        "nodeCount": 1,
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs",
        "containerSettings": {"imageSourceRegistry": {"image": IMAGE}},
        "customToolkitSettings": {"commandLine": command},
        **fields,
    }
    world.backend.create(world.job_id(name), JobSpec.from_wire({"properties": properties}))
    return Job(world.backend, world.job_id(name))
