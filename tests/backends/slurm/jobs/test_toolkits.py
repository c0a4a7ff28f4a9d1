"""Ranks of MPI, and others, on two nodes of a real Slurm: they are told what local ones are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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


def test_processes_are_told_what_the_local_backend_tells_them(place: Place, tmp_path: Path) -> None:
    with PLACES["local"].open(tmp_path / "here", PlaceOptions()) as here:
        for toolkit in TOOLKITS:
            assert rank_environments(place, toolkit) == rank_environments(here, toolkit)
