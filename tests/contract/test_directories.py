"""`createNew` of a job's directories: what it asks for is so."""

from __future__ import annotations

import pytest

from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.states import ExecutionState
from tests.contract.place import MOUNTED, Place
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]


def run(place: Place, command: str, **fields: object) -> Job:
    return Job(place.backend, place.start(command, **fields)).wait(PATIENCE_S)


def output(**fields: object) -> dict[str, object]:
    return {"id": "MODEL", "pathPrefix": MOUNTED, "pathSuffix": "kept", **fields}


def failure(job: Job) -> tuple[str, str]:
    (error,) = job.show().execution.errors
    return error.code, error.message


@pytest.mark.needs("storage")
def test_an_output_directory_is_made_for_the_job_alone_or_is_the_one_that_is_there(place: Place) -> None:
    place.backend.storage.make(place.share)
    place.backend.storage.upload(place.share, {"kept/before": b""})
    given = [output(createNew=True), output(id="THERE", createNew=False)]
    command = "echo x > $AZ_BATCHAI_OUTPUT_MODEL/x; echo x > $AZ_BATCHAI_OUTPUT_THERE/after"
    job = run(place, command, outputDirectories=given)
    assert job.state is ExecutionState.SUCCEEDED, job.log(file="stderr.txt")
    assert [file.name for file in place.backend.files(job.id, "MODEL")] == ["x"]
    path = job.show().output_path_segment + "/outputs/kept/x"
    assert place.backend.storage.download(place.share, path) == b"x\n"
    assert [file.name for file in place.backend.files(job.id, "THERE")] == ["after", "before"]


@pytest.mark.sample
@pytest.mark.needs("execution_log")
def test_one_that_has_to_be_there_and_is_not_fails_the_job_by_name(place: Place) -> None:
    job = run(place, "echo ran", outputDirectories=[output(createNew=False)])
    code, message = failure(job)
    assert (code, job.log()) == ("JobPreparationFailed", "")
    assert "autoafs/kept ($AZ_BATCHAI_OUTPUT_MODEL) is not there, and createNew is false" in message


def test_input_directories_are_made_or_looked_for_when_that_is_asked(place: Place) -> None:
    made = {"id": "A", "path": f"{MOUNTED}/new", "createNew": True}
    inside = {"id": "B", "path": "$AZ_BATCHAI_INPUT_A", "createNew": False}
    job = run(place, "ls -d $AZ_BATCHAI_INPUT_B", inputDirectories=[made, inside])
    assert job.log().endswith("/autoafs/new\n")
    unasked = {"id": "C", "path": f"{MOUNTED}/nowhere"}
    assert place.backend.delete(job.id) is None
    assert run(place, "true", inputDirectories=[unasked]).state is ExecutionState.SUCCEEDED


@pytest.mark.needs("storage")
def test_one_that_cannot_be_made_fails_the_job_by_name(place: Place) -> None:
    place.backend.storage.make(place.share)
    place.backend.storage.upload(place.share, {"kept": b"a file in the way"})
    given = [{"id": "A", "path": f"{MOUNTED}/kept/below", "createNew": True}]
    code, message = failure(run(place, "true", inputDirectories=given))
    assert code == "JobPreparationFailed"
    assert "$AZ_BATCHAI_INPUT_A) cannot be made: Not a directory" in message
