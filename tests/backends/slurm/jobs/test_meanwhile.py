"""What somebody else does while an attempt at a job is on its way to Slurm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.real_slurm import RealSlurm
from tests.contract.place import HOLD, Place, manual
from tests.world import until

pytestmark = pytest.mark.slow


@pytest.fixture
def meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[Place], object]]]:
    """What another process does while a job is on its way to Slurm."""
    acts: list[Callable[[Place], object]] = []
    submit = SlurmClient.submit
    with place.reopen() as other:

        def submit_late(slurm: SlurmClient, *words: Any, **more: Any) -> str:
            for act in acts:
                act(replace(place, backend=other))
            return submit(slurm, *words, **more)

        monkeypatch.setattr(SlurmClient, "submit", submit_late)
        yield acts


def test_a_job_that_is_cancelled_while_it_is_submitted_is_cancelled(
    place: Place, meanwhile: list[Callable[[Place], object]]
) -> None:
    meanwhile.append(lambda other: other.backend.terminate(place.job()))
    assert place.wait(place.start(HOLD)).is_cancelled


def test_a_job_that_is_submitted_while_its_cluster_grows_is_started(
    place: Place, meanwhile: list[Callable[[Place], object]]
) -> None:
    place.scale(place.cluster, manual(0))
    meanwhile.append(lambda other: other.scale(place.cluster, manual(1)))
    assert place.run().state is ExecutionState.SUCCEEDED


def test_a_job_that_is_cancelled_while_it_is_handed_over_again_is_cancelled(
    place: Place, slurm: RealSlurm, meanwhile: list[Callable[[Place], object]]
) -> None:
    id = place.start(HOLD, nodeCount=2)
    place.is_up(id)
    states = []

    def cancel(other: Place) -> None:
        other.backend.terminate(id)
        states.append(other.backend.show(id).state)

    meanwhile.append(cancel)
    place.scale(place.cluster, manual(1))
    assert place.wait(id).is_cancelled
    assert len(states) == 1
    assert states[0] in (ExecutionState.TERMINATING, ExecutionState.FAILED)
    until(slurm.is_idle)
