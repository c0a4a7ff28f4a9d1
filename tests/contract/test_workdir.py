"""The working directories of a run: kept with the job, whatever becomes of its nodes."""

from __future__ import annotations

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.job_execution import STDOUTERR, WORKDIR
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.states import ExecutionState
from tests.contract.place import HOLD, MOUNTED, Place, auto, manual
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes"), pytest.mark.needs("workdir")]
MODEL = {"id": "MODEL", "pathPrefix": MOUNTED, "pathSuffix": "files"}
SAVE = "printf model > model.pt"


def names(place: Place, job: ResourceId, path: str = "") -> list[str]:
    """The names of what is listed of a job's working directories."""
    return [file.name for file in place.backend.files(job, WORKDIR, path)]


def workdir_file(place: Place, job: ResourceId, name: str = "model.pt") -> bytes:
    """A file of the working directory of a job that had one node."""
    (node,) = names(place, job)
    return place.backend.read(FileRef(job, f"{node}/{name}", WORKDIR)).data


@pytest.mark.sample
def test_what_a_script_leaves_in_its_working_directory_is_listed_as_what_it_is_and_read(place: Place) -> None:
    links = "mkfifo pipe; ln -s /etc etc; ln -s /etc/passwd passwd; ln -s model.pt to-model"
    job = place.run(f"{SAVE}; {links}; mkdir many; cd many; touch $(seq -w 2100)")
    (node,) = place.backend.files(job.id, WORKDIR)
    assert (node.path, node.is_directory) == (job.ranks[0].node, True)
    below = {file.name: file for file in place.backend.files(job.id, WORKDIR, node.path)}
    assert {name: file.kind.value for name, file in below.items()} == {
        "etc": "link",
        "many": "directory",
        "model.pt": "file",
        "passwd": "link",
        "pipe": "pipe",
        "to-model": "file",
    }
    assert (below["model.pt"].path, below["model.pt"].size_bytes) == (f"{node.path}/model.pt", 5)
    assert [name for name, file in below.items() if file.download_url] == ["model.pt", "to-model"]
    chunk = place.backend.read(FileRef(job.id, f"{node.path}/model.pt", WORKDIR), 1, 3)
    assert (chunk.data, chunk.size, chunk.is_complete) == (b"ode", 5, True)
    with pytest.raises(NotFoundError, match="pipe is a named pipe"):
        place.backend.read(FileRef(job.id, f"{node.path}/pipe", WORKDIR))
    for path in ("passwd", "etc/passwd", "../../plan.json"):
        with pytest.raises(StorageError):
            place.backend.read(FileRef(job.id, f"{node.path}/{path}", WORKDIR))
    with pytest.raises(StorageError):
        place.backend.read(FileRef(job.id, "../plan.json", WORKDIR))
    for limit in (1, 3, 1001, 2000):
        listed = place.backend.files(job.id, WORKDIR, f"{node.path}/many", limit=limit)
        assert [file.name for file in listed] == [f"{number:04}" for number in range(1, limit + 1)]
    assert len(names(place, job.id, f"{node.path}/many")) == 2100


def test_the_variables_and_the_preparation_of_a_job_are_of_the_folder_that_is_kept(place: Place) -> None:
    variables = ("AZ_BATCHAI_JOB_TEMP", "AZ_BATCHAI_JOB_TEMP_DIR", "AZ_BATCH_TASK_WORKING_DIR")
    command = "; ".join(["cat prepared", *(f"touch ${name}/{name}" for name in variables)])
    job = place.run(command, jobPreparation={"commandLine": "echo ready > prepared"})
    assert place.log(job.id) == b"ready\n"
    assert names(place, job.id, job.ranks[0].node) == [*sorted(variables), "prepared"]
    assert workdir_file(place, job.id, "prepared") == b"ready\n"


def test_the_ranks_of_a_node_share_one_working_directory(place: Place) -> None:
    job = place.wait(place.start_ranks("touch rank-$PMI_RANK", count=4))
    assert job.execution.exit_code == 0
    ranks = {node: [f"rank-{e.rank}" for e in job.ranks if e.node == node] for node in names(place, job.id)}
    assert len(ranks) == 2
    assert {node: names(place, job.id, node) for node in ranks} == {
        node: sorted(files) for node, files in ranks.items()
    }


def test_the_files_of_a_job_that_failed_or_was_cancelled_are_kept(place: Place) -> None:
    job = place.run(f"{SAVE}; kill -9 $$", "failed")
    assert job.state is ExecutionState.FAILED
    assert workdir_file(place, job.id) == b"model"
    place.is_up(id := place.start(f"{SAVE}; {HOLD}", "cancelled"))
    place.backend.terminate(id)
    place.wait(id)
    assert workdir_file(place, id) == b"model"


