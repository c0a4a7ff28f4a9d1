"""Every test of job handles has a world of its own."""

import pytest

from batchai_magics.jobs import submission_recorder
from tests.patience import PATIENCE_S
from tests.world import world

__all__ = ["world"]


@pytest.fixture
def unhurried_git(monkeypatch):
    """A submission waits for git as long as it takes on a busy machine."""
    monkeypatch.setattr(submission_recorder, "TIMEOUT_S", PATIENCE_S)
