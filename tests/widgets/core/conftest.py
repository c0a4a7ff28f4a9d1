"""A page that records what it is given."""

import pytest

from tests.widgets.core.recorded_page import Page


@pytest.fixture
def page(monkeypatch):
    return Page(monkeypatch)
