"""Every test of job handles has a world of its own."""

import pytest

from batchai_magics.backends.base.backend_registry import select_settings
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.jobs import submission_recorder
from tests.patience import PATIENCE_S
from tests.widgets.scripted_job import ScriptedBackend
from tests.world import processes_of, until, world

__all__ = ["world"]


@pytest.fixture
def backend(tmp_path):
    """A job whose state and log a test writes."""
    return ScriptedBackend(tmp_path / "job")


@pytest.fixture
def home(tmp_path):
    """The home of the backend that is selected."""
    select_settings(Settings(sections={"local": LocalSettings(home=tmp_path / "home")}))
    yield tmp_path / "home"
    select_settings(None)
    until(lambda: not processes_of(tmp_path / "home"))


@pytest.fixture
def unhurried_git(monkeypatch):
    """A submission waits for git as long as it takes on a busy machine."""
    monkeypatch.setattr(submission_recorder, "TIMEOUT_S", PATIENCE_S)
