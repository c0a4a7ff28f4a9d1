"""A server for the tests of a file, in front of a local backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.running import Running, serving
from tests.world import world

__all__ = ["server", "world"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("server") / "home") as running:
        yield running
