"""Jobs in real containers: the image's files, the job's folders and variables, and nothing left behind."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.local import containers
from batchai_magics.backends.local.cluster_rows import Limits
from batchai_magics.errors import CapabilityError
from batchai_magics.jobs.handle import Job
from batchai_magics.models.container import ContainerSettings
from batchai_magics.models.job import ExecutionState, JobSpec
from tests.world import PATIENCE_S, World, below, until

IMAGE = "localhost/ours:1"
# The plainest podman there is: it needs neither overlay file systems nor cgroups of its own.
PODMAN = (
    "podman --storage-driver vfs --cgroup-manager cgroupfs --runtime runc --root {0}/pod --runroot {0}/run"
)
PROGRAMS = ("bash", "cat", "env", "sleep", "touch")


@pytest.fixture(scope="module")
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
    wrapper = tmp_path / "engine"  # takes the limits that this machine's runc wants
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


@pytest.mark.slow
def test_a_job_sees_its_image_and_its_mounts_and_variables(boxes: World) -> None:
    command = (
        "cat /in-the-image; echo $COLOUR > $AZ_BATCHAI_MOUNT_ROOT/autoafs/colour; echo $BASH_VERSION >&2"
    )
    variables = [{"name": "COLOUR", "value": "red"}]
    job = submit(boxes, command, environmentVariables=variables).wait(PATIENCE_S)
    assert (job.state, job.log()) == (ExecutionState.SUCCEEDED, "yes\n"), job.log(file="stderr.txt")
    assert boxes.backend.storage.download("batchaishare", "colour") == b"red\n"


@pytest.mark.slow
def test_exit_codes_and_preparation_are_those_inside(boxes: World) -> None:
    preparation = {"commandLine": "cat /in-the-image > $AZ_BATCHAI_SHARED_JOB_TEMP/prepared"}
    job = submit(boxes, "cat $AZ_BATCHAI_SHARED_JOB_TEMP/prepared; exit 9", jobPreparation=preparation)
    assert (job.wait(PATIENCE_S).exit_code, job.log()) == (9, "yes\n")


@pytest.mark.slow
def test_secrets_reach_the_container_by_name_only(boxes: World) -> None:
    job = submit(boxes, "echo ${#TOKEN}; sleep 1", secrets=[{"name": "TOKEN", "value": "hush-hush"}])
    until(lambda: job.log())
    import psutil

    lines = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if "hush-hush" in line]
    assert job.wait(PATIENCE_S).log() == "9\n"


@pytest.mark.slow
def test_a_terminated_container_is_gone(boxes: World, podman: str) -> None:
    job = submit(boxes, "echo up; trap '' TERM; while true; do sleep 1; done")
    until(lambda: job.log() == "up\n")
    job.cancel()
    job.wait(PATIENCE_S)
    left = subprocess.run([*podman.split(), "ps", "-aq"], capture_output=True, text=True, check=True).stdout
    assert left == ""
    until(lambda: not below(boxes.settings.home))


@pytest.mark.slow
def test_without_an_engine_the_job_runs_on_the_host_and_says_so(world: World, monkeypatch) -> None:
    monkeypatch.setattr(containers, "ENGINES", ())
    job = submit(world, "echo on the host").wait(PATIENCE_S)
    assert job.log() == "on the host\n"
    assert f"warning: no docker, podman or apptainer works here: image {IMAGE}" in job.log(
        file="execution.log"
    )


def test_shared_memory_and_private_registries_are_named_on_the_line() -> None:
    wire = {"imageSourceRegistry": {"image": "tf:1", "serverUrl": "https://me.azurecr.io"}, "shmSize": "4g"}
    settings = ContainerSettings.from_wire(wire)
    box = containers.Box(("docker",), settings, "n", [Path("/data dir")], ["A"])
    words = box.command("echo 'x y'")
    assert words.startswith(
        "exec docker run --rm --network=host --name=n --shm-size=4g '--volume=/data dir:/data dir'"
    )
    assert words.endswith("""--workdir="$PWD" me.azurecr.io/tf:1 /bin/bash -c 'echo '"'"'x y'"'"''""")


def test_registry_credentials_are_refused_by_name(world: World) -> None:
    source = {"image": "x", "credentials": {"username": "me", "password": "hush"}}
    with pytest.raises(CapabilityError, match=r"imageSourceRegistry\.credentials"):
        submit(world, "true", containerSettings={"imageSourceRegistry": source})
