"""uvicorn's HTTP protocol with timeouts for headers, and for the rest of rejected bodies."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimeoutProtocol(H11Protocol):  # type: ignore[misc, unused-ignore]  # Any where uvicorn is not installed
    """Closes a connection whose headers, or the rest of a rejected body, arrive too slowly."""

    def __init__(self, *arguments: Any, header_s: float, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._header_s = header_s
        self._timer: asyncio.TimerHandle | None = None
        self._rest_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Starts the timer for the first request."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Stops the timer once headers are complete."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._begin()
        else:
            self._end()
        if self.conn.their_state is not h11.SEND_BODY:
            self._end_rest()

    def on_response_complete(self) -> None:
        """Starts a timer for discarding the rest of an unread body.

        Closing at once could reset the connection before the client has read the error.
        """
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and self._rest_timer is None:
            self._rest_timer = self.loop.call_later(self._header_s, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops all timers."""
        self._end()
        self._end_rest()
        super().connection_lost(exc)

    def _begin(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self._header_s, self._too_slow)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_rest(self) -> None:
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    def _too_slow(self) -> None:
        self._timer = self._rest_timer = None
        if not self.transport.is_closing():
            self.transport.close()
