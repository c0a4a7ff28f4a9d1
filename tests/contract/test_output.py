"""What jobs and setup tasks wrote: listed a level at a time, read by offset, never left."""

from __future__ import annotations

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import NotFoundError, ServiceError, SpecError, StorageError
from tests.contract.places import HOLD, MOUNTED, Place
from tests.world import until

pytestmark = pytest.mark.slow
MODEL = {"id": "MODEL", "pathPrefix": MOUNTED, "pathSuffix": "files"}
ESCAPES = ["../stdout.txt", "/../../x", "a/../../../x"]


def test_reading_is_by_offset_and_repeatable(place: Place) -> None:
    file = FileRef(place.run("printf 0123456789").id, "stdout.txt")
    chunk = place.backend.read(file, 3, 4)
    assert (chunk.data, chunk.offset, chunk.end, chunk.size) == (b"3456", 3, 7, 10)
    assert place.backend.read(file, 3, 4) == chunk


def test_a_file_of_an_ended_job_is_complete_and_ends_empty(place: Place) -> None:
    chunk = place.backend.read(FileRef(place.run().id, "stdout.txt"), 6)
    assert (chunk.data, chunk.is_complete) == (b"", True)


def test_a_file_that_is_not_there_is_empty(place: Place) -> None:
    chunk = place.backend.read(FileRef(place.start(HOLD), "later.txt"))
    assert (chunk.data, chunk.size, chunk.is_complete) == (b"", 0, False)


def test_a_folder_is_not_read(place: Place) -> None:
    job = place.run("mkdir $AZ_BATCHAI_OUTPUT_MODEL/inner", outputDirectories=[MODEL])
    with pytest.raises(NotFoundError, match="is a folder"):
        place.backend.read(FileRef(job.id, "inner", "MODEL"))


def test_files_are_listed_by_name_one_level_at_a_time(place: Place) -> None:
    command = "cd $AZ_BATCHAI_OUTPUT_MODEL; mkdir b; echo 1 > b/inner; echo 22 > a"
    job = place.run(command, outputDirectories=[MODEL])
    files = place.backend.files(job.id, "MODEL")
    assert [(f.path, f.is_directory, f.size_bytes) for f in files] == [("a", False, 3), ("b", True, 0)]
    assert [bool(f.download_url) for f in files] == [True, False]
    assert all(f.modified for f in files)
    (inner,) = place.backend.files(job.id, "MODEL", "b", expiry_min=5)
    assert (inner.path, inner.name) == ("b/inner", "inner")
    assert place.backend.read(FileRef(job.id, inner.path, "MODEL")).data == b"1\n"
    assert [file.path for file in place.backend.files(job.id)] == [
        "execution.log",
        "stderr.txt",
        "stdout.txt",
    ]


def test_an_unknown_output_directory_is_named(place: Place) -> None:
    job = place.start()
    with pytest.raises(NotFoundError, match="outputDirectoryId NOPE"):
        place.backend.files(job, "NOPE")
    with pytest.raises(NotFoundError, match="outputDirectoryId NOPE"):
        place.backend.read(FileRef(job, "x", "NOPE"))


@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_leads_out_of_a_job(place: Place, path: str) -> None:
    job = place.start()
    with pytest.raises(StorageError):
        place.backend.read(FileRef(job, path))
    with pytest.raises(StorageError):
        place.backend.files(job, path=path)


def test_no_link_that_a_job_makes_leads_out_of_it(place: Place) -> None:
    job = place.run("cd $AZ_BATCHAI_STDOUTERR_DIR; ln -s /etc etc; ln -s /etc/passwd passwd; ln -s no where")
    names = [file.name for file in place.backend.files(job.id)]
    assert not {"etc", "passwd", "where"}.intersection(names)
    for path in ("passwd", "etc/passwd"):
        with pytest.raises(StorageError):
            place.backend.read(FileRef(job.id, path))
    with pytest.raises(StorageError):
        place.backend.files(job.id, path="etc")


