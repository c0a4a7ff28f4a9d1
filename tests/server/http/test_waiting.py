"""Calls that wait, through the middleware: what is asked again, by which handler, and what comes at last."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from batchai_magics.backends.service.extension_wire import SINCE, STATE
from batchai_magics.errors import NotFoundError
from batchai_magics.server.api_call import ApiCall, ApiResponse, content_digest
from batchai_magics.server.handler_context import Route
from batchai_magics.server.http import long_polling
from batchai_magics.server.http.asgi_app import HandlerEndpoint
from batchai_magics.server.http.long_polling import ByteWaiter, ChangeWaiter, LongPolling
from batchai_magics.server.http.request_limits import ServerLimits, ThreadPool
from batchai_magics.server.http.response_encoder import ErrorResponses, error_response
from batchai_magics.server.storage.storage_resource import StorageApiError, storage_error_response
from tests.server.http.scopes import ask, responding, scope_of

pytestmark = pytest.mark.usefixtures("slept")
WAIT = {"prefer": "wait=20"}
CONTEXT = SimpleNamespace(check_subscription=lambda call: None)
GONE = NotFoundError("there is no job j", code="JobNotFound")


class Handled:
    """Responses or errors one after the other, as a handler has them; the last one again and again."""

    def __init__(self, *outcomes: ApiResponse | Exception) -> None:
        self.outcomes, self.count = outcomes, 0

    def __call__(self, *_: object) -> ApiResponse:
        self.count += 1
        outcome = self.outcomes[min(self.count, len(self.outcomes)) - 1]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def scope_with(method: str = "GET", **headers: str) -> dict[str, Any]:
    return {**scope_of(method), "call": ApiCall(method, "/here", headers=headers)}


def test_a_call_that_does_not_wait_is_handled_once() -> None:
    handled = Handled(ApiResponse(data={"a": 1}))
    answer = ask(ChangeWaiter(responding(handled), LongPolling(ServerLimits())), scope_with())
    assert (answer.data, handled.count, STATE in answer.headers) == ({"a": 1}, 1, False)


def test_an_error_is_a_state_that_is_waited_for_to_change() -> None:
    known = {**WAIT, SINCE: content_digest(error_response(GONE).data)}
    handled = Handled(GONE, GONE, ApiResponse(data={"name": "j"}))
    app = ChangeWaiter(ErrorResponses(responding(handled)), LongPolling(ServerLimits()))
    assert ask(app, scope_with(**known)).data == {"name": "j"}
    assert handled.count == 3


def test_a_read_beyond_the_end_is_tried_until_there_are_bytes() -> None:
    beyond = StorageApiError(416, "InvalidRange", "Beyond the end.")
    handled = Handled(beyond, beyond, ApiResponse(206, body=b"more"))
    app = ByteWaiter(ErrorResponses(responding(handled), storage_error_response), LongPolling(ServerLimits()))
    assert ask(app, scope_with(**WAIT)).body == b"more"
    assert handled.count == 3


class Counting:
    """A watcher whose poll counts, and has bytes at the third."""

    def __init__(self, call: ApiCall) -> None:
        self.call, self.polled = call, []

    def poll(self, context: object, last: ApiResponse | None) -> ApiResponse:
        self.polled.append((context, last and last.data))
        return ApiResponse(data=last.data + 1 if last else 1)

    def state(self, polled: int) -> str:
        return f"state {polled}"

    def first_state(self, polled: int) -> str:
        return "first"

    def is_other_state(self, polled: int, known: str) -> bool:
        return False

    def has_bytes(self, polled: int) -> bool:
        return polled == 3


def test_a_watchers_polls_take_the_place_of_the_handler_until_there_is_news() -> None:
    made: list[Counting] = []

    def watch(call: ApiCall) -> Counting:
        made.append(Counting(call))
        return made[-1]

    handled = Handled(ApiResponse(data="bytes", is_news=True))

    async def run(scope: dict[str, Any]) -> ApiResponse:
        endpoint = HandlerEndpoint(Route("POST", "/x", handled), CONTEXT, ThreadPool(1))  # type: ignore[arg-type]
        app = ChangeWaiter(ErrorResponses(endpoint), LongPolling(ServerLimits()), watch)
        return await long_polling.response_of(app, scope, anyio.sleep_forever)

    scope = scope_with("POST", **WAIT)
    answer = anyio.run(run, scope)
    assert (answer.data, answer.headers[STATE], handled.count) == ("bytes", "state 3", 1)
    (watcher,) = made
    assert watcher.call is scope["call"]
    assert watcher.polled == [(CONTEXT, None), (CONTEXT, 1), (CONTEXT, 2)]
    assert "handler" not in scope


def test_a_watcher_that_fails_ends_the_waiting_with_its_error() -> None:
    class Failing(Counting):
        def poll(self, context: object, last: ApiResponse | None) -> ApiResponse:
            raise GONE

    async def run() -> ApiResponse:
        route = Route("POST", "/x", Handled(ApiResponse()))
        endpoint = HandlerEndpoint(route, CONTEXT, ThreadPool(1))  # type: ignore[arg-type]
        app = ChangeWaiter(ErrorResponses(endpoint), LongPolling(ServerLimits()), Failing)
        return await long_polling.response_of(app, scope_with("POST", **WAIT), anyio.sleep_forever)

    assert anyio.run(run).status == 404


def test_the_first_of_a_crowd_to_return_waits_as_long_as_the_crowd_would(slept: list[float]) -> None:
    class Growing(Counting):
        def has_bytes(self, polled: int) -> bool:
            return True

    async def run(crowd: int) -> float:
        call, waiting = ApiCall("POST", "/here", headers=WAIT), LongPolling(ServerLimits())

        async def poll(last: ApiResponse | None) -> ApiResponse:
            return ApiResponse(data=1)

        async def tail() -> ApiResponse:
            return ApiResponse(is_news=True)

        async def wait() -> None:
            await waiting.wait_for_watcher(call, Growing(call), poll=poll, ask=tail)

        async with anyio.create_task_group() as clients:
            for _ in range(crowd):
                clients.start_soon(wait)
        before = len(slept)
        await wait()
        return max(slept[before:])

    assert anyio.run(run, 200) > anyio.run(run, 1)
