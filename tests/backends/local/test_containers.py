"""Jobs in real containers: the image's files, the job's folders and variables, and nothing left behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

from batchai_magics.backends.node import containers
from batchai_magics.models.states import ExecutionState
from tests.backends.local.boxes import IMAGE, submit
from tests.world import PATIENCE_S, World, below, until


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
def test_ranks_in_containers_of_two_nodes_compute_together(boxes: World, mpi_image: str) -> None:
    script = """
from mpi4py import MPI
import os
world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
whole = world.allgather(bytes(1 << 20))  # too much for one message
near = world.Split_type(MPI.COMM_TYPE_SHARED).size
print(world.rank, "of", world.size, "sum", total, len(whole), near, os.path.exists("/etc/os-release"))
"""
    boxes.backend.storage.make("batchaishare")
    boxes.backend.storage.upload("batchaishare", {"t.py": script.encode()})
    settings = {
        "pythonScriptFilePath": "$AZ_BATCHAI_MOUNT_ROOT/autoafs/t.py",
        "pythonInterpreterPath": sys.executable,
        "processCount": 4,
    }
    box = {"imageSourceRegistry": {"image": mpi_image}, "shmSize": "1g"}
    job = submit(
        boxes, "", nodeCount=2, customToolkitSettings=None, horovodSettings=settings, containerSettings=box
    )
    job.wait(PATIENCE_S)
    assert job.state is ExecutionState.SUCCEEDED, [job.log(file=file.name) for file in job.files()]
    assert sorted(job.log().splitlines()) == [f"{rank} of 4 sum 10 4 2 False" for rank in range(4)]
    assert "warning: shmSize is not used" in job.log(file=f"execution-{job.ranks()[0].node}.log")


@pytest.mark.slow
def test_a_terminated_container_is_gone(boxes: World, engine: str) -> None:
    job = submit(boxes, "echo up; trap '' TERM; while true; do sleep 1; done")
    until(lambda: job.log() == "up\n")
    job.cancel()
    job.wait(PATIENCE_S)
    left = subprocess.run([*engine.split(), "ps", "-aq"], capture_output=True, text=True, check=True).stdout
    assert left == ""
    until(lambda: not below(boxes.home))


@pytest.mark.slow
def test_without_an_engine_the_job_runs_on_the_host_and_says_so(world: World, monkeypatch) -> None:
    monkeypatch.setattr(containers, "ENGINES", ())
    job = submit(world, "echo on the host").wait(PATIENCE_S)
    assert job.log() == "on the host\n"
    assert f"warning: no docker, podman or apptainer works here: image {IMAGE}" in job.log(
        file="execution.log"
    )
