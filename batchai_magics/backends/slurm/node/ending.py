"""The end of all that a process has started: kindly, then surely. Linux alone."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Iterable

from batchai_magics.backends.node import strays
from batchai_magics.backends.node.rank import LIBC
from batchai_magics.backends.node.ranks import Ranks
from batchai_magics.backends.node.strays import Found

GRACE_S = 1.2  # between SIGTERM and SIGKILL
KILL_S = 5.0  # what SIGKILL gets to end all
PAUSE_S = 0.02  # between looks at what is being ended


def adopt_orphans() -> None:
    """What this process's children leave behind becomes a child of it, so that it can be ended."""
    if LIBC:
        LIBC.prctl(36, 1, 0, 0, 0)


def below(own: Collection[int] = ()) -> list[Found]:
    """Every living process below this one, but for those that it needs itself."""
    return strays.descendants(frozenset(own))


def send(processes: Iterable[Found], number: signal.Signals) -> None:
    """Signals processes."""
    for process in processes:
        process.send(number)


def end(ranks: Ranks, *, patience_s: float) -> None:
    """Ends the processes of a plan with all that they have started; keeps their last output.

    It waits no longer than `patience_s` for a full disk to take it.
    """
    send(below(ranks.own), signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while (ranks.is_running or below(ranks.own)) and time.monotonic() < deadline:
        ranks.turn(PAUSE_S)
    kill(ranks.own)
    deadline = time.monotonic() + patience_s
    while ranks.is_running and time.monotonic() < deadline:
        ranks.turn(1.0)
    ranks.give_up()


def kill(own: Collection[int] = ()) -> None:
    """SIGKILL to all that is below, again for what was started meanwhile, until nothing is left."""
    deadline = time.monotonic() + KILL_S
    while (left := below(own)) and time.monotonic() < deadline:
        send(left, signal.SIGKILL)
        time.sleep(PAUSE_S)
