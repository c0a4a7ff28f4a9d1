"""The notebook of run records: a preempted run continues, and what it records."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebooks.test_tutorials import Tutorial, settings_of
from tests.server.clients import python_of

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
