"""What stands between a route and its handler: errors become answers, and nothing is a surprise."""

from __future__ import annotations

import logging
import traceback
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from batchai_magics.errors import BatchAIError, is_disk_full
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.errors import DEFECT, body_of, refusal, server_full, status_of
from batchai_magics.server.http.bodies import Bodies, Sender, Upload
from batchai_magics.server.http.messages import address_of, head_of, response_of
from batchai_magics.server.http.threads import Threads
from batchai_magics.server.http.versions import versioned
from batchai_magics.server.http.waiting import Waiting
from batchai_magics.server.published import published
from batchai_magics.server.service import Handler, Route, Service

LOG = logging.getLogger("batchai.server")
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Desk:
    """What all endpoints share."""

    service: Service
    threads: Threads
    streams: Threads  # of answers that are made as they go out: a command on a node writes for hours
    bodies: Bodies
    waiting: Waiting


def endpoint(route: Route, desk: Desk, most_bytes: int) -> Endpoint:
    """The route as Starlette calls it, for a user who is let in and bodies that are not larger."""

    async def respond(request: Request) -> Response:
        call = head_of(request)
        upload = Upload(Sender(call.user.name, address_of(request)), most_bytes)
        try:
            with desk.bodies.room_for(call, upload):
                ready = replace(call, body=await desk.bodies.read(request, upload))
                answer = await _answer(route, desk, ready)
        except BatchAIError as error:
            answer = refused(error)
        return response_of(published(answer, call, route), desk.streams)

    return respond


async def _answer(route: Route, desk: Desk, call: Call) -> Answer:
    """The answer to a call, when it is due. Raises a refusal of what cannot be waited for."""

    async def run(handler: Handler) -> Answer:
        return await desk.threads.run(lambda: answered(versioned(route, handler), desk.service, call))

    ask = partial(run, route.handler)
    if not (route.watch and desk.waiting.is_wanted(call)):
        return await desk.waiting.for_state(call, ask)
    watcher = route.watch(call)

    async def poll(last: Answer | None) -> Answer:
        return await run(lambda service, _: watcher.poll(service, last))

    return await desk.waiting.for_news(call, watcher, poll=poll, ask=ask)


def answered(handler: Handler, service: Service, call: Call) -> Answer:
    """What the handler gives, or the answer that tells its error."""
    try:
        return handler(service, call)
    except BatchAIError as error:
        return refused(error)
    except Exception as error:  # noqa: BLE001  a defect of ours: it is written down, and the client told its number
        return refused(foreseen_or_defect(call, error))


def refused(error: BatchAIError) -> Answer:
    """The answer that tells an error."""
    status = status_of(error)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return Answer(status, body_of(error), {**headers, **_again(status)})


def foreseen_or_defect(call: Call, error: Exception) -> BatchAIError:
    """What to tell of an error that is none of ours; the log has what nobody has foreseen, under a number."""
    if isinstance(error, OSError) and is_disk_full(error):
        return server_full()
    number = uuid.uuid4().hex[:12]
    LOG.error("defect %s at %s %s\n%s", number, call.method, call.path, traceback.format_exc())
    message = f"The server could not do this. Its log says why, under {number}."
    return refusal(500, DEFECT, message)


def _again(status: int) -> dict[str, str]:
    return {"Retry-After": "1"} if status == 503 else {}
