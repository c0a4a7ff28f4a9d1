"""Calls that wait for what is not there yet, and how often a crowd of watchers looks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
import requests

from batchai_magics.backends.service.extension_wire import SINCE, STATE
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.http.long_polling import LongPolling
from batchai_magics.server.http.request_limits import ServerLimits
from tests.server.running import WORKSPACE, Running
from tests.server.storage.signed_urls import signed_path
from tests.world import until


def answer_after(
    server: Running, ask: Callable[[], requests.Response], change: Callable[[], object]
) -> requests.Response:
    """The answer to a question that waits while something changes."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask)
        until(lambda: server.open_requests() == 1)
        change()
        return waiting.result()


@pytest.mark.slow
def test_an_error_is_a_state_that_is_waited_for_to_change(server: Running) -> None:
    path = f"{WORKSPACE}/experiments/waited-for"
    missing = server.ask("GET", path, headers={"Prefer": "wait=1", SINCE: ""})
    assert missing.status_code == 404
    known = {"Prefer": "wait=30", SINCE: missing.headers[STATE]}
    answer = answer_after(
        server, lambda: server.ask("GET", path, headers=known), lambda: server.json("PUT", path)
    )
    assert answer.json()["name"] == "waited-for"


@pytest.mark.slow
def test_a_read_beyond_the_end_is_answered_when_there_are_bytes(server: Running) -> None:
    storage = server.world.backend.storage
    storage.upload("batchaishare", {"growing.txt": b"old"})
    url = f"{server.url}{signed_path(server, 'batchaishare', 'growing.txt')}"
    answer = answer_after(
        server,
        lambda: requests.get(url, headers={"Range": "bytes=3-", "Prefer": "wait=30"}),
        lambda: storage.change("batchaishare", "growing.txt", 3, b"new"),
    )
    assert (answer.status_code, answer.content) == (206, b"new")


class Growing:
    """A watcher that has bytes at every poll."""

    def first_state(self, polled: int) -> str:
        return "first"

    def state(self, polled: int) -> str:
        return "first"

    def is_other_state(self, polled: int, known: str) -> bool:
        return False

    def has_bytes(self, polled: int) -> bool:
        return True


def test_the_first_of_a_crowd_to_return_waits_as_long_as_the_crowd_would(slept: list[float]) -> None:
    async def run(crowd: int) -> float:
        call = ApiCall("POST", "/here", headers={"prefer": "wait=20"})
        waiting = LongPolling(ServerLimits())

        async def poll(last: ApiResponse | None) -> ApiResponse:
            return ApiResponse(data=1)

        async def tail() -> ApiResponse:
            return ApiResponse(is_news=True)

        async def wait() -> None:
            await waiting.wait_for_watcher(call, Growing(), poll=poll, ask=tail)

        async with anyio.create_task_group() as clients:
            for _ in range(crowd):
                clients.start_soon(wait)
        before = len(slept)
        await wait()
        return max(slept[before:])

    assert anyio.run(run, 200) > anyio.run(run, 1)
