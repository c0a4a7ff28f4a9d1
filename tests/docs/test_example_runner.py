"""What the example runner does after a kill between two of its writes."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.states import ExecutionState
from tests.contract.place import HOLD, Place, PlaceOptions
from tests.contract.places import PLACES

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place whose nodes are busy, so that other jobs wait."""
    with PLACES["processes"].open(tmp_path, PlaceOptions()) as place:
        place.is_up(place.start(HOLD, "busy", nodeCount=2))
        yield place


def folder(place: Place, job: ResourceId) -> JobLayout:
    layout = place.backend.context.runner._layout
    return layout.job(place.backend.context.repository.get(job).guid)


def interrupted(place: Place, begun: str) -> ResourceId:
    """A queued job that somebody was about to start or to end when he was killed."""
    job = place.start("true", "interrupted")
    (folder(place, job).root / "begun").write_text(begun)
    return job


@pytest.mark.parametrize(
    ("begun", "codes"),
    [("[[], null]", ["JobTerminated"]), ('[["node1"], 1.0]', ["JobSupervisorLost"])],
    ids=["stop", "start"],
)
def test_a_job_whose_start_or_stop_was_interrupted_has_ended_and_frees_its_place(
    place: Place, begun: str, codes: list[str]
) -> None:
    job = interrupted(place, begun)
    ended = place.backend.show(job)
    assert ended.state is ExecutionState.FAILED
    assert [error.code for error in ended.execution.errors] == codes
    other = place.start("true", "other", nodeCount=2)
    place.backend.terminate(place.job("busy"))
    assert place.wait(other).state is ExecutionState.SUCCEEDED
    assert not folder(place, job).environment.exists()  # which may have secrets


def test_a_job_whose_submission_was_interrupted_is_lost(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = place.start("true", "half")
    (entry,) = folder(place, job).root.parents[1].glob(f"clusters/*/queue/* {folder(place, job).root.name}")
    entry.unlink()
    assert place.backend.show(job).state is ExecutionState.QUEUED
    monkeypatch.setattr(sys.modules["example_runner"], "SUBMISSION_S", 0.0)
    assert [error.code for error in place.backend.show(job).execution.errors] == ["JobSupervisorLost"]
