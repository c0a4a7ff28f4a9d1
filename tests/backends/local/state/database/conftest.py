"""A store, its file, and another that may not write to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.local.state.store import Store
from tests.backends.local.state.database.rows import written


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home" / "state.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


@pytest.fixture
def read_only(store: Store, path: Path, monkeypatch) -> Store:
    """A store whose folder nobody may write to, with a change that is in the journal alone."""
    written(store)
    monkeypatch.setattr(private_files, "is_read_only", lambda folder: folder == path.parent)
    return Store(path)
