"""Ending everything that a process has started: SIGTERM, then SIGKILL. Linux alone."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from batchai_magics.backends.node.ranks import leftover_processes
from batchai_magics.backends.node.ranks.leftover_processes import LiveProcess
from batchai_magics.backends.node.ranks.rank import LIBC
from batchai_magics.backends.node.ranks.ranks import Ranks

GRACE_S = 1.2  # between SIGTERM and SIGKILL
KILL_S = 5.0  # what SIGKILL gets to end all
PAUSE_S = 0.02  # between looks at what is being ended


def adopt_orphans() -> None:
    """What this process's children leave behind becomes a child of it, so that it can be ended."""
    if LIBC:
        LIBC.prctl(36, 1, 0, 0, 0)


def below(own: Collection[int] = ()) -> list[LiveProcess]:
    """Every living process below this one, but for those that it needs itself."""
    return leftover_processes.descendants(frozenset(own))


def send(processes: Iterable[LiveProcess], number: signal.Signals) -> None:
    """Signals processes."""
    for process in processes:
        process.send(number)


def end(ranks: Ranks, *, patience_s: float) -> None:
    """Ends the processes of a plan with all that they have started; keeps their last output.

    It waits no longer than `patience_s` for a full disk to take it.
    """
    # What serves containers ends with them, by itself: only what runs inside is marked.
    boxed = leftover_processes.marked if ranks.plan.containers.engine else None

    def find() -> list[LiveProcess]:
        return boxed(ranks.plan.guid) if boxed else below(ranks.own)

    send(find(), signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while (ranks.is_running or find()) and time.monotonic() < deadline:
        ranks.poll(PAUSE_S)
    kill(find)
    deadline = time.monotonic() + patience_s
    while ranks.is_running and time.monotonic() < deadline:
        ranks.poll(1.0)
    ranks.give_up()


def kill(find: Callable[[], list[LiveProcess]] = below) -> None:
    """SIGKILL to all that is found, again for what was started meanwhile, until nothing is left."""
    deadline = time.monotonic() + KILL_S
    while (left := find()) and time.monotonic() < deadline:
        send(left, signal.SIGKILL)
        time.sleep(PAUSE_S)


def remove_containers(removals: Sequence[Sequence[str]], env: Mapping[str, str]) -> None:
    """Removes containers, if there are any."""
    if removals:
        from batchai_magics.backends.node import containers  # few jobs need it

        containers.remove(removals, env)
