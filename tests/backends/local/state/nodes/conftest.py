"""A cluster, and a clock that stands still."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace

import pytest

from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.models.resource_ids import ResourceId
from tests.backends.local.state.nodes.table import NOW
from tests.backends.local.still import Still
from tests.contract.place import manual


class Calendar:
    """Stands in for `datetime`: it is always the same moment."""

    @staticmethod
    def now(zone: timezone) -> datetime:
        assert zone is timezone.utc
        return datetime.fromtimestamp(NOW, zone)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (node_table, job_table, node_table):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: NOW))
    monkeypatch.setattr(node_table, "datetime", Calendar)


@pytest.fixture
def cluster(still: Still) -> ResourceId:
    """A cluster without nodes, beside another one."""
    still.cluster("other", scale=manual(0))
    return still.cluster(scale=manual(0))
