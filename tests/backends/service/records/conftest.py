"""Each test of records runs over both kinds of home."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.service.repository import Repository
from tests.backends.service.records.homes import HOMES, Home, filled


@pytest.fixture(params=list(HOMES))
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return HOMES[request.param](tmp_path / "home")


@pytest.fixture
def records(home: Home) -> Repository:
    """A workspace with an experiment and a cluster."""
    return filled(home)
