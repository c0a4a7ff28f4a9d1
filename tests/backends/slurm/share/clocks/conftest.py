"""Two hosts, here and elsewhere, that ask one Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.slurm.scripted_slurm import ScriptedClient
from tests.backends.slurm.share.clocks.hosts import Host


@pytest.fixture
def slurm_client() -> ScriptedClient:
    made = ScriptedClient()
    made.report("RUNNING")
    return made


@pytest.fixture
def other(tmp_path: Path, slurm_client: ScriptedClient) -> Host:
    """The host whose clock is off."""
    return Host(tmp_path, slurm_client)


@pytest.fixture
def here(tmp_path: Path, slurm_client: ScriptedClient) -> Host:
    """The host whose clock is right."""
    return Host(tmp_path, slurm_client)
