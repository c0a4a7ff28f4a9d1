"""Who uses it: an ordinary user, two kernels at once, the quickstart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.backends.local.namespace import scene, tell
from tests.backends.slurm.real_slurm import MPI_ENV, RealSlurm, running, skip_reason
from tests.contract.place import HOLD, Place, PlaceOptions
from tests.contract.places import place_on
from tests.notebooks.quickstart import short_quickstart
from tests.patience import NOTEBOOK_TIMEOUTS
from tests.world import until

pytestmark = pytest.mark.slow
AS_NOBODY = ("unshare", "-Um", "--map-user=65534", "--map-group=65534")


def jobs_of_an_ordinary_user(folder: Path) -> None:
    """A Slurm and a job of two nodes, all of a user without rights."""
    with (
        running(RealSlurm, folder / "slurm", count=2) as slurm,
        place_on(slurm, folder, PlaceOptions()) as place,
    ):
        job = place.wait(place.start_ranks("id -u", count=4))
        tell(job.state.value, place.log(job.id).decode().split())


def test_an_ordinary_user_needs_no_rights(tmp_path: Path) -> None:
    if reason := skip_reason():
        pytest.skip(reason)
    told = scene(jobs_of_an_ordinary_user, tmp_path, who=AS_NOBODY)
    assert told == [["succeeded", ["65534"] * 4]]


def test_variables_for_slurms_commands_hide_no_job_and_no_node(place: Place, monkeypatch) -> None:
    monkeypatch.setenv("SQUEUE_STATES", "SUSPENDED")
    monkeypatch.setenv("SQUEUE_PARTITION", "none")
    monkeypatch.setenv("SINFO_PARTITION", "none")
    monkeypatch.setenv("SCANCEL_STATE", "SUSPENDED")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    first, second = place.start(HOLD, "first", nodeCount=2), place.start(HOLD, "second", nodeCount=2)
    place.has(place.cluster, running=2)
    until(lambda: "expects it to start" in place.backend.show(second).waiting)
    place.backend.terminate(first)
    until(lambda: place.backend.show(second).is_running)
    until(lambda: place.backend.show(first).is_cancelled)


def test_the_quickstart_runs(slurm: RealSlurm, tmp_path: Path) -> None:
    notebook = short_quickstart(tmp_path)
    env = {
        **os.environ,
        **MPI_ENV,
        "BATCHAI_BACKEND": "slurm",
        "BATCHAI_SLURM_HOME": str(tmp_path / "home"),
        "BATCHAI_SLURM_CONF": str(slurm.conf),
    }
    line = [sys.executable, "-m", "jupyter", "nbconvert", "--execute", "--to", "notebook"]
    patience = [f"--ExecutePreprocessor.{name}={seconds}" for name, seconds in NOTEBOOK_TIMEOUTS.items()]
    where = ["--inplace", *patience]
    done = subprocess.run(
        [*line, *where, str(notebook)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    executed = nbformat.read(notebook, as_version=4)
    shown = "".join(str(cell.get("outputs")) for cell in executed.cells)
    assert "total images/sec" in shown
    (told,) = (tmp_path / "home").glob(f"asked/nodes-{os.getuid()}-*.json")
    assert "node1" in told.read_text()
