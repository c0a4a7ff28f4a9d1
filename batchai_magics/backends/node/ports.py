"""Ports for a job's own programs: free, and outside the range that the system assigns dynamically."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_LOWEST, _HIGHEST = 10_000, 65_535
_DEFAULT_FIRST_EPHEMERAL = 32_768  # Linux's default; other systems start higher
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_MIN_CHOICE = 5_000  # so many that jobs planned at the same time rarely choose the same
_MAX_TRIES = 1_000


def free_ports(count: int, host: str = "") -> tuple[int, ...]:
    """Distinct ports on which nothing listens; OSError if there are not enough.

    A job's programs bind them seconds or minutes later, and nothing reserves them until then. So they are
    chosen outside the ephemeral range, from which the system assigns ports to new connections.
    """
    sockets: list[socket.socket] = []
    choice, rng = _choose_range(_ephemeral_range()), random.SystemRandom()
    try:
        for _ in range(_MAX_TRIES + count):
            if len(sockets) == count:
                break
            _try_bind(sockets, host, rng.choice(choice))
        else:
            raise OSError(f"{count} free ports were not found between {choice[0]} and {choice[-1]}.")
        return tuple(bound.getsockname()[1] for bound in sockets)
    finally:
        for bound in sockets:
            bound.close()


def _try_bind(sockets: list[socket.socket], host: str, port: int) -> None:
    bound = socket.socket()
    try:
        bound.bind((host, port))  # fails if something listens
    except OSError:  # in use
        bound.close()
    else:
        sockets.append(bound)


def _ephemeral_range() -> tuple[int, int]:
    """The first and last port of the system's ephemeral range."""
    try:
        first, last = _EPHEMERAL_RANGE.read_text(encoding="ascii").split()
        return int(first), int(last)
    except (OSError, ValueError):
        return _DEFAULT_FIRST_EPHEMERAL, _HIGHEST


def _choose_range(ephemeral: tuple[int, int]) -> range:
    """The larger range outside the ephemeral ports; all ports if that is too small."""
    first, last = ephemeral
    others = max(range(_LOWEST, first), range(last + 1, _HIGHEST + 1), key=len)
    return others if len(others) >= _MIN_CHOICE else range(_LOWEST, _HIGHEST + 1)
