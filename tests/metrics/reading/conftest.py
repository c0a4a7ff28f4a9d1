"""What a lead says is remembered by the whole process: here each test has to find it out by itself."""

from __future__ import annotations

import pytest

from batchai_magics.metrics.reading import leads


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    for remembered in (leads.recent_lead, leads.shape_of, leads.recent_stamp_in):
        remembered.cache_clear()
