"""Jobs that need what this machine lacks: an engine for containers, or `uv` for the packages of `--with`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batchai_magics import cell, cli
from batchai_magics.backends.local.runner import LocalFacts
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.node import containers
from batchai_magics.errors import CapabilityError, SpecError
from batchai_magics.jobs import submit as submission
from batchai_magics.jobs.job_overview import job_overview
from batchai_magics.jobs.submit import SubmittedJob
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.backends.local.boxes import IMAGE
from tests.wire_bodies import plain_job
from tests.world import PATIENCE_S, World


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "ENGINES", ())


TUTORIAL = plain_job(
    "default",
    "ls $AZ_BATCHAI_SHARED_JOB_TEMP",
    containerSettings={"imageSourceRegistry": {"image": IMAGE}},
    jobPreparation={"commandLine": "touch $AZ_BATCHAI_SHARED_JOB_TEMP/prepared"},
)


def submit_tutorial(world: World) -> SubmittedJob:
    body = json.dumps(TUTORIAL)
    request = cell.parse("j --spec", body, settings=world.settings, notebook=cell.Notebook())
    return submission.submit(world.backend, request, world.settings)


@pytest.mark.slow
@pytest.mark.usefixtures("no_engine")
def test_tutorial_runs_on_the_host_with_a_note_and_no_preparation_without_an_engine(
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
def test_an_image_of_the_command_line_is_refused_and_a_dry_run_says_that_a_tutorials_is_not_used(
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
    Path("job.json").write_text(json.dumps(TUTORIAL))
    assert cli.main(["run", "--dry-run", "--spec", "job.json"]) == 0
    assert "is not used, the job runs on the host. Its preparation, " in capsys.readouterr().out
    assert not (tmp_path / "home").exists()


@pytest.fixture
def no_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalFacts, "has_uv", lambda self: False)  # the machine may have one


@pytest.mark.slow
@pytest.mark.usefixtures("no_uv")
def test_packages_without_uv_are_refused_before_anything_is_submitted(world: World) -> None:
    with pytest.raises(CapabilityError, match=r"machine that submits has none[\s\S]*pip install uv"):
        world.submit("r --with einops", "print(1)")
    assert list(world.backend.list(world.job_id("r").parent, Kind.JOB)) == []
    assert not [*(world.home / "shares").rglob("*.py")]


@pytest.mark.slow
@pytest.mark.usefixtures("no_uv")
def test_an_environment_that_is_there_needs_none(world: World) -> None:
    spec = cell.parse("r --with einops", "print(1)", settings=world.settings).spec
    digest = spec.job_preparation.command_line.partition("/environments/")[2].partition('"')[0]
    made = world.home / "shares" / "account" / "share" / "environments" / digest / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.touch()
    assert world.submit("r --with einops", "print(1)").id == world.job_id("r")


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("--python /no/python", "properties.horovodSettings.pythonInterpreterPath"),
        ("--input DATA=/no/data", "properties.inputDirectories[0].path"),
        ("--input DATA=../../../../../../../../../no/data", "properties.inputDirectories[0].path"),
    ],
)
def test_path_that_is_not_on_this_machine_is_refused_before_anything_is_written(
    world: World, option: str, field: str
) -> None:
    with pytest.raises(SpecError) as caught:
        world.submit(f"j {option}")
    assert f"{field}: there is no /no/" in str(caught.value)
    assert option.split()[0] in str(caught.value)
    assert not list(world.backend.list(world.experiment, Kind.JOB))


@pytest.mark.slow
def test_python_that_the_preparation_makes_is_not_refused(world: World, tmp_path: Path) -> None:
    made = tmp_path / "python"
    assert world.submit(f"j --python {made} --prep 'touch {made}'").id == world.job_id("j")
