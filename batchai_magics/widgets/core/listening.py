"""Whether a page still takes what it is sent: it says so from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable

WINDOW = 64  # messages that a page may owe an answer for
PROBE_S = 5.0  # between two looks whether the kernel could hear
PROMPT_S = 1.0  # within which a kernel that can hear has answered
QUIET = 3  # such looks in a row, after which silence means that nobody listens

Ask = Callable[[Callable[[], None]], object]


class Listening:
    """Counts the messages that no page has confirmed.

    Silence alone says nothing: while a cell runs, a kernel may be unable to hear its pages. `ask` therefore
    gets a function that the kernel calls as soon as it could take a message.
    """

    def __init__(self, ask: Ask, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._sent = 0
        self._confirmed = 0
        self._quiet = 0
        self._asked_at: float | None = None
        self._probed_at = clock()

    def sent(self, seq: int) -> None:
        """Takes note of the message with this number."""
        self._sent = seq

    def heard(self, seq: int | None = None) -> None:
        """A page has said something: that it has all up to `seq`, or (None) that it starts anew."""
        self._confirmed = self._sent if seq is None else max(self._confirmed, seq)
        self._quiet = 0

    @property
    def is_open(self) -> bool:
        """Whether more may be sent."""
        if self._sent - self._confirmed <= WINDOW:
            return True
        self._probe()
        return self._quiet < QUIET

    def _probe(self) -> None:
        now = self._clock()
        if self._asked_at is None and now - self._probed_at >= PROBE_S:
            self._asked_at = self._probed_at = now
            self._ask(self._answered)

    def _answered(self) -> None:
        is_prompt = self._asked_at is not None and self._clock() - self._asked_at < PROMPT_S
        self._quiet = self._quiet + 1 if is_prompt else 0
        self._asked_at = None


def main_loop() -> Ask:
    """Has a function called by the event loop that runs here: a kernel's hears its pages."""
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # no kernel: nothing can keep it from hearing
        return lambda call: call()

    def ask(call: Callable[[], None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call)

    return ask
