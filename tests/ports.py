"""Ports of this machine's loopback at which nobody listens."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

# Below those that systems give to whoever asks for any: nobody comes to one by chance before it is used.
RANGE = range(10_000, 32_768)


def free_ports(count: int) -> list[int]:
    """Some of them, each another."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            port = random.SystemRandom().choice(RANGE)
            try:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:  # somebody listens there
                continue
            found.append(port)
    return found


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]
