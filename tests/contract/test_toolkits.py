"""Toolkits that need more than MPI: their processes meet, and servers end when the work is done."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from batchai_magics.backends.node import mpi_launchers
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.states import ExecutionState
from tests.contract.place import Place
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]


def run(place: Place, script: str, **settings: object) -> Job:
    place.put("t.py", script)
    fields = {"nodeCount": 2, "customToolkitSettings": None, **settings}
    return Job(place.backend, place.start(**fields)).wait(PATIENCE_S)


PATH = "$AZ_BATCHAI_MOUNT_ROOT/autoafs/files/t.py"


# The workers are done when the server has written its line: otherwise it may be ended before that.
SERVER_AND_WORKERS = """
import json, os, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
print(task["type"], task["index"], flush=True)
is_up = os.path.join(os.environ["AZ_BATCHAI_SHARED_JOB_TEMP"], "server-is-up")
if task["type"] == "ps":
    open(is_up, "w").close()
    time.sleep(1000)
while not os.path.exists(is_up):
    time.sleep(0.01)
"""


@pytest.mark.decided_by("engine")
@pytest.mark.sample
@pytest.mark.needs("shared_job_folder")
def test_parameter_servers_have_files_and_are_ended_when_the_workers_are_done(place: Place) -> None:
    job = run(place, SERVER_AND_WORKERS, tensorFlowSettings={"pythonScriptFilePath": PATH})
    assert (job.state, job.exit_code) == (ExecutionState.SUCCEEDED, 0)
    assert sorted(job.log().splitlines()) == ["master 0", "ps 0", "worker 0"]
    names = [file.path for file in place.backend.files(job.id) if file.path.startswith("stdout-")]
    assert {name: place.log(job.id, name).decode() for name in names} == {
        "stdout-ps-0.txt": "ps 0\n",
        "stdout-wk-0.txt": "master 0\n",
        "stdout-wk-1.txt": "worker 0\n",
    }


@pytest.mark.decided_by("engine")
def test_pytorch_processes_meet_at_the_given_address_and_get_their_arguments(place: Place) -> None:
    """As torch's own gloo and `init_process_group` do it: rank 0 listens, the others come and add up."""
    script = """
import os, socket, sys, time, urllib.parse
place = urllib.parse.urlsplit(os.environ["AZ_BATCHAI_PYTORCH_INIT_METHOD"])
assert (place.hostname, str(place.port)) == (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
rank, size = int(os.environ["AZ_BATCHAI_TASK_INDEX"]), int(os.environ["WORLD_SIZE"])
assert rank == int(os.environ["RANK"]) and sys.argv[1:] == ["--shard", str(rank)]
if rank == 0:
    with socket.create_server((place.hostname, place.port)) as server:
        others = [server.accept()[0] for _ in range(size - 1)]
        total = 1 + sum(int(other.recv(10)) for other in others)
        for other in others:
            other.sendall(b"%d" % total)
else:
    while True:
        try:
            mine = socket.create_connection((place.hostname, place.port))
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    mine.sendall(b"%d" % (rank + 1))
    total = int(mine.recv(10))
print(place.scheme, rank, "of", size, os.environ["LOCAL_RANK"], total)
"""
    settings = {"pythonScriptFilePath": PATH, "commandLineArgs": "--shard $AZ_BATCHAI_TASK_INDEX"}
    several = {**settings, "communicationBackend": "gloo", "processCount": 4}
    job = run(place, script, pyTorchSettings=several)
    told = [f"tcp {rank} of 4 {rank % 2} 10" for rank in range(4)]
    assert sorted(job.log().splitlines()) == told, job.log(file="stderr.txt")


def test_a_failing_worker_ends_the_others(place: Place) -> None:
    script = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(5)\ntime.sleep(1000)"
    job = run(place, script, pyTorchSettings={"pythonScriptFilePath": PATH})
    assert (job.exit_code, job.ranks()[0].rank) == (5, 1)


@pytest.mark.decided_by("engine")
@pytest.mark.needs("remote_start")
@pytest.mark.needs("mpi")
def test_a_custom_command_can_start_mpi_itself(place: Place) -> None:
    script = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
    command = f"mpirun -n 3 --hostfile $AZ_BATCHAI_MPI_HOST_FILE python {PATH}"
    job = run(place, script, customToolkitSettings={"commandLine": command})
    # The job's own mpirun forwards pieces of lines: what glues there is the job's affair.
    assert job.log().replace("\n", "") == "333", job.log(file="stderr.txt")


RECIPE = "mpirun -n 3 --hostfile $AZ_BATCHAI_MPI_HOST_FILE -mca btl self,tcp --allow-run-as-root "


@pytest.mark.needs("open_mpi")
@pytest.mark.skipif(not mpi_launchers.find_open_mpi(), reason="Open MPI is not installed")
def test_open_mpis_options_run_open_mpi(place: Place) -> None:
    command = RECIPE + "bash -c 'echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE'"
    job = run(place, "", customToolkitSettings={"commandLine": command})
    assert sorted(job.log().splitlines()) == ["0 of 3", "1 of 3", "2 of 3"], job.log(file="stderr.txt")


@pytest.mark.needs("open_mpi")
def test_open_mpis_options_without_open_mpi_are_explained(place: Place, monkeypatch, tmp_path) -> None:
    for folder in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in folder.glob("*"):
            if not program.name.startswith(("mpirun", "orterun")):
                with contextlib.suppress(FileExistsError):
                    (tmp_path / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    job = run(place, "", nodeCount=1, customToolkitSettings={"commandLine": RECIPE + "true"})
    assert job.state is ExecutionState.FAILED
    (note,) = [d.value for d in job.show().execution.errors[0].details if d.name == "note"]
    assert "Open MPI" in note
    assert note in job.log(file="execution.log")
