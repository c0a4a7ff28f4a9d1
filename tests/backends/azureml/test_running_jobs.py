"""Jobs really run on the nodes of the stand-in, whose image knows nothing of this package."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace

import nbformat
import pytest
from nbclient import NotebookClient

from batchai_magics.backends.azureml.settings import AzureMLSettings
from batchai_magics.backends.base import FileRef
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.submit import submit
from batchai_magics.models.resource_ids import Kind, workspace_id
from batchai_magics.models.states import ExecutionState
from tests.azureml.blobs import ACCOUNT
from tests.azureml.conftest import running_azure
from tests.backends.azureml.job_specs import job_spec
from tests.notebooks.quickstart import short_quickstart
from tests.patience import NOTEBOOK_TIMEOUTS
from tests.world import until

pytestmark = pytest.mark.slow
__all__ = ["running_azure"]


@pytest.fixture
def settings(running_azure):
    subscription, group, workspace = running_azure.place
    names = {"subscription": subscription, "resource_group": group, "workspace": workspace}
    own = AzureMLSettings(look_s=0.0, visible_secrets="yes")
    return replace(Settings(), backend="azureml", sections={"azureml": own}, **names)


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


MPI = """
from mpi4py import MPI
import os
world = MPI.COMM_WORLD
print(f"rank {world.rank} of {world.allreduce(1)}", os.getcwd() == os.environ["AZ_BATCHAI_JOB_TEMP"])
"""


def test_ranks_of_mpi_compute_together_on_two_nodes(run):
    job, log = run("one --nodes 2 --processes 4 --toolkit horovod", MPI)
    assert job.state is ExecutionState.SUCCEEDED, log
    assert sorted(log.splitlines()) == [f"rank {rank} of 4 True" for rank in range(4)]
    assert [(exit.rank, exit.exit_code) for exit in sorted(job.ranks, key=lambda exit: exit.rank)] == [
        (rank, 0) for rank in range(4)
    ]


FAILING = """
import os, sys, time
print(os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["AZ_BATCHAI_PYTORCH_INIT_METHOD"])
sys.stdout.flush()
if os.environ["RANK"] == "1":
    sys.exit(3)
time.sleep(60)
"""


def test_the_rank_that_failed_is_named_with_its_exit_code(run):
    job, log = run("one --nodes 2 --processes 2 --toolkit pytorch", FAILING)
    assert (job.state, job.execution.exit_code) == (ExecutionState.FAILED, 3)
    assert (job.ranks[0].rank, job.ranks[0].exit_code) == (1, 3)
    assert "1 2 tcp://127.0.0.1:" in log


# The workers are done when the server has written its line: otherwise it may be ended before that.
TENSORFLOW = """
import json, os, time
role = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
servers = os.environ["AZ_BATCHAI_PS_HOSTS"].split(",")
print(role, os.environ["AZ_BATCHAI_TASK_INDEX"], "of", len(servers), flush=True)
if role == "ps":
    open("{is_up}", "w").close()
    time.sleep(1000)
while not os.path.exists("{is_up}"):
    time.sleep(0.01)
"""


def test_tensorflows_tasks_find_each_other(run, tmp_path):
    script = TENSORFLOW.format(is_up=tmp_path / "server-is-up")
    job, log = run("one --nodes 2 --processes 2 --toolkit tensorflow", script)
    assert job.state is ExecutionState.SUCCEEDED, log
    assert sorted(log.splitlines()) == ["ps 0 of 1", "worker 0 of 1", "worker 1 of 1"]


PREPARED = """
import os
print(open(os.path.join(os.environ["AZ_BATCHAI_SHARED_JOB_TEMP"], "prepared")).read().split())
"""
PREPARE = "--prep 'echo done >> $AZ_BATCHAI_SHARED_JOB_TEMP/prepared'"


def test_a_node_is_prepared_once_before_any_process_starts(run):
    job, log = run(f"one --nodes 2 --processes 4 --toolkit pytorch {PREPARE}", PREPARED)
    assert job.state is ExecutionState.SUCCEEDED, log
    assert log.splitlines() == ["['done']"] * 4


def test_a_preparation_that_fails_is_why_the_job_failed(run):
    job, _ = run("one --toolkit custom --prep 'exit 7'", "print('never')")
    assert job.state is ExecutionState.FAILED
    assert (job.execution.errors[0].code, job.execution.exit_code) == ("JobPreparationFailed", 7)


STOPPING = """
import time
for step in range(600):
    print(f"step {step} loss {10 - step}", flush=True)
    time.sleep(0.1)
"""


def test_a_condition_stops_the_job(run):
    job, _ = run("one --stop-if 'loss < 6'", STOPPING)
    assert (job.word, job.execution.errors[0].code) == ("stopped", "JobStopConditionMet")


def test_a_standstill_stops_the_job(run):
    job, _ = run(
        "one --stop-if 'no progress for 2s'", "import time\nprint('step 1', flush=True)\ntime.sleep(60)"
    )
    assert (job.word, "no progress" in job.execution.errors[0].message) == ("stopped", True)


WRITING_SECRET = """
import os
with open(os.path.join(os.environ["AZ_BATCHAI_OUTPUT_MODEL"], "weights"), "w") as file:
    file.write(os.environ["KEY"][:3])