def test_the_working_directory_outlives_nodes_and_cluster(place: Place) -> None:
    cluster = place.make_cluster()
    job = place.run(SAVE, **place.on(cluster))
    place.scale(cluster.id, manual(0))
    place.has(cluster.id)
    assert workdir_file(place, job.id) == b"model"
    place.backend.delete(cluster.id)
    assert workdir_file(place, job.id) == b"model"


@pytest.mark.needs("auto_scale")
@pytest.mark.place_options(idle_s=0.5)
def test_the_working_directory_outlives_a_node_that_auto_scale_drops(place: Place) -> None:
    cluster = place.make_cluster(scale=auto(0, 1))
    job = place.run(SAVE, **place.on(cluster))
    until(lambda: place.backend.show(cluster.id).node_states.total == 0)
    assert workdir_file(place, job.id) == b"model"


@pytest.mark.needs("requeue")
def test_an_attempt_that_is_queued_again_loses_no_file_of_the_one_before(place: Place) -> None:
    place.is_up(id := place.start(f"touch begun-$(ls begun-* 2>/dev/null | wc -l); {HOLD}", nodeCount=2))
    place.scale(place.cluster, manual(1, "requeue"))
    until(lambda: place.backend.show(id).state is ExecutionState.QUEUED)
    place.scale(place.cluster, manual(2))
    until(lambda: place.log(id).count(b"up\n") == 2)
    place.backend.terminate(id)
    place.wait(id)
    listed = [name for node in names(place, id) for name in names(place, id, node)]
    assert listed in (["begun-0", "begun-0"], ["begun-0", "begun-1"])


def test_the_working_directory_goes_with_its_job_and_an_output_may_have_its_name(place: Place) -> None:
    own = [{**MODEL, "id": WORKDIR}]
    job = place.run(f"{SAVE}; touch $AZ_BATCHAI_OUTPUT_workdir/own", "own", outputDirectories=own)
    assert names(place, job.id) == ["own"]
    job = place.run(SAVE)
    place.backend.delete(job.id)
    with pytest.raises(NotFoundError):
        place.backend.files(job.id, WORKDIR)
    assert names(place, place.run("true").id, job.ranks[0].node) == []


@pytest.mark.sample
def test_a_job_that_has_not_begun_has_no_files_there(place: Place) -> None:
    place.is_up(place.start(HOLD, nodeCount=2))
    assert names(place, place.start(SAVE, "waiting", nodeCount=2)) == []


@pytest.mark.sample
def test_all_files_of_a_job_are_listed_with_their_directories_and_downloaded(
    place: Place, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model, near = "$AZ_BATCHAI_OUTPUT_MODEL", "$AZ_BATCHAI_OUTPUT_NEAR"
    files = f"echo inner > a/b; echo b > {model}/stdout.txt; touch {near}/near"
    links = f"ln -s . {model}/again; ln -s stdout.txt {model}/same"
    made = place.run(
        f"{SAVE}; mkdir a {model}/empty; {files}; {links}; echo out",
        outputDirectories=[MODEL, {"id": "NEAR", "pathPrefix": "near"}],
    )
    assert made.execution.exit_code == 0, place.log(made.id, "execution.log")
    node, job = made.ranks[0].node, Job(place.backend, made.id)
    near = f"{node}/near/{made.output_path_segment}/outputs/near"
    assert [(file.directory_id, file.path) for file in job.files()] == [
        ("MODEL", "same"),
        ("MODEL", "stdout.txt"),
        (WORKDIR, f"{node}/a/b"),
        (WORKDIR, f"{node}/model.pt"),
        (WORKDIR, near),
        (STDOUTERR, "stderr.txt"),
        (STDOUTERR, "stdout.txt"),
        (STDOUTERR, "execution.log"),
    ]
    to = tmp_path_factory.mktemp("to")
    paths = [job.download(file, to) for file in job.files() if file.path != "execution.log"]
    assert {path.relative_to(to).as_posix(): path.read_bytes() for path in paths} == {
        "MODEL/same": b"b\n",
        "MODEL/stdout.txt": b"b\n",
        f"workdir/{node}/a/b": b"inner\n",
        f"workdir/{node}/model.pt": b"model",
        f"workdir/{near}": b"",
        "stdouterr/stderr.txt": b"",
        "stdouterr/stdout.txt": b"out\n",
    }
