"""Who settles the store at the same time as others is served by one of them."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from batchai_magics.backends.local import reconciler, runner
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.errors import StorageError
from tests.world import FOLLOWED, World, until, world

__all__ = ["world"]
THREADS = 10


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> itertools.count:
    """A clock that moves with each look at it."""
    ticks = itertools.count()
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    return ticks


def looked_at(clock: itertools.count) -> int:
    return int(repr(clock).removeprefix("count(").rstrip(")"))


def test_threads_that_settle_at_once_are_served_by_one_of_them(
    world: World, clock: itertools.count, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, runs = threading.Event(), []
    FOLLOWED.discard(world.backend)  # only these threads reconcile

    def kept_up(*values: object, **named: object) -> list[object]:
        runs.append(values)
        may_end.wait()
        return []

    mine = runner.LocalRunner(world.backend.store, world.backend.layout, LocalSettings())
    with monkeypatch.context() as patch, ThreadPoolExecutor(THREADS) as pool:
        patch.setattr(reconciler, "reconcile_if_due", kept_up)
        first = pool.submit(mine.reconcile)
        until(lambda: runs)
        others = [pool.submit(mine.reconcile) for _ in range(THREADS - 1)]
        try:
            until(lambda: looked_at(clock) == THREADS + 1)  # each has asked, and the first has begun
        finally:
            may_end.set()
        for each in (first, *others):
            each.result()
    assert len(runs) == 2  # what the first found is too old for the others


def test_one_that_failed_serves_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[object] = []

    def failing(*values: object, **named: object) -> list[object]:
        runs.append(values)
        raise StorageError("the disk is full")

    mine = runner.LocalRunner(world.backend.store, world.backend.layout, LocalSettings())
    with monkeypatch.context() as patch:
        patch.setattr(reconciler, "reconcile_if_due", failing)
        patch.setattr(runner, "FRESH_S", 1000.0)
        for _ in range(2):
            with pytest.raises(StorageError):
                mine.reconcile()
    assert len(runs) == 2
