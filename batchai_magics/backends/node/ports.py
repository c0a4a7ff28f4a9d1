"""Ports for a job's own programs: nobody listens there, and no other program gets one by chance."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_LOWEST, _HIGHEST = 10_000, 65_535
_USUAL_FIRST_GIVEN = 32_768  # of Linux; other systems begin later
_GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FEWEST = 5_000  # out of which to choose, so that jobs planned at once hardly choose the same
_MOST_TRIES = 1_000


def free_ports(count: int, host: str = "") -> tuple[int, ...]:
    """Some ports, each another, at which nobody listens there; OSError when there are not so many.

    A job's programs come to them seconds later, or minutes: until then nothing holds them. So they are none
    of those that the system gives to whoever asks for just any port, each new connection among them.
    """
    sockets: list[socket.socket] = []
    choice, chance = _not_given(_given()), random.SystemRandom()
    try:
        for _ in range(_MOST_TRIES + count):
            if len(sockets) == count:
                break
            _hold(sockets, host, chance.choice(choice))
        else:
            raise OSError(f"{count} free ports were not found between {choice[0]} and {choice[-1]}.")
        return tuple(held.getsockname()[1] for held in sockets)
    finally:
        for held in sockets:
            held.close()


def _hold(sockets: list[socket.socket], host: str, port: int) -> None:
    attempt = socket.socket()
    try:
        attempt.bind((host, port))  # nobody listens
    except OSError:  # somebody does there
        attempt.close()
    else:
        sockets.append(attempt)


def _given() -> tuple[int, int]:
    """The first and the last port that the system gives to whoever asks for any."""
    try:
        first, last = _GIVEN.read_text(encoding="ascii").split()
        return int(first), int(last)
    except (OSError, ValueError):
        return _USUAL_FIRST_GIVEN, _HIGHEST


def _not_given(given: tuple[int, int]) -> range:
    """The larger part of the others; all where those are too few."""
    first, last = given
    others = max(range(_LOWEST, first), range(last + 1, _HIGHEST + 1), key=len)
    return others if len(others) >= _FEWEST else range(_LOWEST, _HIGHEST + 1)