"""


def test_outputs_are_kept_and_secrets_arrive(run, running_azure, monkeypatch):
    monkeypatch.setenv("KEY", "abcdefgh")
    job, log = run("one --output MODEL --secret KEY", WRITING_SECRET)
    assert job.state is ExecutionState.SUCCEEDED, log
    name = f"{job.output_path_segment}/outputs/weights"
    assert running_azure.blobs.read("azureml-blobstore-standin", name) == b"abc"


WRITING = """
import os
from pathlib import Path
from batchai_magics import save
model = Path(os.environ["AZ_BATCHAI_OUTPUT_MODEL"])
(model / "weights").mkdir()
(model / "weights/last.pt").write_bytes(b"0123456789")
(model / "kept.txt").write_text("artifact")
save(model / "kept.txt", "best")
"""


def test_outputs_and_artifacts_are_downloaded(run, settings, tmp_path):
    job, log = run("writing --output MODEL=model", WRITING)
    assert job.state is ExecutionState.SUCCEEDED, log
    backend = open_backend(settings)
    handle = Job(backend, job.id)
    assert sorted(file.path for file in backend.files(job.id, "MODEL")) == ["kept.txt", "weights"]
    assert handle.download("weights/last.pt", tmp_path, directory_id="MODEL").read_bytes() == b"0123456789"
    assert [file.path for file in backend.files(job.id, "artifacts")]
    backend.close()


def test_a_container_is_mounted_for_reading_and_writing(settings, running_azure):
    mount = {"accountName": "acct", "containerName": "data", "relativeMountPath": "data"}
    command = 'cd "$AZ_BATCHAI_JOB_MOUNT_ROOT/data" && tr a-z A-Z < in.txt > out.txt'
    backend = open_backend(settings)
    experiment = workspace_id(settings).child(Kind.EXPERIMENT, "first")
    spec = job_spec(
        experiment,
        customToolkitSettings={"commandLine": command},
        mountVolumes={"azureBlobFileSystems": [mount]},
    )
    running_azure.blobs.write("data", "in.txt", b"hello")
    job = backend.create(experiment.child(Kind.JOB, "one"), spec)
    ended = until(lambda: (shown := backend.show(job.id)).state.is_final and shown)
    assert ended.state is ExecutionState.SUCCEEDED
    assert running_azure.blobs.read("data", "out.txt") == b"HELLO"
    backend.close()


WRITE_EACH = (
    "for each in $AZ_BATCHAI_OUTPUT_A $AZ_BATCHAI_OUTPUT_B $AZ_BATCHAI_OUTPUT_C; do echo hi >$each/x; done"
)


def test_output_directories_are_found_behind_whatever_prefix(settings):
    directories = [
        {"id": "A", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs/deep/er", "pathSuffix": "model"},
        {"id": "B", "pathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/data/results"},
        {"id": "C", "pathPrefix": "models"},
    ]
    mount = {"accountName": ACCOUNT, "containerName": "data", "relativeMountPath": "data"}
    with contextlib.closing(open_backend(settings)) as backend:
        experiment = workspace_id(settings).child(Kind.EXPERIMENT, "first")
        spec = job_spec(
            experiment,
            customToolkitSettings={"commandLine": WRITE_EACH},
            mountVolumes={"azureBlobFileSystems": [mount]},
            outputDirectories=directories,
        )
        id = backend.create(experiment.child(Kind.JOB, "one"), spec).id
        ended = until(lambda: (shown := backend.show(id)).state.is_final and shown)
        assert ended.state is ExecutionState.SUCCEEDED
        assert [[file.path for file in backend.files(id, name)] for name in "AB"] == [["x"], ["x"]]
        assert backend.read(FileRef(id, "x", "A")).data == backend.read(FileRef(id, "x", "B")).data == b"hi\n"
        with pytest.raises(NotFoundError, match="It is at models on the job's nodes"):
            backend.files(id, "C")


def test_the_quickstart_runs(running_azure, tmp_path):
    keys = ("subscription_id", "resource_group", "workspace_name")
    names = dict(zip(keys, running_azure.place, strict=True))
    (tmp_path / "config.json").write_text(json.dumps(names))
    notebook = nbformat.read(short_quickstart(tmp_path), as_version=4)
    client = NotebookClient(notebook, **NOTEBOOK_TIMEOUTS, resources={"metadata": {"path": str(tmp_path)}})
    client.extra_arguments = ["--log-level=ERROR"]
    own = {"BATCHAI_BACKEND": "azureml", "BATCHAI_CONFIG": str(tmp_path / "none.yaml")}
    client.execute(env={**os.environ, **running_azure.client_env, **own})
    jobs = running_azure.jobs.jobs.values()
    assert [(job.status, job.node_count) for job in jobs] == [("Completed", 2)] * 2
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    texts = [output.data["text/plain"] for output in outputs if "data" in output]
    assert any("[succeeded] quickstart" in text and "2 nodes × 2 processes" in text for text in texts)
    assert any("per_process=" in text and "ranks=4" in text for text in texts)
