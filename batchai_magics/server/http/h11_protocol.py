"""HTTP as uvicorn speaks it, with an end to waiting for headers, and for bodies that were refused."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimeoutProtocol(H11Protocol):  # type: ignore[misc, unused-ignore]  # Any where uvicorn is not installed
    """A connection that is closed when headers, or the rest of a refused body, come too slowly."""

    def __init__(self, *arguments: Any, header_s: float, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._header_s = header_s
        self._timer: asyncio.TimerHandle | None = None
        self._rest_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client has come; its first request is waited for."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Bytes have come; when they were the last of the headers, nothing is waited for any more."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._begin()
        else:
            self._end()
        if self.conn.their_state is not h11.SEND_BODY:
            self._end_rest()

    def on_response_complete(self) -> None:
        """A request is answered; the rest of a body that nobody reads is discarded, for a while.

        Closed at once, the connection could be reset before the client has read why it was refused.
        """
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and self._rest_timer is None:
            self._rest_timer = self.loop.call_later(self._header_s, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
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
