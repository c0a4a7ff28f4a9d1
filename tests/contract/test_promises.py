"""The numbered promises of `backends.base`, kept by every backend."""

from __future__ import annotations

import json
import threading

import pytest

from batchai_magics.backends.base import ExperimentSpec, FileRef, WorkspaceSpec
from batchai_magics.errors import CapabilityError, ConflictError, NotFoundError, SpecError, StorageError
from batchai_magics.models.cluster import ClusterPatch, ClusterSpec
from batchai_magics.models.ids import Kind
from batchai_magics.models.job import ExecutionState
from tests.contract.conftest import Place

pytestmark = pytest.mark.slow
VAULT = {"sourceVault": {"id": "v"}, "secretUrl": "https://v.vault.azure.net/secrets/a"}
MISSING = "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/x"


def job_id(place: Place, name: str = "job"):
    return place.experiment.child(Kind.JOB, name)


# 1, 2, 10: creating


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("nodeCount", 3, SpecError),
        ("stdOutErrPathPrefix", "/tmp/somewhere", SpecError),
        ("cluster", {"id": f"{MISSING}/clusters/x"}, NotFoundError),
        ("secrets", [{"name": "A", "valueSecretReference": VAULT}], CapabilityError),
    ],
)
def test_a_refused_job_leaves_nothing_behind(place: Place, field, value, error) -> None:
    spec = place.spec(**{field: value})
    with pytest.raises(error):
        place.backend.create(job_id(place), spec)
    assert not place.backend.list(place.experiment, Kind.JOB)


def test_creating_the_same_job_again_returns_it(place: Place) -> None:
    first = place.backend.create(job_id(place), place.spec())
    place.wait(job_id(place))
    again = place.backend.create(job_id(place), place.spec())
    assert again.provisioning == first.provisioning
    assert again.state is ExecutionState.SUCCEEDED


def test_a_different_job_under_a_name_that_exists_is_a_conflict(place: Place) -> None:
    place.backend.create(job_id(place), place.spec())
    with pytest.raises(ConflictError) as caught:
        place.backend.create(job_id(place), place.spec("echo other"))
    assert caught.value.code == "JobAlreadyExists"


def test_workspaces_and_experiments_are_created_once(place: Place) -> None:
    before = place.backend.show(place.workspace)
    assert place.backend.create(place.workspace, WorkspaceSpec("elsewhere")) == before
    assert len(place.backend.list(place.workspace, Kind.EXPERIMENT)) == 1


def test_names_are_not_told_apart_by_letter_case(place: Place) -> None:
    place.backend.create(place.workspace.child(Kind.EXPERIMENT, "One"), ExperimentSpec())
    assert place.backend.show(place.workspace.child(Kind.EXPERIMENT, "ONE")).id.name == "One"


# 3, 8: states


def test_a_job_runs_from_queued_to_succeeded(place: Place) -> None:
    place.backend.create(job_id(place), place.spec())
    job = place.wait(job_id(place))
    assert (job.state, job.execution.exit_code) == (ExecutionState.SUCCEEDED, 0)
    assert job.execution.started <= job.execution.ended


def test_a_non_zero_exit_fails_the_job_as_the_service_said_it(place: Place) -> None:
    place.backend.create(job_id(place), place.spec("exit 7"))
    info = place.wait(job_id(place)).execution
    assert info.exit_code == 7
    assert (info.errors[0].code, info.errors[0].message) == (
        "JobFailed",
        "Job failed with non-zero exit code",
    )


def test_a_failed_preparation_has_its_own_code(place: Place) -> None:
    spec = place.spec("touch $AZ_BATCHAI_STDOUTERR_DIR/ran", jobPreparation={"commandLine": "exit 3"})
    place.backend.create(job_id(place), spec)
    info = place.wait(job_id(place)).execution
    assert info.errors[0].code == "JobPreparationFailed"
    assert "ran" not in [file.name for file in place.backend.files(job_id(place))]


