"""How much may be sent to the page: so many messages and bytes in any second, over all views."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

WINDOW_S = 1.0
MESSAGES_PER_S = 10
BYTES_PER_S = 400_000
OVERHEAD_BYTES = 400  # of a message beside its buffers


class Budget:
    """A sliding window over what was sent. Jupyter's server drops messages where too many come."""

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
        """How many bytes one message may have now; 0 if none may be sent."""
        oldest = self._clock() - WINDOW_S
        while self._sent and self._sent[0][0] <= oldest:
            self._sent.popleft()
        if len(self._sent) >= self._messages_per_s:
            return 0
        return max(0, self._bytes_per_s - sum(size for _, size in self._sent))

    def spend(self, size_bytes: int) -> None:
        """Takes note of a message that was sent."""
        self._sent.append((self._clock(), size_bytes))
