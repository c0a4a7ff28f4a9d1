"""What is news to whom, how long they wait for it, and how often is looked for them."""

from __future__ import annotations

import math

import anyio
import pytest

from batchai_magics.backends.service.extension_wire import SINCE, STATE
from batchai_magics.server.api_call import ApiCall, ApiResponse, content_digest
from batchai_magics.server.http.long_polling import LongPolling, wait_s
from batchai_magics.server.http.request_limits import ServerLimits

LIMITS = ServerLimits(wait_s=20.0)
pytestmark = pytest.mark.usefixtures("slept")
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


def state_of(call: ApiCall, answers: Replies, limits: ServerLimits = LIMITS) -> ApiResponse:
    return anyio.run(LongPolling(limits).wait_for_state, call, answers)


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


def test_who_waits_is_answered_when_the_state_is_another_one(slept: list[float]) -> None:
    answers = Replies(*[ApiResponse(data={"a": 1})] * 3, ApiResponse(data={"a": 2}))
    answer = state_of(call(**WAIT, **{SINCE: content_digest({"a": 1})}), answers)
    assert (answer.data, answer.headers[STATE]) == ({"a": 2}, content_digest({"a": 2}))
    assert (answers.asked, answer.headers["Preference-Applied"]) == (4, "wait=20")


def test_who_waits_in_vain_is_answered_at_the_end_of_their_time(slept: list[float]) -> None:
    same = Replies(ApiResponse(data={"a": 1}))
    assert state_of(call(prefer="wait=1", **{SINCE: content_digest({"a": 1})}), same).data == {"a": 1}
    assert math.fsum(slept) == pytest.approx(1.0)


def test_who_does_not_wait_and_who_changes_something_are_answered_once(slept: list[float]) -> None:
    known = {SINCE: content_digest({"a": 1})}
    for asked in (call(**known), call("PUT", **WAIT, **known), call("DELETE", **WAIT, **known)):
        answers = Replies(ApiResponse(data={"a": 1}, is_news=False))
        assert (STATE in state_of(asked, answers).headers, answers.asked) == (False, 1)
    assert slept == []


def test_an_action_has_the_state_that_its_handler_says_and_else_none() -> None:
    told = state_of(call("POST", **WAIT, **{SINCE: "old"}), Replies(ApiResponse(data={}, state="new")))
    assert told.headers[STATE] == "new"
    assert (
        STATE
        not in state_of(call("POST", **WAIT), Replies(ApiResponse(data={})), ServerLimits(wait_s=1.0)).headers
    )


def test_an_answer_that_says_itself_whether_it_is_news_is_believed(slept: list[float]) -> None:
    answers = Replies(ApiResponse(data={"a": 1}, is_news=False), ApiResponse(data={"a": 1}, is_news=True))
    state_of(call(**WAIT, **{SINCE: "other"}), answers)
    assert answers.asked == 2


def test_who_read_a_file_to_its_end_is_answered_when_there_is_more() -> None:
    async def ask(call: ApiCall, answers: Replies) -> ApiResponse:
        return await LongPolling(LIMITS).wait_for_bytes(call, answers)

    for asked, times in ((call(**WAIT), 3), (call(), 1), (call("PUT", **WAIT), 1)):
        answers = Replies(ApiResponse(416), ApiResponse(416), ApiResponse(206))
        anyio.run(ask, asked, answers)
        assert answers.asked == times
    missing = Replies(ApiResponse(404))
    assert anyio.run(ask, call(**WAIT), missing).status == 404
    assert missing.asked == 1


def test_the_more_wait_the_more_rarely_is_looked_and_who_has_gone_counts_no_more(slept: list[float]) -> None:
    desk, many = LongPolling(ServerLimits(wait_s=10.0)), 100
    same, known = ApiResponse(data={"a": 1}), {SINCE: content_digest({"a": 1})}

    async def crowd() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(many):
                group.start_soon(desk.wait_for_state, call(prefer="wait=10", **known), Replies(same))

    anyio.run(crowd)
    assert max(slept) == pytest.approx(0.5)
    before = len(slept)
    anyio.run(desk.wait_for_state, call(**WAIT, **known), Replies(same))
    assert max(slept[before:]) == pytest.approx(0.1)
