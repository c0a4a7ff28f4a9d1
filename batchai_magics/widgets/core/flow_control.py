"""Limits on what is sent to pages: a budget over all views, and a window of unacknowledged messages each."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

BUDGET_WINDOW_S = 1.0
MESSAGES_PER_S = 10
BYTES_PER_S = 400_000
OVERHEAD_BYTES = 400  # of a message, without its buffers


class Budget:
    """Messages and bytes per second, over all views: Jupyter's server drops messages above its rate limit."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        messages_per_s: int = MESSAGES_PER_S,
        bytes_per_s: int = BYTES_PER_S,
    ) -> None:
        self._clock = clock
        self._messages_per_s = messages_per_s
        self._bytes_per_s = bytes_per_s
        self._sent: deque[tuple[float, int]] = deque()

    @property
    def left_bytes(self) -> int:
        """How many bytes the next message may have; 0 if none may be sent now."""
        oldest = self._clock() - BUDGET_WINDOW_S
        while self._sent and self._sent[0][0] <= oldest:
            self._sent.popleft()
        if len(self._sent) >= self._messages_per_s:
            return 0
        return max(0, self._bytes_per_s - sum(size for _, size in self._sent))

    def spend(self, size_bytes: int) -> None:
        """Records a sent message."""
        self._sent.append((self._clock(), size_bytes))


MAX_UNACKED = 64  # messages
PROBE_S = 5.0  # between probes of the kernel's event loop
PROBE_TIMEOUT_S = 1.0  # within which an idle event loop answers
MAX_SILENT_PROBES = 3  # answered probes without an ack, after which the page counts as gone

Schedule = Callable[[Callable[[], None]], object]


class AckWindow:
    """Counts the messages that no page has acknowledged.

    Missing acks alone prove nothing: while a cell runs, the kernel may be unable to receive them. `schedule`
    therefore runs a probe on the kernel's event loop as soon as that could receive a message.
    """

    def __init__(self, schedule: Schedule, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._schedule = schedule
        self._clock = clock
        self._sent = 0
        self._confirmed = 0
        self._silent_probes = 0
        self._probe_started_at: float | None = None
        self._probed_at = clock()

    def sent(self, seq: int) -> None:
        """Records that the message with this number was sent."""
        self._sent = seq

    def acknowledge(self, seq: int | None = None) -> None:
        """Records that a page has everything up to `seq`, or (None) that it starts over."""
        self._confirmed = self._sent if seq is None else max(self._confirmed, seq)
        self._silent_probes = 0

    @property
    def is_open(self) -> bool:
        """Whether more may be sent."""
        if self._sent - self._confirmed <= MAX_UNACKED:
            return True
        now = self._clock()
        if self._probe_started_at is None and now - self._probed_at >= PROBE_S:
            self._probe_started_at = self._probed_at = now
            self._schedule(self._on_probe)
        return self._silent_probes < MAX_SILENT_PROBES

    def _on_probe(self) -> None:
        is_prompt = (
            self._probe_started_at is not None and self._clock() - self._probe_started_at < PROBE_TIMEOUT_S
        )
        self._silent_probes = self._silent_probes + 1 if is_prompt else 0
        self._probe_started_at = None


def main_loop_scheduler() -> Schedule:
    """Schedules functions on the running event loop: a kernel's receives the messages of its pages."""
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # no kernel, hence no loop that a cell could block
        return lambda call: call()

    def schedule(call: Callable[[], None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call)

    return schedule
