"""Why a job failed, the same wherever it ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics import cell
from batchai_magics.commands.handlers.job_wait import watch_job
from batchai_magics.commands.output.command_progress import LogOutput
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.submit import submit
from tests.contract.place import Place
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]
FAILS = """
import os
def load(batch):
    import helper
print("step 1", flush=True)
load({})
"""


@pytest.mark.sample
def test_an_exception_is_told_with_its_rank_its_line_of_the_cell_and_what_the_notebook_has(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "helper.py").touch()
    notebook = cell.Notebook(names={"lr": 0.1}, folder=tmp_path)
    request = cell.parse("bad --nodes 1", FAILS, settings=place.settings, notebook=notebook)
    job = submit(place.backend, request, place.settings).job.wait(PATIENCE_S)
    error = job.error
    assert error is not None
    missing = "ModuleNotFoundError: No module named 'helper'"
    assert (error.rank, error.place, error.exception) == (0, "cell line 5", missing)
    assert error.hints[0].endswith("add --upload helper.py")
    assert error.exit_code == job.exit_code == 1
    assert error.sentence in repr(job)
    assert '  File "bad.py", line 4, in load  ← line 5 of the cell' in error.lines
    parts = watch_job(place.backend, job.id, logs=(error.log,))
    printed = b"".join(part.data for part in parts if isinstance(part, LogOutput))
    assert b'  File "bad.py", line 4, in load\n' in printed


@pytest.mark.needs("preparation")
def test_a_failed_preparation_is_told_with_its_output(place: Place) -> None:
    job = place.run(jobPreparation={"commandLine": "echo begin; echo no such package >&2; exit 3"})
    error = Job(place.backend, job.id).error
    assert error is not None
    assert "no such package" in error.sentence
    assert error.lines[-1] == "no such package"


@pytest.mark.needs("hidden_secrets")
def test_the_error_has_no_secret(place: Place) -> None:
    secrets = [{"name": "TOKEN", "value": "hunter2hunter2"}]
    job = place.run('echo "RuntimeError: $TOKEN" >&2; exit 1', secrets=secrets)
    error = Job(place.backend, job.id).error
    assert error is not None
    assert error.lines == (f"RuntimeError: {'*' * 14}",)
    assert "hunter2" not in str(error.to_data())
