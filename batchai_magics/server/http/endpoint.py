"""What stands between a route and its handler: errors become answers, and nothing is a surprise."""

from __future__ import annotations

import logging
import traceback
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from batchai_magics.errors import BatchAIError, is_of_a_full_disk
from batchai_magics.server.call import Answer, Call, Handler
from batchai_magics.server.errors import DEFECT, body_of, refusal, server_full, status_of
from batchai_magics.server.http.limits import Limits
from batchai_magics.server.http.messages import call_of, response_of
from batchai_magics.server.http.threads import Threads
from batchai_magics.server.http.waiting import Waiting
from batchai_magics.server.service import Service

LOG = logging.getLogger("batchai.server")
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Desk:
    """What all endpoints share."""

    service: Service
    threads: Threads
    streams: Threads  # of answers that are made as they go out: a command on a node writes for hours
    limits: Limits
    waiting: Waiting


def endpoint(handler: Handler, desk: Desk, most_bytes: int) -> Endpoint:
    """The handler as Starlette calls it, for bodies that are not larger."""
    threads, limits = desk.threads, desk.limits

    async def respond(request: Request) -> Response:
        try:
            call = await call_of(request, limits, most_bytes=most_bytes)
        except BatchAIError as error:
            return response_of(refused(error), threads)

        async def ask() -> Answer:
            return await threads.run(lambda: answered(handler, desk.service, call))

        return response_of(await desk.waiting.for_state(call, ask), desk.streams)

    return respond


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
    if isinstance(error, OSError) and is_of_a_full_disk(error):
        return server_full()
    number = uuid.uuid4().hex[:12]
    LOG.error("defect %s at %s %s\n%s", number, call.method, call.path, traceback.format_exc())
    message = f"The server could not do this. Its log says why, under {number}."
    return refusal(500, DEFECT, message)


def _again(status: int) -> dict[str, str]:
    return {"Retry-After": "1"} if status == 503 else {}
