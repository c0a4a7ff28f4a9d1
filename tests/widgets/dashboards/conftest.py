"""A place with two jobs, and a page that records what it is given."""

import pytest

from tests.widgets.core.recorded_page import Page
from tests.widgets.scripted_cluster import ExecutionState, ScriptedCluster


@pytest.fixture
def page(monkeypatch):
    return Page(monkeypatch, is_asking=True)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("BATCHAI_HEADLINE_METRIC", "images/sec")
    made = ScriptedCluster(tmp_path)
    made.run("resnet", rates=[100, 200, 300])
    made.run("old", ExecutionState.FAILED, exit_code=1, rates=[50, 60])
    return made
