"""A place with two jobs, a publisher and a page that records what it is given."""

import math

import pytest

from batchai_magics.widgets.comparison import comparison_view
from tests.widgets.core.recorded_page import Page
from tests.widgets.scripted_cluster import ExecutionState, ScriptedCluster


@pytest.fixture
def page(monkeypatch):
    return Page(monkeypatch, is_asking=True)


@pytest.fixture
def place(tmp_path):
    made = ScriptedCluster(tmp_path)
    made.run("one", rates=[130] * 4)
    made.run("two", ExecutionState.QUEUED)
    return made


@pytest.fixture
def publisher(publisher, monkeypatch):
    """Whatever a summary costs of the processor, the next one is not put off: the clock is the test's."""
    monkeypatch.setattr(comparison_view, "MAX_CPU_SHARE", math.inf)
    publisher.run_in_background = lambda task: task()
    return publisher