def test_a_terminated_job_failed_without_an_exit_code(place: Place) -> None:
    place.backend.create(job_id(place), place.spec("sleep 100"))
    place.backend.terminate(job_id(place))
    job = place.wait(job_id(place))
    assert (job.state, job.execution.exit_code) == (ExecutionState.FAILED, None)
    assert job.execution.errors[0].message == "The specified job has been terminated by the user"


def test_terminating_an_ended_job_changes_nothing(place: Place) -> None:
    place.backend.create(job_id(place), place.spec())
    before = place.wait(job_id(place))
    place.backend.terminate(job_id(place))
    assert place.backend.show(job_id(place)) == before


# 4: reading


def test_reading_is_by_offset_and_repeatable(place: Place) -> None:
    place.backend.create(job_id(place), place.spec("printf 0123456789"))
    place.wait(job_id(place))
    file = FileRef(job_id(place), "stdout.txt")
    chunk = place.backend.read(file, 3, 4)
    assert (chunk.data, chunk.offset, chunk.end, chunk.size) == (b"3456", 3, 7, 10)
    assert place.backend.read(file, 3, 4) == chunk


def test_a_file_of_an_ended_job_is_complete_and_ends_empty(place: Place) -> None:
    place.backend.create(job_id(place), place.spec("echo hello"))
    place.wait(job_id(place))
    chunk = place.backend.read(FileRef(job_id(place), "stdout.txt"), 6)
    assert (chunk.data, chunk.is_complete) == (b"", True)


def test_a_file_that_is_not_there_is_empty(place: Place) -> None:
    place.backend.create(job_id(place), place.spec("sleep 100"))
    chunk = place.backend.read(FileRef(job_id(place), "later.txt"))
    assert (chunk.data, chunk.size, chunk.is_complete) == (b"", 0, False)


def test_files_are_listed_by_name_one_level_at_a_time(place: Place) -> None:
    command = "cd $AZ_BATCHAI_OUTPUT_MODEL; mkdir b; echo 1 > b/inner; echo 22 > a"
    output = {"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs", "pathSuffix": "files"}
    place.backend.create(job_id(place), place.spec(command, outputDirectories=[output]))
    place.wait(job_id(place))
    files = place.backend.files(job_id(place), "MODEL")
    assert [(f.path, f.is_directory, f.size_bytes) for f in files] == [("a", False, 3), ("b", True, 0)]
    assert [f.path for f in place.backend.files(job_id(place), "MODEL", "b")] == ["b/inner"]


def test_an_unknown_output_directory_is_named(place: Place) -> None:
    place.backend.create(job_id(place), place.spec())
    with pytest.raises(NotFoundError, match="outputDirectoryId NOPE"):
        place.backend.files(job_id(place), "NOPE")


@pytest.mark.parametrize("path", ["../stdout.txt", "/../../x", "a/../../../x"])
def test_no_path_leads_out_of_a_job(place: Place, path: str) -> None:
    place.backend.create(job_id(place), place.spec())
    with pytest.raises(StorageError):
        place.backend.read(FileRef(job_id(place), path))
    with pytest.raises(StorageError):
        place.backend.files(job_id(place), path=path)


# 5: at the same time


def test_many_threads_may_ask_at_once(place: Place) -> None:
    problems: list[BaseException] = []

    def ask(number: int) -> None:
        try:
            place.backend.create(job_id(place, f"job{number}"), place.spec())
            place.wait(job_id(place, f"job{number}"))
        except BaseException as error:  # noqa: BLE001 told by the assertion below
            problems.append(error)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(place.backend.list(place.experiment, Kind.JOB)) == 6


# 6: secrets


def test_secrets_reach_the_process_and_never_come_back(place: Place) -> None:
    spec = place.spec("test ${#KEY} -eq 4", secrets=[{"name": "KEY", "value": "hush"}])
    place.backend.create(job_id(place), spec)
    job = place.wait(job_id(place))
    assert job.state is ExecutionState.SUCCEEDED
    assert "hush" not in repr(job) + json.dumps(job.to_wire())
    assert job.to_wire()["properties"]["secrets"] == [{"name": "KEY"}]


