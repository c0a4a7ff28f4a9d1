"""A service over an engine in memory, whose home is in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.service.engine import EngineHome, filled


@pytest.fixture
def home(tmp_path: Path) -> EngineHome:
    return filled(tmp_path / "home")
