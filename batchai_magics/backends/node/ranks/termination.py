"""Ends everything that a process has started: SIGTERM, then SIGKILL. Linux only."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from batchai_magics.backends.node.ranks import leftovers
from batchai_magics.backends.node.ranks.leftovers import LEFTOVER_S, LiveProcess, mount_mark
from batchai_magics.backends.node.ranks.rank import LIBC

if TYPE_CHECKING:
    from batchai_magics.backends.node.ranks.ranks import Ranks
    from batchai_magics.launch.plan import Plan

KILL_S = 5.0  # limit for SIGKILL: processes that remain wait for I/O or have another owner
FIRST_KILL_POLL_S = 0.001
POLL_S = 0.02  # first polling interval; it doubles up to the longest one
LONGEST_POLL_S = 0.25


def adopt_orphans() -> None:
    """Makes this process a subreaper: orphans become its children, so that it can end them."""
    if LIBC:
        LIBC.prctl(36, 1, 0, 0, 0)


def send(processes: Iterable[LiveProcess], number: signal.Signals) -> None:
    """Signals processes."""
    for process in processes:
        process.send(number)


def processes_of(ranks: Ranks) -> list[LiveProcess]:
    """The processes of a plan and everything they started."""
    plan = ranks.plan
    if plan.containers.engine:  # only processes inside carry the mark; the runtimes end with them
        return leftovers.marked(plan.guid)
    return without_mount_servers(leftovers.descendants(ranks.helper_pids), plan)


def without_mount_servers(processes: list[LiveProcess], plan: Plan) -> list[LiveProcess]:
    """The processes but those that serve mounts of the plan, which exit when these are unmounted."""
    serving = leftovers.marked(mount_mark(plan.guid)) if plan.mounts else ()
    return [process for process in processes if process not in serving]


def end(
    ranks: Ranks,
    *,
    find: Callable[[Ranks], list[LiveProcess]] = processes_of,
    patience_s: float,
    grace_s: float = LEFTOVER_S,
    is_hurried: Callable[[], bool] = lambda: False,
) -> None:
    """Ends the processes of a plan and everything they started; keeps their last output.

    `patience_s` is how long a full disk may take to have room for that output, `grace_s` how long the
    processes may take to exit after SIGTERM, `is_hurried` whether they are to be killed at once.
    """
    remaining_processes = partial(find, ranks)
    send(remaining_processes(), signal.SIGTERM)
    poll_s, deadline = POLL_S, time.monotonic() + grace_s
    while (ranks.is_running or remaining_processes()) and time.monotonic() < deadline and not is_hurried():
        ranks.poll(min(poll_s, max(0.0, deadline - time.monotonic())))
        poll_s = min(2 * poll_s, LONGEST_POLL_S)
    kill(remaining_processes)
    deadline = time.monotonic() + patience_s
    while ranks.is_running and time.monotonic() < deadline:
        ranks.poll(1.0)
    ranks.abandon()


def end_all(find: Callable[[], list[LiveProcess]] = leftovers.descendants) -> None:
    """Sends SIGTERM to everything found, and after a moment SIGKILL until nothing is left."""
    send(find(), signal.SIGTERM)
    deadline = time.monotonic() + LEFTOVER_S
    while find() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    kill(find)


def kill(find: Callable[[], list[LiveProcess]] = leftovers.descendants) -> None:
    """Sends SIGKILL to everything found, repeatedly, until nothing is left."""
    poll_s, deadline = FIRST_KILL_POLL_S, time.monotonic() + KILL_S
    while (remaining := find()) and time.monotonic() < deadline:
        send(remaining, signal.SIGKILL)
        time.sleep(poll_s)
        poll_s = min(2 * poll_s, LONGEST_POLL_S)


def remove_containers(removals: Sequence[Sequence[str]], env: Mapping[str, str]) -> None:
    """Removes containers, if any."""
    if removals:
        from batchai_magics.backends.node import containers  # few jobs need it

        containers.remove(removals, env)
