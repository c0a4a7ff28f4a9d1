"""`job create --dry-run`: the same reader and the same words as the job magic."""

import contextlib
import json
import re
from dataclasses import replace

import pytest

from batchai_magics.cell import parse
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.command_runner import run
from batchai_magics.commands.output.command_progress import LogOutput, Message
from batchai_magics.commands.output.dry_run import dry_run_text
from batchai_magics.commands.parsing.command_parser import parse as parse_line
from batchai_magics.models.resource_ids import Kind, ResourceId

ANYWHERE = ResourceId("0", "any", "any")
ANY = {"nodeCount": 2, "stdOutErrPathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/external"}
SHARE = {
    "azureFileUrl": "https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/logs",
    "relativeMountPath": "external",
}
RECIPES = {
    "of one schema": {"customToolkitSettings": {"commandLine": "true", "processCount": 4}},
    "of 2017": {
        "priority": 3,
        "tensorFlowSettings": {"pythonScriptFilePath": "a.py", "masterCommandLineArgs": "-v"},
        "outputDirectories": [{"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/a", "type": "custom"}],
    },
    "with mounts": {
        "horovodSettings": {"pythonScriptFilePath": "$AZ_BATCHAI_JOB_MOUNT_ROOT/external/a.py"},
        "mountVolumes": {"azureFileShares": [{**SHARE, "credentialsInfo": {"accountKey": "k3y"}}]},
        "containerSettings": {"imageSourceRegistry": {"image": "ubuntu"}},
        "jobPreparation": {"commandLine": "apt update"},
    },
}


@pytest.fixture
def output_of(do):
    """What a line tells: lines about it, and text."""
    return lambda line: told(do(line).parts)


def told(parts):
    parts = list(parts)
    text = b"".join(part.data for part in parts if isinstance(part, LogOutput)).decode()
    return [part.text for part in parts if isinstance(part, Message)], text


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_command_and_the_magic_read_a_file_alike(context, tmp_path, monkeypatch, recipe):
    monkeypatch.setenv("AZURE_BATCHAI_STORAGE_ACCOUNT", "acc")
    local = replace(context.settings.sections["local"], container_command="env")  # none is looked for
    own = Context(replace(context.settings, sections={"local": local}))
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"$schema": "https://x/job.json", "properties": {**ANY, **RECIPES[recipe]}}))
    with contextlib.closing(own.backend):
        notes, text = told(run(parse_line(["job", "create", "-f", str(file), "--dry-run"]), own).parts)
        request = parse(f"--file {file}", "", settings=own.settings)
        assert (tuple(notes), text) == (request.notes, f"{dry_run_text(request, own.settings)}\n")


def test_dry_run_of_a_job_creates_nothing(context, output_of, job_file):
    _, text = output_of(f"job create -n hello -f {job_file('true')} --dry-run")
    assert text.startswith("job hello in experiment default of workspace default, on cluster default\n")
    assert text.endswith("Nothing was written or submitted.\n")
    assert not list(context.backend.list(ANYWHERE, Kind.WORKSPACE))


def test_each_of_several_files_is_shown(output_of, job_file):
    file = job_file("true")
    other = file.with_name("other.json")
    other.write_text(file.read_text())
    _, text = output_of(f"job create -n run -f {file} {other} --dry-run")
    assert [line.split()[1] for line in text.splitlines() if line.startswith("job ")] == ["run-1", "run-2"]


def test_a_job_may_start_after_one_that_the_same_line_creates_before_it(output_of, job_file):
    file = job_file("true")
    body = json.loads(file.read_text())
    prepare, train = (file.with_name(f"{name}.json") for name in ("prepare", "train"))
    prepare.write_text(json.dumps(body))
    body["properties"]["batchaiAfter"] = ["prepare"]
    train.write_text(json.dumps(body))
    _, text = output_of(f"job create -f {prepare} {train} --dry-run")
    assert "problem" not in text
    _, text = output_of(f"job create -f {train} {prepare} --dry-run")
    assert "problem: no job can start after prepare" in text


@pytest.mark.slow
def test_a_job_after_one_that_does_not_exist_is_a_problem_and_one_that_exists_is_none(
    context, do, output_of, job_file
):
    line = f"job create -n late -f {job_file('true')} --dry-run"
    _, text = output_of(f"{line} --after nosuch")
    assert re.search(r"^problem: .*nosuch", text, re.MULTILINE)
    assert not list(context.backend.list(ANYWHERE, Kind.WORKSPACE))
    _, text = output_of(f"{line} --after late")
    assert "problem: the job late would wait for itself\nThere is no run of late yet" in text
    do("cluster create -n default -s Standard_D2 -t 1")
    do(f"job create -n first -f {job_file('true')}")
    _, text = output_of(f"{line} --after first")
    assert "problem" not in text
    _, text = output_of(f"{line} --after-any frst")
    assert "Available: first" in text
