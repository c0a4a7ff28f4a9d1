"""The innermost application: runs the handler of a request in a thread."""

from __future__ import annotations

from functools import partial

from starlette.types import Receive, Scope, Send

from batchai_magics.server.handler_context import Handler, HandlerContext
from batchai_magics.server.http.request_limits import ThreadPool
from batchai_magics.server.http.response_encoder import send_response


class HandlerEndpoint:
    """Sends the response of a handler; a `handler` in the scope takes its place."""

    def __init__(self, handler: Handler, context: HandlerContext, threads: ThreadPool) -> None:
        self._handler, self._context, self._threads = handler, context, threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        handler: Handler = scope.get("handler", self._handler)
        await send_response(send, await self._threads.run(partial(handler, self._context, scope["call"])))