@pytest.mark.parametrize("prefix", [f"{MOUNTED}/../other", f"{MOUNTED}/a/../../../other", f"{MOUNTED}/.."])
def test_no_prefix_of_the_output_leads_out_of_a_mount(place: Place, prefix: str) -> None:
    with pytest.raises(SpecError, match="stdOutErrPathPrefix"):
        place.start(stdOutErrPathPrefix=prefix)
    with pytest.raises(NotFoundError):
        place.backend.show(place.job())


def test_no_prefix_of_an_output_directory_leads_out_of_a_mount(place: Place) -> None:
    escape = {"id": "UP", "pathPrefix": f"{MOUNTED}/../other"}
    job = place.start(outputDirectories=[escape])
    with pytest.raises(NotFoundError, match="outputDirectoryId UP"):
        place.backend.files(job, "UP")


@pytest.mark.parametrize("path", ["../up", "a/../../up", "..", "a\\..\\..\\up", "/up"])
def test_no_mount_leads_out_of_the_mount_root(place: Place, path: str) -> None:
    share = {"accountName": "local", "azureFileUrl": "https://local.file.core.windows.net/s"}
    volumes = {"azureFileShares": [{**share, "relativeMountPath": path}]}
    with pytest.raises(SpecError, match="relativeMountPath"):
        place.start(mountVolumes=volumes)
    with pytest.raises(SpecError, match="relativeMountPath"):
        place.make_cluster(nodeSetup={"mountVolumes": volumes})


# setup tasks


def setup(command: str, **fields: object) -> dict[str, object]:
    return {"setupTask": {"commandLine": command, "stdOutErrPathPrefix": MOUNTED, **fields}}


@pytest.mark.needs("setup_tasks")
def test_a_setup_task_runs_on_every_node_before_it_takes_jobs(place: Place) -> None:
    task = setup(
        f"until [ -e {MOUNTED}/go ]; do sleep 0.02; done; echo set up by $WHO; touch {MOUNTED}/ready",
        environmentVariables=[{"name": "WHO", "value": "me"}],
    )
    cluster = place.make_cluster(scale={"manual": {"targetNodeCount": 2}}, nodeSetup=task)
    until(lambda: place.backend.show(cluster.id).node_states.preparing_node_count == 2)
    assert place.backend.show(cluster.id).allocation_state.value == "resizing"
    job = place.start(f"test -e {MOUNTED}/ready", **place.on(cluster))
    place.backend.storage.upload(place.share, {"go": b""})
    assert place.wait(job).execution.exit_code == 0
    place.has(cluster.id, idle=2)
    nodes = [node.id for node in place.backend.nodes(cluster.id)]
    files = place.backend.setup_logs.files(cluster.id)
    assert [f.name for f in files] == sorted(f"{s}-{n}.txt" for s in ("stdout", "stderr") for n in nodes)
    assert {f.size_bytes for f in files if f.name.startswith("stdout")} == {len("set up by me\n")}


@pytest.mark.needs("setup_tasks")
def test_a_failed_setup_task_makes_the_node_unusable_with_the_reason(place: Place) -> None:
    cluster = place.make_cluster(nodeSetup=setup("echo broken >&2; exit 4"))
    until(lambda: place.backend.show(cluster.id).node_states.unusable_node_count == 1)
    (error,) = place.backend.show(cluster.id).errors
    assert error.code == "NodeSetupFailed"
    assert "exit code 4" in error.message


@pytest.mark.needs("setup_tasks")
@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_leads_out_of_what_a_setup_task_wrote(place: Place, path: str) -> None:
    cluster = place.make_cluster(nodeSetup=setup("true"))
    with pytest.raises(StorageError):
        place.backend.setup_logs.files(cluster.id, path)


@pytest.mark.needs("setup_tasks")
def test_no_prefix_of_a_setup_task_leads_out_of_a_mount(place: Place) -> None:
    with pytest.raises(SpecError, match="stdOutErrPathPrefix"):
        place.make_cluster(nodeSetup=setup("true", stdOutErrPathPrefix=f"{MOUNTED}/../other"))


def test_files_of_a_cluster_without_setup_are_said_not_to_be(place: Place) -> None:
    with pytest.raises(ServiceError, match="startup task"):
        place.backend.setup_logs.files(place.cluster)
