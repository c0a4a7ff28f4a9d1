"""The output directories of jobs, over real connections to the stand-in."""

from __future__ import annotations

import urllib.request

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.models.resource_ids import ResourceId
from tests.azureml.stand_in import AzureStandIn
from tests.azureml.workspace import ARTIFACTS, DATASTORES
from tests.backends.azureml.conftest import Starter

URI = "azureml://datastores/workspaceblobstore/paths/results/"
RUN = "ExperimentRun/dcid.resnet"


@pytest.fixture
def job(azure: AzureStandIn, start: Starter) -> ResourceId:
    """A job of another client, with an output."""
    id = start(outputs={"model": {"jobOutputType": "uri_folder", "uri": URI}})
    store = DATASTORES["workspaceblobstore"]
    azure.blobs.write(store, "results/weights/last step.pt", b"0123456789")
    azure.blobs.write(store, "results/notes.txt", b"hello")
    azure.blobs.write(store, "results-of-others/x", b"secret")
    azure.blobs.write(ARTIFACTS, f"{RUN}/outputs/batchai/artifacts/best", b"artifact")
    azure.set_status("resnet", "Completed")
    return id


@pytest.fixture(params=["keys", "identities"])
def _storage(request: pytest.FixtureRequest, azure: AzureStandIn) -> None:
    azure.workspace.is_identity_based = request.param == "identities"
    azure.blobs.allows_keys = request.param == "keys"


@pytest.mark.usefixtures("_storage")
def test_an_output_is_listed_and_read(backend, job):
    top = backend.files(job, "model")
    assert [(file.path, file.size_bytes, file.is_directory) for file in top] == [
        ("notes.txt", 5, False),
        ("weights", 0, True),
    ]
    (file,) = backend.files(job, "model", "weights")
    assert (file.path, file.size_bytes, bool(file.modified)) == ("weights/last step.pt", 10, True)
    chunk = backend.read(FileRef(job, file.path, "model"), 3, 4)
    assert (chunk.data, chunk.offset, chunk.size, chunk.is_complete) == (b"3456", 3, 10, True)


def test_artifacts_of_a_run_are_read_from_its_own_store(backend, job):
    assert [file.path for file in backend.files(job, "artifacts")] == ["best"]
    assert backend.read(FileRef(job, "best", "artifacts")).data == b"artifact"


def test_a_folder_of_many_files_is_listed_whole(azure, backend, job):
    azure.blobs.page = 3
    for number in range(10):
        azure.blobs.write(DATASTORES["workspaceblobstore"], f"results/many/{number}", b"x")
    assert [file.name for file in backend.files(job, "model", "many")] == [str(n) for n in range(10)]
    assert len(backend.files(job, "model", "many", limit=2)) == 2


def test_what_is_not_there_is_named(backend, job):
    with pytest.raises(NotFoundError, match="there is no folder none"):
        backend.files(job, "model", "none")
    with pytest.raises(NotFoundError, match="weights is a folder"):
        backend.read(FileRef(job, "weights", "model"))
    with pytest.raises(NotFoundError) as caught:
        backend.files(job, "nothing")
    assert "model" in caught.value.hint
    assert backend.read(FileRef(job, "none.txt", "model")).size == 0


def test_the_address_of_a_file_works_for_an_hour_without_signing_in(azure, backend, job):
    url = backend.files(job, "model")[0].download_url
    assert url
    blob = backend.connection.read_blob(url, 0, 100)
    assert blob
    assert blob.data == b"hello"
    assert urllib.request.Request(url).host == "standin.blob.core.windows.net"


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "../x"])
def test_what_is_no_path_is_refused(backend, job, path):
    for directory in ("stdouterr", "model"):
        with pytest.raises(StorageError):
            backend.read(FileRef(job, path, directory))
