"""`createNew` of a job's directories, and `runElevated` of a setup task: what they ask for is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.node import elevation
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.backends.local.namespace import AS_SOMEBODY, scene, tell
from tests.world import PATIENCE_S, World, until

SHARE = "$AZ_BATCHAI_MOUNT_ROOT/autoafs"


def run(world: World, command: str, **fields: object) -> Job:
    properties = {
        "cluster": {"id": str(world.cluster)},
        "nodeCount": 1,
        "stdOutErrPathPrefix": SHARE,
        "customToolkitSettings": {"commandLine": command},
        **fields,
    }
    world.backend.create(world.job_id("j"), JobSpec.from_wire({"properties": properties}))
    return Job(world.backend, world.job_id("j")).wait(PATIENCE_S)


def output(**fields: object) -> dict[str, object]:
    return {"id": "MODEL", "pathPrefix": SHARE, "pathSuffix": "kept", **fields}


def failure(job: Job) -> tuple[str, str]:
    (error,) = job.show().execution.errors
    return error.code, error.message


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{}, {"createNew": True}])
def test_an_output_directory_is_made_for_the_job_alone(world: World, asked: dict[str, object]) -> None:
    job = run(world, "echo x > $AZ_BATCHAI_OUTPUT_MODEL/x", outputDirectories=[output(**asked)])
    assert job.state is ExecutionState.SUCCEEDED, job.log(file="stderr.txt")
    assert [file.name for file in world.backend.files(job.id, "MODEL")] == ["x"]
    (place,) = world.home.rglob("kept/x")
    assert job.show().output_path_segment + "/outputs/kept/x" in str(place)


@pytest.mark.slow
def test_an_output_directory_that_is_not_to_be_made_is_the_one_that_is_there(world: World) -> None:
    world.backend.storage.make("batchaishare")
    world.backend.storage.upload("batchaishare", {"kept/before": b""})
    given = [output(createNew=False)]
    job = run(world, "echo x > $AZ_BATCHAI_OUTPUT_MODEL/after", outputDirectories=given)
    assert [file.name for file in world.backend.files(job.id, "MODEL")] == ["after", "before"]


@pytest.mark.slow
def test_one_that_has_to_be_there_and_is_not_fails_the_job_by_name(world: World) -> None:
    job = run(world, "echo ran", outputDirectories=[output(createNew=False)])
    code, message = failure(job)
    assert (code, job.log()) == ("JobPreparationFailed", "")
    assert "autoafs/kept ($AZ_BATCHAI_OUTPUT_MODEL) is not there, and createNew is false" in message


@pytest.mark.slow
def test_input_directories_are_made_or_looked_for_when_that_is_asked(world: World) -> None:
    made = {"id": "A", "path": f"{SHARE}/new", "createNew": True}
    inside = {"id": "B", "path": "$AZ_BATCHAI_INPUT_A", "createNew": False}
    job = run(world, "ls -d $AZ_BATCHAI_INPUT_B", inputDirectories=[made, inside])
    assert job.log().endswith("/autoafs/new\n")
    unasked = {"id": "C", "path": f"{SHARE}/nowhere"}
    assert world.backend.delete(job.id) is None
    assert run(world, "true", inputDirectories=[unasked]).state is ExecutionState.SUCCEEDED


@pytest.mark.slow
def test_one_that_cannot_be_made_fails_the_job_by_name(world: World) -> None:
    world.backend.storage.make("batchaishare")
    world.backend.storage.upload("batchaishare", {"kept": b"a file in the way"})
    given = [{"id": "A", "path": f"{SHARE}/kept/below", "createNew": True}]
    code, message = failure(run(world, "true", inputDirectories=given))
    assert code == "JobPreparationFailed"
    assert "$AZ_BATCHAI_INPUT_A) cannot be made: Not a directory" in message


# -- runElevated ---------------------------------------------------------------


def test_a_task_runs_as_root_where_this_user_may(monkeypatch) -> None:
    monkeypatch.setattr(elevation, "is_root", lambda: True)
    assert elevation.elevated_command("id -u; true") == ("id -u; true", "")
    monkeypatch.setattr(elevation, "is_root", lambda: False)
    monkeypatch.setattr(elevation, "has_sudo", lambda: True)
    assert elevation.elevated_command("id -u; true") == ("exec sudo -n -E -- /bin/bash -c 'id -u; true'", "")
    assert elevation.elevated(["umount", "/x"]) == ["sudo", "-n", "-E", "--", "umount", "/x"]


@pytest.mark.slow
def test_where_this_user_may_not_the_setup_log_says_so(tmp_path: Path) -> None:
    (told,) = scene(a_setup_task_of_somebody, tmp_path, who=AS_SOMEBODY)
    user, warning = told
    assert user == "1000\n"
    assert warning.startswith("warning: runElevated: ")
    assert warning.endswith("has no sudo without a password; the task runs without being root\n")


def a_setup_task_of_somebody(folder: Path) -> None:
    world = World(folder / "home")
    properties = {
        "vmSize": "STANDARD_D1",
        "userAccountSettings": {"adminUserName": "me", "adminUserPassword": "hush"},
        "scaleSettings": {"manual": {"targetNodeCount": 1}},
        "nodeSetup": {
            "setupTask": {"commandLine": "id -u", "runElevated": True, "stdOutErrPathPrefix": SHARE}
        },
    }
    cluster = world.workspace.child(Kind.CLUSTER, "c")
    world.backend.create(cluster, ClusterSpec.from_wire({"properties": properties}))
    until(lambda: world.backend.show(cluster).node_states.idle_node_count == 1)
    logs = [next(world.home.rglob(f"{name}-tvm-*.txt")) for name in ("stdout", "stderr")]
    tell([log.read_text() for log in logs])
    world.close()
