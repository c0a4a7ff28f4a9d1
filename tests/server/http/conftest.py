"""A clock for requests that wait."""

from __future__ import annotations

import math

import anyio
import pytest

from batchai_magics.server.http import long_polling


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was slept, by a clock that only moves then."""
    naps: list[float] = []

    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(long_polling.anyio, "sleep", sleep)
    monkeypatch.setattr(long_polling.time, "monotonic", lambda: math.fsum(naps))
    return naps