def test_a_password_never_comes_back(place: Place) -> None:
    user = {"adminUserName": "me", "adminUserPassword": "hush"}
    properties = {"vmSize": "STANDARD_D1", "userAccountSettings": user}
    id = place.workspace.child(Kind.CLUSTER, "other")
    cluster = place.backend.create(id, ClusterSpec.from_wire({"properties": properties}))
    assert "hush" not in repr(cluster) + json.dumps(cluster.to_wire())


# 7: errors


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (Kind.CLUSTER, "nope", "ClusterNotFound"),
        (Kind.EXPERIMENT, "nope", "ExperimentNotFound"),
    ],
)
def test_what_is_missing_has_the_services_code(place: Place, kind: Kind, name: str, code: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        place.backend.show(place.workspace.child(kind, name))
    assert caught.value.code == code
    assert caught.value.message == f"The specified {kind.noun} nope is not found"


def test_a_missing_parent_is_what_is_said_to_be_missing(place: Place) -> None:
    missing = place.workspace.child(Kind.EXPERIMENT, "nope").child(Kind.JOB, "job")
    with pytest.raises(NotFoundError, match="experiment nope"):
        place.backend.show(missing)


# 9: ending and deleting


def test_deleting_a_running_job_ends_it_first(place: Place) -> None:
    place.backend.create(job_id(place), place.spec("sleep 100"))
    place.backend.delete(job_id(place))
    with pytest.raises(NotFoundError):
        place.backend.show(job_id(place))
    assert place.backend.show(place.cluster).node_states.idle_node_count == 2


def test_deleting_an_experiment_deletes_its_jobs(place: Place) -> None:
    place.backend.create(job_id(place), place.spec())
    place.backend.delete(place.experiment)
    assert not place.backend.list(place.workspace, Kind.EXPERIMENT)
    place.backend.create(place.experiment, ExperimentSpec())
    assert not place.backend.list(place.experiment, Kind.JOB)


def test_a_job_outlives_its_cluster(place: Place) -> None:
    place.backend.create(job_id(place), place.spec())
    place.wait(job_id(place))
    place.backend.delete(place.cluster)
    assert place.backend.show(job_id(place)).state is ExecutionState.SUCCEEDED
    assert place.backend.read(FileRef(job_id(place), "stdout.txt")).data == b"hello\n"


def test_a_cluster_grows_and_shrinks(place: Place) -> None:
    def resize(count: int) -> int:
        scale = {"manual": {"targetNodeCount": count}}
        patch = ClusterPatch.from_wire({"properties": {"scaleSettings": scale}})
        return place.backend.update(place.cluster, patch).node_states.idle_node_count

    ids = {node.id for node in place.backend.nodes(place.cluster)}
    assert [resize(0), resize(3)] == [0, 3]
    assert not ids & {node.id for node in place.backend.nodes(place.cluster)}  # a node has a new id each time


# storage


def test_a_share_keeps_files_and_lists_them(place: Place) -> None:
    storage = place.backend.storage
    storage.make("data")
    storage.upload("data", {"b/inner.txt": b"1", "a.txt": b"22"})
    assert [(f.path, f.is_directory, f.size_bytes) for f in storage.list("data")] == [
        ("a.txt", False, 2),
        ("b", True, 0),
    ]
    assert storage.download("data", "b/inner.txt") == b"1"
    storage.delete("data", "b")
    assert [f.path for f in storage.list("data")] == ["a.txt"]
    assert "data" in storage.shares()


@pytest.mark.parametrize("path", ["../x", "a/../../x"])
def test_no_path_leads_out_of_a_share(place: Place, path: str) -> None:
    place.backend.storage.make("data")
    with pytest.raises(StorageError):
        place.backend.storage.upload("data", {path: b""})
    with pytest.raises(StorageError):
        place.backend.storage.download("data", path)


def test_a_missing_share_is_said_to_be_missing(place: Place) -> None:
    with pytest.raises(NotFoundError) as caught:
        place.backend.storage.list("nothere")
    assert caught.value.code == "ShareNotFound"
