"""A real Slurm, and a place on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.local.boxes import podman, short_folder
from tests.backends.slurm.real_slurm import SHARED, SOON_AGAIN, RealSlurm, running
from tests.contract.place import Place, PlaceOptions
from tests.contract.places import PLACES, place_on

__all__ = ["podman", "short_folder"]


@pytest.fixture
def slurm() -> RealSlurm:
    """The Slurm that all tests of this process share."""
    return SHARED.get()


@pytest.fixture
def again_slurm(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RealSlurm]:
    """A Slurm of two nodes that begins jobs again soon: one that tests share, or with other settings."""
    if more := getattr(request, "param", ""):
        settings = {"count": 2, "silence_s": 2, "kill_wait_s": 10, "more": more}
        with running(RealSlurm, tmp_path / "slurm", **settings) as slurm:
            yield slurm
    else:
        slurm = SOON_AGAIN.get()
        slurm.start_nodes()  # those that a test has killed
        yield slurm


@pytest.fixture
def again_place(again_slurm: RealSlurm, tmp_path: Path) -> Iterator[Place]:
    with place_on(again_slurm, tmp_path, PlaceOptions()) as place:
        yield place


@pytest.fixture
def own_slurm(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RealSlurm]:
    """A Slurm of two nodes that a test may break, or that has settings of its own."""
    settings = {"count": 2, "silence_s": 2, **getattr(request, "param", {})}
    with running(RealSlurm, tmp_path / "slurm", **settings) as slurm:
        yield slurm


@pytest.fixture
def own_place(own_slurm: RealSlurm, tmp_path: Path) -> Iterator[Place]:
    """A backend on it with a cluster of both its nodes."""
    with place_on(own_slurm, tmp_path, PlaceOptions()) as place:
        yield place


# A Slurm that soon kills what it has told to end.
impatient = pytest.mark.parametrize("own_slurm", [{"kill_wait_s": 2}], indirect=True, ids=["impatient"])


@pytest.fixture
def place(slurm: RealSlurm, tmp_path: Path) -> Iterator[Place]:
    """A backend on it with a cluster of two nodes."""
    with PLACES["slurm"].open(tmp_path, PlaceOptions()) as place:
        yield place
