"""So many requests at once and no more, each counted and logged; work in threads goes with who wanted it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from batchai_magics.server.http.request_limits import RequestGuard, ServerLimits, ThreadPool
from batchai_magics.server.http.request_telemetry import MAX_LOG_FILES, AccessLog, ServerMetrics
from tests.patience import PATIENCE_S
from tests.world import until


class App:
    """An application whose answers go out when it is told."""

    def __init__(self) -> None:
        self.go, self.begun = anyio.Event(), 0

    async def __call__(self, scope, receive, send) -> None:
        self.begun += 1
        await send({"type": "http.response.start", "status": 200})
        await self.go.wait()
        await send({"type": "http.response.body", "body": b""})


async def _nothing() -> None:
    await anyio.sleep_forever()


async def answered(guard: RequestGuard, path: str = "/x") -> Sequence[dict]:
    """What goes out for a request."""
    sent: list[dict] = []

    async def send(message: dict) -> None:
        sent.append(message)

    await guard({"type": "http", "method": "GET", "path": path}, _nothing, send)
    return sent


def numbers(metrics: ServerMetrics) -> dict[str, float]:
    lines = metrics.exposition().body.decode().splitlines()
    return {line.split()[0]: float(line.split()[-1]) for line in lines if not line.startswith("#")}


def test_requests_beyond_the_limit_are_refused_until_one_has_ended() -> None:
    metrics = ServerMetrics()

    async def crowd() -> None:
        app = App()
        guard = RequestGuard(app, ServerLimits(streams=2), None, metrics)
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(answered, guard)
            while app.begun < 2:
                await anyio.lowlevel.checkpoint()
            with anyio.fail_after(PATIENCE_S):
                start, body = await answered(guard)
            assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"1")
            assert json.loads(body["body"])["error"]["code"] == "ServerBusy"
            assert app.begun == 2
            app.go.set()
        assert [message.get("status") for message in await answered(guard)] == [200, None]

    anyio.run(crowd)
    told = numbers(metrics)
    assert told["batchai_requests_refused_total"] == 1
    assert told['batchai_requests_total{method="GET",status="200"}'] == 3
    assert told["batchai_requests_open"] == 0


def test_failed_request_no_longer_counts_towards_the_limit() -> None:
    async def failing(scope, receive, send) -> None:
        raise RuntimeError("defect")

    async def again() -> None:
        guard = RequestGuard(failing, ServerLimits(streams=1), None, ServerMetrics())
        for _ in range(2):
            with pytest.raises(RuntimeError, match="defect"):
                await answered(guard)

    anyio.run(again)


def test_a_request_for_a_token_of_this_machine_is_not_written_down(tmp_path: Path) -> None:
    async def refuse(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 401})

    async def ask() -> None:
        for path in ("/msi/token", "/other"):
            await answered(guard, path)

    log = AccessLog(tmp_path / "log")
    guard = RequestGuard(refuse, ServerLimits(), log, ServerMetrics())
    anyio.run(ask)
    log.close()
    assert [json.loads(line)["path"] for line in (tmp_path / "log").read_text().splitlines()] == ["/other"]


def test_a_log_that_is_large_makes_room_for_another_and_the_oldest_goes(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "access.log", max_bytes=100)
    for number in range(50):
        log.record("PUT", f"/{number}", 200, {})
    log.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == MAX_LOG_FILES + 1
    assert all(file.stat().st_size < 300 for file in files)
    assert json.loads((tmp_path / "access.log").read_text().splitlines()[-1])["path"] == "/49"


def test_access_log_has_changes_and_refusals_but_no_reads(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "access.log")
    for method, status in (("GET", 200), ("GET", 404), ("GET", 401), ("DELETE", 404)):
        log.record(method, "/x", status, {})
    for status in (200, 403):
        log.record("POST", "/x", status, {}, is_read=True)
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
    written = [(line["method"], line["status"]) for line in lines]
    assert written == [("GET", 401), ("DELETE", 404), ("POST", 403)]


def test_generator_is_closed_when_its_reader_stops() -> None:
    ended = threading.Event()

    def chunks() -> Iterator[bytes]:
        try:
            while True:
                yield b"x"
        finally:
            ended.set()

    source = chunks()  # held here: what nobody holds any more would end by itself

    async def first() -> bytes:
        async for piece in (stream := ThreadPool(2).iterate(source)):
            await stream.aclose()
            return piece
        return b""

    assert anyio.run(first) == b"x"
    assert ended.wait(PATIENCE_S)


def test_cancelled_caller_does_not_wait_for_its_thread() -> None:
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


def test_generator_is_closed_after_its_current_chunk_is_done() -> None:
    go, began, steps = threading.Event(), threading.Event(), list[str]()

    def chunks() -> Iterator[bytes]:
        try:
            began.set()
            assert go.wait(PATIENCE_S)
            steps.append("made")
            yield b"piece"
        finally:
            steps.append("closed")

    source = chunks()

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
