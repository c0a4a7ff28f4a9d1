"""A clock that stands still."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from batchai_magics.backends.local.state import job_table
from tests.backends.local.state.jobs.table import NOW


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (job_table, job_table):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: NOW))
