"""A publisher over a scripted backend, and a page that records what it is given."""

import pytest

from batchai_magics.widgets.core.flow_control import Budget
from batchai_magics.widgets.core.publisher import Publisher
from tests.clock import Clock
from tests.widgets.core.recorded_page import Page
from tests.widgets.scripted_job import ScriptedBackend


@pytest.fixture
def page(monkeypatch):
    return Page(monkeypatch)


@pytest.fixture
def backend(tmp_path):
    return ScriptedBackend(tmp_path)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def budget(clock):
    return Budget(clock)


@pytest.fixture
def publisher(clock, budget):
    return Publisher(clock=clock, budget=budget)
