"""The notebook of run records: a preempted run continues, and what it records. Here and on a real Slurm."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.job_files import number
from tests.backends.slurm.real_slurm import SOON, RealSlurm, running, skip_reason
from tests.contract.place import PlaceOptions
from tests.contract.places import place_on
from tests.notebooks.test_tutorials import NOTEBOOKS, Tutorial, settings_of
from tests.server.clients import python_of
from tests.world import until

pytestmark = pytest.mark.slow
NAME = "06_run_records.ipynb"


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Tutorial]:
    """The notebook after a run, with TensorBoard installed beside the package."""
    python, place = python_of("tensorboard"), tmp_path
    paths = subprocess.run([python, "-c", "import sys; print(sys.path[-1])"], capture_output=True, text=True)
    with settings_of("local", place) as settings:
        yield Tutorial(NAME, place, {**settings, "PYTHONPATH": paths.stdout.strip()})


def test_a_preempted_run_continues_and_its_records_are_compared_and_exported(records: Tutorial) -> None:
    first, second = records.text("attempts").splitlines()
    assert re.fullmatch(r"attempt 1 on (\S+): its node \1 was preempted", first)
    assert second.startswith("attempt 2 on ")
    begins = records.numbers("log", r"attempt \d starts at step (\d+)")
    assert begins[0] == 1
    assert begins[1] > 80
    assert records.text("steps").strip() == "300 True"
    assert re.match(r"step-300/weights.npy \d+ \w{12} attempt 2", records.text("artifacts"))
    assert records.numbers("artifacts", r"(\d)\. ?") == [0, 1, 2, 3, 4, 5, 6, 7]
    assert "undisturbed" in records.text("tagged")
    assert "disturbed" not in records.text("tagged").replace("undisturbed", "")
    assert all(name in records.text("compare") for name in ("undisturbed", "disturbed"))
    assert re.findall(r"^(\w+) \['loss'\] (\d+)", records.text("tensorboard"), re.MULTILINE) == [
        ("disturbed", "300"),
        ("undisturbed", "300"),
    ]


@pytest.mark.skipif(bool(skip_reason()), reason=skip_reason())
def test_the_notebooks_script_continues_on_a_real_slurm(tmp_path: Path) -> None:
    cells = {cell.id: cell.source for cell in nbformat.read(NOTEBOOKS / NAME, as_version=4).cells}
    script = cells["script"].partition("\n")[2] + "\n\ntrain(rate=0.02)\n"
    with (
        running(RealSlurm, tmp_path / "slurm", count=2, more=SOON) as slurm,
        place_on(slurm, tmp_path, PlaceOptions()) as place,
    ):
        place.backend.storage.upload(place.share, {"train.py": script.encode()})
        fields = {"batchaiMaxRestarts": 9, "batchaiSlurm": "--time=1", "batchaiSignalBefore": "PT41S"}
        id = place.start("python3 $AZ_BATCHAI_MOUNT_ROOT/autoafs/train.py", **fields)
        until(lambda: place.backend.show(id).attempts)
        # Where a start takes long, another minute would not suffice for the other steps.
        slurm.ask("scontrol", "update", f"jobid={number(place, id)}", "timelimit=60")
        job = place.wait(id)
        assert job.state is ExecutionState.SUCCEEDED
        lines = place.log(id).decode().splitlines()
        steps = [json.loads(line)["step"] for line in lines if line.startswith("{")]
        said = [lines[-3:], job.attempts, place.log(id, "execution.log").decode()]
        assert steps == list(range(1, 301)), said
        begins = [int(found) for found in re.findall(r"starts at step (\d+)", "\n".join(lines))]
        assert 1 < begins[1] < 300
