"""Jobs really run on the nodes of the stand-in, whose image knows nothing of this package."""

import contextlib

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.cell import parse
from batchai_magics.errors import NotFoundError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.submit import submit
from batchai_magics.models.resource_ids import Kind, workspace_id
from batchai_magics.models.states import ExecutionState
from tests.azureml.blobs import ACCOUNT
from tests.azureml.conftest import running_azure
from tests.backends.azureml.job_specs import job_spec
from tests.world import until

pytestmark = pytest.mark.slow
__all__ = ["running_azure"]


@pytest.fixture
def settings(running_azure):
    return running_azure.settings(visible_secrets="yes")


@pytest.fixture
def run(settings):
    """Submits a cell and waits for its end; the job, and the text of its log."""
    backend = open_backend(settings)

    def submitted(line, script):
        job = submit(backend, parse(line, script, settings=settings), settings).job
        ended = until(lambda: (shown := backend.show(job.id)).state.is_final and shown)
        return ended, backend.read(FileRef(job.id, "stdout.txt")).data.decode()

    yield submitted
    backend.close()


WRITING = """
import os
from pathlib import Path
from batchai_magics import save
model = Path(os.environ["AZ_BATCHAI_OUTPUT_MODEL"])
(model / "weights").mkdir()
(model / "weights/last.pt").write_bytes(b"0123456789")
(model / "kept.txt").write_text(os.environ["KEY"][:3])
save(model / "kept.txt", "best")
"""


def test_secrets_arrive_and_outputs_and_artifacts_are_kept_and_downloaded(
    run, settings, running_azure, tmp_path, monkeypatch
):
    monkeypatch.setenv("KEY", "abcdefgh")
    job, log = run("writing --output MODEL=model --secret KEY", WRITING)
    assert job.state is ExecutionState.SUCCEEDED, log
    name = f"{job.output_path_segment}/outputs/model/kept.txt"
    assert running_azure.blobs.read("azureml-blobstore-standin", name) == b"abc"
    with contextlib.closing(open_backend(settings)) as backend:
        handle = Job(backend, job.id)
        assert sorted(file.path for file in backend.files(job.id, "MODEL")) == ["kept.txt", "weights"]
        last = handle.download("weights/last.pt", tmp_path, directory_id="MODEL")
        assert last.read_bytes() == b"0123456789"
        assert [file.path for file in backend.files(job.id, "artifacts")]


ALTERNATING = """
import os
for number in range(2000):
    os.write(1 + number % 2, b"%d\\n" % number)
"""


def test_what_a_process_writes_to_both_of_its_streams_stays_in_order(run):
    job, log = run("ordered", ALTERNATING)
    assert job.state is ExecutionState.SUCCEEDED, log
    assert log.split() == [str(number) for number in range(2000)]


WRITE_EACH = (
    "for each in $AZ_BATCHAI_OUTPUT_A $AZ_BATCHAI_OUTPUT_B $AZ_BATCHAI_OUTPUT_C; do echo hi >$each/x; done"
)
SHOUT = 'cd "$AZ_BATCHAI_JOB_MOUNT_ROOT/data" && tr a-z A-Z < in.txt > out.txt'


def test_a_container_is_mounted_and_output_directories_are_found_behind_whatever_prefix(
    settings, running_azure
):
    directories = [
        {"id": "A", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs/deep/er", "pathSuffix": "model"},
        {"id": "B", "pathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/data/results"},
        {"id": "C", "pathPrefix": "models"},
    ]
    mount = {"accountName": ACCOUNT, "containerName": "data", "relativeMountPath": "data"}
    running_azure.blobs.write("data", "in.txt", b"hello")
    with contextlib.closing(open_backend(settings)) as backend:
        experiment = workspace_id(settings).child(Kind.EXPERIMENT, "first")
        spec = job_spec(
            experiment,
            customToolkitSettings={"commandLine": f"({SHOUT}) && {WRITE_EACH}"},
            mountVolumes={"azureBlobFileSystems": [mount]},
            outputDirectories=directories,
        )
        id = backend.create(experiment.child(Kind.JOB, "one"), spec).id
        ended = until(lambda: (shown := backend.show(id)).state.is_final and shown)
        assert ended.state is ExecutionState.SUCCEEDED
        assert running_azure.blobs.read("data", "out.txt") == b"HELLO"
        assert [[file.path for file in backend.files(id, name)] for name in "AB"] == [["x"], ["x"]]
        assert backend.read(FileRef(id, "x", "A")).data == backend.read(FileRef(id, "x", "B")).data == b"hi\n"
        with pytest.raises(NotFoundError, match="It is at models on the job's nodes"):
            backend.files(id, "C")
