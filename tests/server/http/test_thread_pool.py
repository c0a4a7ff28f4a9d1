"""Pieces made in threads: in order, one at a time, and closed when nobody wants them any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import anyio

from batchai_magics.server.http.request_limits import ThreadPool
from tests.patience import PATIENCE_S
from tests.world import until


def test_pieces_that_nobody_wants_any_more_are_not_made_and_what_makes_them_ends() -> None:
    ended = threading.Event()

    def pieces() -> Iterator[bytes]:
        try:
            while True:
                yield b"x"
        finally:
            ended.set()

    source = pieces()  # held here: what nobody holds any more would end by itself

    async def first() -> bytes:
        async for piece in (stream := ThreadPool(2).iterate(source)):
            await stream.aclose()
            return piece
        return b""

    assert anyio.run(first) == b"x"
    assert ended.wait(PATIENCE_S)


def test_who_has_gone_is_not_waited_for() -> None:
    go, began = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert go.wait(PATIENCE_S)

    async def leave() -> bool:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(ThreadPool(1).run, work)
                await anyio.to_thread.run_sync(began.wait, PATIENCE_S)
                scope.cancel()
        return not go.is_set()

    try:
        waited = threading.Timer(PATIENCE_S / 2, go.set)
        waited.start()
        assert anyio.run(leave)
    finally:
        waited.cancel()
        go.set()


def test_a_piece_that_is_under_way_ends_before_what_makes_it_is_closed() -> None:
    go, began, steps = threading.Event(), threading.Event(), list[str]()

    def pieces() -> Iterator[bytes]:
        try:
            began.set()
            assert go.wait(PATIENCE_S)
            steps.append("made")
            yield b"piece"
        finally:
            steps.append("closed")

    source = pieces()

    async def collect() -> None:
        async for _ in ThreadPool(2).iterate(source):
            pass

    async def leave() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(collect)
            await anyio.to_thread.run_sync(began.wait, PATIENCE_S)
            group.cancel_scope.cancel()

    anyio.run(leave)
    go.set()
    until(lambda: len(steps) == 2)
    assert steps == ["made", "closed"]
