"""Jobs in real containers: the image's files, the job's folders and variables, and nothing left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.states import ExecutionState
from tests.backends.local.boxes import IMAGE
from tests.contract.place import Place
from tests.patience import PATIENCE_S
from tests.world import processes_of, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.decided_by("nodes"),
    pytest.mark.needs("containers"),
    pytest.mark.needs("container_engine"),
    pytest.mark.usefixtures("engine"),
]


def submit(place: Place, command: str, **fields: object) -> Job:
    box = {"containerSettings": {"imageSourceRegistry": {"image": IMAGE}}}
    return Job(place.backend, place.start(command, **{**box, **fields}))


@pytest.mark.sample
def test_a_job_sees_its_image_and_its_mounts_and_variables(place: Place) -> None:
    command = (
        "cat /in-the-image; echo $COLOUR > $AZ_BATCHAI_MOUNT_ROOT/autoafs/colour; echo $BASH_VERSION >&2"
    )
    variables = [{"name": "COLOUR", "value": "red"}]
    job = submit(place, command, environmentVariables=variables).wait(PATIENCE_S)
    assert (job.state, job.log()) == (ExecutionState.SUCCEEDED, "yes\n"), job.log(file="stderr.txt")
    assert place.backend.storage.download(place.share, "colour") == b"red\n"


def test_exit_codes_and_preparation_are_those_inside(place: Place) -> None:
    preparation = {"commandLine": "cat /in-the-image > $AZ_BATCHAI_SHARED_JOB_TEMP/prepared"}
    job = submit(place, "cat $AZ_BATCHAI_SHARED_JOB_TEMP/prepared; exit 9", jobPreparation=preparation)
    assert (job.wait(PATIENCE_S).exit_code, job.log()) == (9, "yes\n")


def test_secrets_reach_the_container_by_name_only(place: Place) -> None:
    job = submit(place, "echo ${#TOKEN}; sleep 1", secrets=[{"name": "TOKEN", "value": "hush-hush"}])
    until(lambda: job.log())
    lines = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if "hush-hush" in line]
    assert job.wait(PATIENCE_S).log() == "9\n"


@pytest.mark.decided_by("engine")
def test_ranks_in_containers_of_two_nodes_compute_together(place: Place, mpi_image: str) -> None:
    script = """
from mpi4py import MPI
import os
world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
whole = world.allgather(bytes(1 << 20))  # too much for one message
near = world.Split_type(MPI.COMM_TYPE_SHARED).size
print(world.rank, "of", world.size, "sum", total, len(whole), near, os.path.exists("/etc/os-release"))
"""
    place.backend.storage.make(place.share)
    place.backend.storage.upload(place.share, {"t.py": script.encode()})
    settings = {
        "pythonScriptFilePath": "$AZ_BATCHAI_MOUNT_ROOT/autoafs/t.py",
        "pythonInterpreterPath": sys.executable,
        "processCount": 4,
    }
    box = {"imageSourceRegistry": {"image": mpi_image}, "shmSize": "1g"}
    job = submit(
        place, "", nodeCount=2, customToolkitSettings=None, horovodSettings=settings, containerSettings=box
    )
    job.wait(PATIENCE_S)
    assert job.state is ExecutionState.SUCCEEDED, [job.log(file=file.name) for file in job.files()]
    assert sorted(job.log().splitlines()) == [f"{rank} of 4 sum 10 4 2 False" for rank in range(4)]
    assert "warning: shmSize is not used" in job.log(file=f"execution-{job.ranks()[0].node}.log")


@pytest.mark.needs("early_restart")
def test_a_run_whose_container_is_killed_continues(place: Place, engine: str) -> None:
    kept = "$BATCHAI_CHECKPOINT_DIR/last"
    command = f"cat {kept}; echo $BATCHAI_ATTEMPT > {kept}; echo up; [ $BATCHAI_ATTEMPT = 2 ] || sleep 1000"
    job = submit(place, command, batchaiMaxRestarts=1)
    until(lambda: job.log() == "up\n")
    listed = [*engine.split(), "ps", "--quiet"]  # a container may print before it is listed
    (container,) = until(
        lambda: subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
    )
    subprocess.run([*engine.split(), "kill", container], capture_output=True, check=True)
    assert job.wait(PATIENCE_S).exit_code == 0
    first, second = job.attempts()
    assert first.reason == "a container of it was killed"
    assert job.log() == f"up\n[batchai] attempt 2 begins on {second.nodes[0]}: {first.reason}\n1\nup\n"


@pytest.mark.decided_by("engine")
def test_a_terminated_container_is_gone(place: Place, engine: str, tmp_path: Path) -> None:
    job = submit(place, "echo up; trap '' TERM; while true; do sleep 1; done", batchaiGrace="PT2S")
    until(lambda: job.log() == "up\n")
    job.cancel()
    job.wait(PATIENCE_S)
    left = subprocess.run([*engine.split(), "ps", "-aq"], capture_output=True, text=True, check=True).stdout
    assert left == ""
    until(lambda: not processes_of(tmp_path / "home"))
