"""Requests that wait for news: how long, how often is looked for them, and who shares a poll."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
import requests

from batchai_magics.backends.service.extension_wire import SINCE, STATE
from batchai_magics.server.api_call import ApiCall, ApiResponse, content_digest
from batchai_magics.server.http.long_polling import LongPolling, SharedPolls, wait_s
from batchai_magics.server.http.request_limits import ServerLimits
from tests.server.http.virtual_time import run
from tests.server.running import WORKSPACE, Running
from tests.server.storage.signed_urls import signed_path
from tests.world import until

LIMITS = ServerLimits(wait_s=20.0)
WAIT = {"prefer": "wait=20"}


class Replies:
    """Answers one after the other; the last one again and again."""

    def __init__(self, *answers: ApiResponse) -> None:
        self.answers, self.asked = answers, 0

    async def __call__(self) -> ApiResponse:
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


def call(method: str = "GET", **headers: str) -> ApiCall:
    return ApiCall(method, "/", headers=headers)


def state_of(call: ApiCall, answers: Replies, naps: list[float] | None = None) -> ApiResponse:
    return run(LongPolling(LIMITS).wait_for_state, call, answers, naps=naps)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("wait=7", 7),
        ("return=representation, wait=7", 7),
        ("wait=7; x", 7),
        ("wait=9999", 20),
        ("wait=0", 0),
        ("", 0),
        ("await=7", 0),
        ("wait=7s", 0),
        ("wait=12345", 0),
    ],
)
def test_a_request_waits_as_long_as_it_says_and_the_server_lets_it(text: str, seconds: float) -> None:
    assert wait_s(call(prefer=text), LIMITS) == seconds


def test_long_poll_returns_when_the_state_changes() -> None:
    answers = Replies(*[ApiResponse(data={"a": 1})] * 3, ApiResponse(data={"a": 2}))
    answer = state_of(call(**WAIT, **{SINCE: content_digest({"a": 1})}), answers)
    assert (answer.data, answer.headers[STATE]) == ({"a": 2}, content_digest({"a": 2}))
    assert (answers.asked, answer.headers["Preference-Applied"]) == (4, "wait=20")


def test_long_poll_without_a_change_returns_at_its_timeout() -> None:
    same, naps = Replies(ApiResponse(data={"a": 1})), []
    waiting = call(prefer="wait=1", **{SINCE: content_digest({"a": 1})})
    assert state_of(waiting, same, naps).data == {"a": 1}
    assert sum(naps) == pytest.approx(1.0)


def test_writes_and_reads_without_prefer_are_answered_at_once() -> None:
    naps: list[float] = []
    known = {SINCE: content_digest({"a": 1})}
    for asked in (call(**known), call("PUT", **WAIT, **known), call("DELETE", **WAIT, **known)):
        answers = Replies(ApiResponse(data={"a": 1}, is_news=False))
        assert (STATE in state_of(asked, answers, naps).headers, answers.asked) == (False, 1)
    assert naps == []


def test_an_action_has_the_state_that_its_handler_says_and_else_none() -> None:
    told = state_of(call("POST", **WAIT, **{SINCE: "old"}), Replies(ApiResponse(data={}, state="new")))
    assert told.headers[STATE] == "new"
    assert STATE not in state_of(call("POST", **WAIT), Replies(ApiResponse(data={}))).headers


def test_response_with_is_news_is_not_compared_with_the_last_one() -> None:
    answers = Replies(ApiResponse(data={"a": 1}, is_news=False), ApiResponse(data={"a": 1}, is_news=True))
    state_of(call(**WAIT, **{SINCE: "other"}), answers)
    assert answers.asked == 2


def test_long_poll_at_the_end_of_a_file_returns_when_it_grows() -> None:
    async def ask(call: ApiCall, answers: Replies) -> ApiResponse:
        return await LongPolling(LIMITS).wait_for_bytes(call, answers)

    for asked, times in ((call(**WAIT), 3), (call(), 1), (call("PUT", **WAIT), 1)):
        answers = Replies(ApiResponse(416), ApiResponse(416), ApiResponse(206))
        run(ask, asked, answers)
        assert answers.asked == times
    missing = Replies(ApiResponse(404))
    assert run(ask, call(**WAIT), missing).status == 404
    assert missing.asked == 1


def test_polling_pause_grows_with_the_number_of_waiting_clients() -> None:
    desk, many, naps = LongPolling(ServerLimits(wait_s=10.0)), 100, list[float]()
    same, known = ApiResponse(data={"a": 1}), {SINCE: content_digest({"a": 1})}

    async def crowd() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(many):
                group.start_soon(desk.wait_for_state, call(prefer="wait=10", **known), Replies(same))
        assert max(naps) == pytest.approx(0.5)
        before = len(naps)
        await desk.wait_for_state(call(**WAIT, **known), Replies(same))
        assert max(naps[before:]) == pytest.approx(0.1)

    run(crowd, naps=naps)


class Polled:
    """A poll that counts its runs, and can be held."""

    def __init__(self) -> None:
        self.runs, self.at_once, self.most_at_once = 0, 0, 0
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self) -> ApiResponse:
        self.runs += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        result = ApiResponse(data=self.runs)
        await self.may_end.wait()
        self.at_once -= 1
        return result


def test_requests_during_a_shared_poll_get_the_next_one() -> None:
    async def late() -> None:
        polls, polled = SharedPolls(), Polled()
        polled.may_end.clear()
        first = asyncio.create_task(polls.next("job", polled))
        while not polled.runs:
            await asyncio.sleep(0)
        others = [asyncio.create_task(polls.next("job", polled)) for _ in range(20)]
        for _ in range(10):
            await asyncio.sleep(0)
        polled.may_end.set()
        assert (await first).data == 1
        assert {answer.data for answer in await asyncio.gather(*others)} == {2}
        assert (polled.runs, polled.most_at_once) == (2, 1)

    asyncio.run(late())


def test_cancelled_request_does_not_cancel_the_shared_poll() -> None:
    async def gone() -> None:
        polls, polled = SharedPolls(), Polled()
        first, other = (asyncio.create_task(polls.next("job", polled)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await other).data == 1
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(gone())


def test_polls_with_different_keys_are_not_shared() -> None:
    async def two() -> None:
        polls, one, other = SharedPolls(), Polled(), Polled()
        await asyncio.gather(polls.next("one", one), polls.next("other", other))
        assert (one.runs, other.runs) == (1, 1)

    asyncio.run(two())


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


def test_first_client_to_return_polls_as_rarely_as_all_would() -> None:
    async def longest_nap(crowd: int, naps: list[float]) -> float:
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
        before = len(naps)
        await wait()
        return max(naps[before:])

    longest = [run(longest_nap, crowd, naps := [], naps=naps) for crowd in (200, 1)]
    assert longest[0] > longest[1]
