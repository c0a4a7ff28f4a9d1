"""Free ports on the loopback interface."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

# Below the ephemeral range, so that the system assigns none of them to other connections.
RANGE = range(10_000, 32_768)


def free_ports(count: int) -> list[int]:
    """Distinct free ports."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            port = random.SystemRandom().choice(RANGE)
            try:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:  # in use
                continue
            found.append(port)
    return found


def free_port() -> int:
    """A free port."""
    return free_ports(1)[0]


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port that refuses connections within the context: it is taken, and nobody listens there."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
