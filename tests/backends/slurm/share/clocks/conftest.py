"""Two hosts, here and elsewhere, that ask one Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.slurm.share.clocks.hosts import Host, Told


@pytest.fixture
def told() -> Told:
    made = Told()
    made.say("RUNNING")
    return made


@pytest.fixture
def other(tmp_path: Path, told: Told) -> Host:
    """The host whose clock is off."""
    return Host(tmp_path, told)


@pytest.fixture
def here(tmp_path: Path, told: Told) -> Host:
    """The host whose clock is right."""
    return Host(tmp_path, told)
