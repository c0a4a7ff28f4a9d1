"""A clock that stands still."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from batchai_magics.backends.local.state import jobs, queue
from tests.backends.local.state.jobs.table import NOW


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (jobs, queue):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: NOW))
