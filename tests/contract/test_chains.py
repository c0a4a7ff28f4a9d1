"""Jobs that start after others: `--after` and `--after-any`."""

from __future__ import annotations

import pytest

from batchai_magics.commands.handlers.job_submission import resubmission
from batchai_magics.errors import BatchAIError, NotFoundError, SpecError, UsageError
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.states import ExecutionState
from tests.contract.place import HOLD, Place
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("engine"), pytest.mark.needs("chains")]


def after(*jobs: ResourceId, field: str = "batchaiAfter") -> dict[str, list[str]]:
    return {field: list(map(str, jobs))}


def after_any(*jobs: ResourceId) -> dict[str, list[str]]:
    return after(*jobs, field="batchaiAfterAny")


def waiting(place: Place, job: ResourceId) -> str:
    """Why a queued job waits."""
    shown = place.backend.show(job)
    assert shown.state is ExecutionState.QUEUED
    return shown.waiting


def error_of(place: Place, job: ResourceId) -> tuple[str, str]:
    """The code and the message of why a job failed."""
    (error,) = place.wait(job).execution.errors
    return error.code, error.message


@pytest.mark.sample
def test_a_job_starts_once_its_predecessor_has_succeeded_and_names_it_before(place: Place) -> None:
    first = place.start("while [ ! -e $AZ_BATCHAI_MOUNT_ROOT/autoafs/go ]; do sleep 0.05; done", "first")
    second = place.start("echo ran", "second", **after(first))
    until(lambda: waiting(place, second) == "first has to succeed first")
    place.put("other", "")
    place.backend.storage.upload(place.share, {"go": b""})
    assert place.wait(second).state is ExecutionState.SUCCEEDED
    assert place.log(second) == b"ran\n"
    assert place.backend.show(first).execution.ended <= place.backend.show(second).execution.started
    assert place.run(name="at-once", **after(first, second)).state is ExecutionState.SUCCEEDED


@pytest.mark.sample
def test_all_that_follow_a_job_that_fails_end_with_its_name(place: Place) -> None:
    first = place.start("sleep 1; exit 3", "first")
    second = place.start("echo ran", "second", **after(first))
    third = place.start("echo ran", "third", **after(second))
    either_way = place.start("echo ran", "either-way", **after_any(first))
    assert place.wait(either_way).state is ExecutionState.SUCCEEDED
    code, text = error_of(place, second)
    assert (code, "first did not succeed" in text) == ("DependencyFailed", True)
    code, text = error_of(place, third)
    assert (code, "second did not succeed" in text) == ("DependencyFailed", True)
    code, text = error_of(place, place.start(name="at-once", **after(either_way, first)))
    assert (code, "first did not succeed" in text) == ("DependencyFailed", True)
    assert place.run(name="any-at-once", **after_any(first)).state is ExecutionState.SUCCEEDED


@pytest.mark.sample
def test_a_deleted_or_cancelled_predecessor_ends_what_waits_for_it_which_can_be_cancelled(
    place: Place,
) -> None:
    gone, ended = place.start(HOLD, "gone"), place.start(HOLD, "ended")
    jobs = [place.start(name="one", **after(gone)), place.start(name="two", **after_any(gone))]
    waits, cancelled = (place.start(name=name, **after(ended)) for name in ("waits", "cancelled"))
    place.backend.delete(gone)
    for job in jobs:
        code, text = error_of(place, job)
        assert (code, "gone was deleted" in text) == ("DependencyFailed", True)
        again = resubmission(place.backend, place.backend.show(job), {})
        assert again.notes == ("It does not wait for gone any more: deleted.",)
        assert (again.spec.batchai_after, again.spec.batchai_after_any) == (None, None)
    place.backend.terminate(cancelled)
    assert error_of(place, cancelled)[0] == "JobTerminated"
    place.backend.terminate(ended)
    assert error_of(place, waits)[0] == "DependencyFailed"


@pytest.mark.decided_by("service")
def test_a_predecessor_that_is_missing_or_the_job_itself_is_refused_before_the_submission(
    place: Place,
) -> None:
    elsewhere = place.workspace.child(Kind.EXPERIMENT, "other").child(Kind.JOB, "job")
    for id in (place.job("missing"), elsewhere):
        with pytest.raises(NotFoundError, match=id.name):
            place.start(name="second", **after(id))
    with pytest.raises(SpecError, match="its own end"):
        place.start(name="second", **after(place.job("second")))
    with pytest.raises((SpecError, UsageError)):
        place.start(name="second", batchaiAfter=[str(place.cluster)])
    with pytest.raises(BatchAIError, match="missing"):
        place.submit("second --after missing")
    assert place.backend.names(place.experiment, Kind.JOB) == []


@pytest.mark.decided_by("service")
def test_a_name_means_its_latest_run_which_is_part_of_what_a_cell_is(place: Place) -> None:
    place.run_cell("prep", "print(1)")
    first = place.submit("train --after prep")
    assert place.submit("train --after prep").id == first.id
    place.run_cell("prep", "print(2)")
    second = place.submit("train --after prep").wait()
    assert (second.name, second.show().spec.batchai_after) == ("train-2", (str(place.job("prep-2")),))
