"""Jobs in real containers: the image's files, the job's folders and variables, and nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batchai_magics import cell, cli
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.node import containers
from batchai_magics.jobs import submit as submission
from batchai_magics.jobs.job_overview import job_overview
from batchai_magics.jobs.submit import Submitted
from batchai_magics.models.states import ExecutionState
from tests.backends.local.boxes import IMAGE
from tests.world import PATIENCE_S, World


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "ENGINES", ())


TUTORIAL = {
    "nodeCount": 1,
    "cluster": {"id": "default"},
    "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs",
    "containerSettings": {"imageSourceRegistry": {"image": IMAGE}},
    "jobPreparation": {"commandLine": "touch $AZ_BATCHAI_SHARED_JOB_TEMP/prepared"},
    "customToolkitSettings": {"commandLine": "ls $AZ_BATCHAI_SHARED_JOB_TEMP"},
}


def submit_tutorial(world: World, **extra: object) -> Submitted:
    body = json.dumps({"properties": {**TUTORIAL, **extra}})
    request = cell.parse("j --spec", body, settings=world.settings, notebook=cell.Notebook())
    return submission.submit(world.backend, request, world.settings)


@pytest.mark.slow
@pytest.mark.usefixtures("no_engine")
def test_without_an_engine_a_tutorial_runs_on_the_host_without_its_preparation_and_says_so(
    world: World,
) -> None:
    submitted = submit_tutorial(world)
    job = submitted.job.wait(PATIENCE_S)
    said = f"no docker, podman or apptainer works here: image {IMAGE} is not used, the job runs on the host."
    assert submitted.note.startswith(f"Warning: {said} Its preparation, ")
    assert "touch $AZ_BATCHAI_SHARED_JOB_TEMP/prepared" in submitted.note
    (warning,) = job.show().execution.errors
    assert (warning.code, warning.is_warning) == ("ImageNotUsed", True)
    assert warning.message.startswith(said)
    assert f"warning: {said}" in job.log(file="execution.log")
    assert (job.state, job.log()) == (ExecutionState.SUCCEEDED, "")
    assert job_overview(job).warnings[0].startswith(said)


@pytest.mark.slow
@pytest.mark.usefixtures("no_engine")
def test_the_setting_host_preparation_runs_a_preparation_on_the_host(tmp_path: Path) -> None:
    world = World(tmp_path / "home", limits=LocalSettings(host_preparation=True))
    submitted = submit_tutorial(world)
    assert submitted.note.endswith("the job runs on the host, and so does its preparation.")
    assert submitted.job.wait(PATIENCE_S).log() == "prepared\n"
    world.close()


@pytest.mark.slow
@pytest.mark.usefixtures("no_engine")
def test_an_image_of_the_command_line_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BATCHAI_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    for words in (["--dry-run"], []):
        assert cli.main(["run", "--image", IMAGE, *words, "train.py"]) == 1
        said = capsys.readouterr().err
        assert f"image {IMAGE} cannot be used: no docker, podman or apptainer works here" in said
        assert "Install podman" in said
    assert not (tmp_path / "home").exists()


@pytest.mark.usefixtures("no_engine")
def test_a_dry_run_says_that_a_tutorial_runs_on_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BATCHAI_HOME", str(tmp_path / "home"))
    (tmp_path / "job.json").write_text(json.dumps({"properties": TUTORIAL}))
    assert cli.main(["run", "--dry-run", "--spec", str(tmp_path / "job.json")]) == 0
    assert "is not used, the job runs on the host. Its preparation, " in capsys.readouterr().out
    assert not (tmp_path / "home").exists()
