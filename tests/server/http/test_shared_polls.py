"""Polls of the same thing are shared, one at a time, and nobody gets a result older than the question."""

from __future__ import annotations

import asyncio

import pytest

from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.http.long_polling import SharedPolls


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


def test_one_poll_serves_all_who_ask_before_it_starts() -> None:
    async def crowd() -> None:
        polls, polled = SharedPolls(), Polled()
        answers = await asyncio.gather(*[polls.next("job", polled) for _ in range(200)])
        assert (polled.runs, {answer.data for answer in answers}) == (1, {1})

    asyncio.run(crowd())


def test_who_asks_while_a_poll_runs_gets_the_next_one_and_two_never_run_at_once() -> None:
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


def test_who_goes_takes_the_poll_from_nobody() -> None:
    async def gone() -> None:
        polls, polled = SharedPolls(), Polled()
        first, other = (asyncio.create_task(polls.next("job", polled)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await other).data == 1
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(gone())


def test_different_things_have_different_polls() -> None:
    async def two() -> None:
        polls, one, other = SharedPolls(), Polled(), Polled()
        await asyncio.gather(polls.next("one", one), polls.next("other", other))
        assert (one.runs, other.runs) == (1, 1)

    asyncio.run(two())
