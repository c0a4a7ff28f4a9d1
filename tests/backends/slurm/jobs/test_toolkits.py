"""Ranks on two nodes of a real Slurm: what they are told, and that they are one world or none runs."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace

import pytest

from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.models.states import ExecutionState
from tests.contract.place import MOUNTED, Place, PlaceOptions
from tests.contract.places import PLACES

pytestmark = pytest.mark.slow
SHOW = """
import json, os
names = ("AZ_", "MASTER_", "WORLD_SIZE", "RANK", "OMP_NUM_THREADS", "BATCHAI_")
told = {name: text for name, text in os.environ.items() if name.startswith(names)}
numbers = {name: told.get(name) for name in ("WORLD_SIZE", "RANK", "AZ_BATCHAI_TASK_INDEX")}
folders = sorted(name for name in told if os.path.isdir(told[name]))
hosts = len(open(told["AZ_BATCHAI_MPI_HOST_FILE"]).read().split())
print(json.dumps([sorted(told), numbers, folders, hosts]), flush=True)
"""
SCRIPT = {"pythonScriptFilePath": f"{MOUNTED}/show.py"}
TOOLKITS = {
    "pyTorchSettings": {**SCRIPT, "processCount": 4},
    "horovodSettings": {**SCRIPT, "processCount": 4},
}


def rank_environments(place: Place, toolkit: str) -> list[object]:
    """What each process of a job of two nodes was told."""
    place.backend.storage.upload(place.share, {"show.py": SHOW.encode()})
    fields = {"customToolkitSettings": None, toolkit: TOOLKITS[toolkit]}
    outputs = [{"id": "MODEL", "pathPrefix": MOUNTED}]
    inputs = [{"id": "DATA", "path": MOUNTED}]
    job = place.run(name=toolkit, nodeCount=2, outputDirectories=outputs, inputDirectories=inputs, **fields)
    assert job.state is ExecutionState.SUCCEEDED, place.log(job.id, "stderr.txt")
    return sorted((json.loads(line) for line in place.log(job.id).splitlines()), key=str)


def test_processes_are_told_what_the_local_backend_tells_them(place, tmp_path):
    with PLACES["local"].open(tmp_path / "here", PlaceOptions()) as here:
        for toolkit in TOOLKITS:
            assert rank_environments(place, toolkit) == rank_environments(here, toolkit)


SUM = (
    "from mpi4py import MPI; import sys; c = MPI.COMM_WORLD;"
    'sys.stdout.write(f"{c.size} {c.allreduce(1)}\\n")'  # one piece: mpiexec passes on pieces of lines
)


@pytest.mark.parametrize("mpi", ["pmix", "none"])
def test_ranks_are_one_world_or_none_runs_and_the_plugins_are_named(place, slurm, mpi):
    with closing(SlurmBackend(replace(place.backend.settings, mpi=mpi))) as backend:
        command = {"commandLine": f"python -c '{SUM}'", "processCount": 4}
        spec = place.spec(nodeCount=2, customToolkitSettings=None, customMpiSettings=command)
        backend.create(place.job(), spec)
        job = place.wait(place.job())
    log = place.log(job.id)
    if job.state is ExecutionState.SUCCEEDED:  # where a PMIx is installed with which Slurm works
        assert (mpi, log) == ("pmix", b"4 4\n" * 4)
    else:
        (error,) = job.execution.errors
        assert (error.code, log) == ("JobLaunchFailed", b"")
        named = error.message.partition(f"slurm.mpi: {mpi}. This Slurm has these plugins: ")[2].split(", ")
        assert "pmi2" in named, error
        assert all(plugin in slurm.ask("srun", "--mpi=list").split() for plugin in named), error
