"""What a lead says is remembered by the whole process: here each test has to find it out by itself."""

from __future__ import annotations

import pytest

from batchai_magics.metrics.reading import line_prefixes


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    for remembered in (
        line_prefixes.parse_prefix_cached,
        line_prefixes.prefix_shape,
        line_prefixes.minute_start_s,
    ):
        remembered.cache_clear()
