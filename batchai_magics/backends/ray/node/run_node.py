"""Runs the processes of a plan that are on one node, for the actor that supervises the run.

Each line of standard input is an order in JSON, each line of standard output an event. The first order is a
`NodeTask`. The process manager of MPI's ranks is in the supervising actor.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.node.node_programs import programs_folder
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.pmi import ProcessManager, Reply
from batchai_magics.backends.node.ranks.ranks import Ranks
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.temporary_folder import TemporaryFolder
from batchai_magics.backends.node.restarts import EndWarning
from batchai_magics.backends.ray.node.actor_target import locked
from batchai_magics.launch.plan import Plan

OUTPUT_TIMEOUT_S = 2.0  # how long the last output may take to be written if the actor is gone
_READ_SIZE = 1 << 16


class NodeTask(NamedTuple):
    """A plan to run, as JSON; the number of this node in it, and the variables of its processes."""

    plan: str
    node: int
    env: Mapping[str, str]


class OrderPipe(SignalPipe):
    """Becomes readable for signals, and for orders on standard input; MPI's replies are passed on at once."""

    def __init__(self) -> None:
        super().__init__((signal.SIGCHLD, signal.SIGTERM))
        self._text, self._orders = b"", list[dict[str, Any]]()
        self._input = sys.stdin.fileno()
        self._both = select.epoll()
        for descriptor in (super().fileno(), self._input):
            self._both.register(descriptor, select.EPOLLIN)
        self.is_closed = self.is_hurried = False
        self.take_replies: Callable[[list[tuple[int, str]]], None] = lambda replies: None

    def fileno(self) -> int:
        """The descriptor to select on."""
        return self._both.fileno()

    def read(self) -> set[int]:
        """The signals that arrived since the last call; reads orders, too."""
        ready = {descriptor for descriptor, _ in self._both.poll(0)}
        if self._input in ready:
            data = os.read(self._input, _READ_SIZE)
            if not data:
                self._both.unregister(self._input)
                self.is_closed = True
            *lines, self._text = (self._text + data).split(b"\n")
            for order in map(json.loads, lines):
                if "pmi" in order:
                    self.take_replies(order["pmi"])
                elif "kill" in order:
                    self.is_hurried = True
                else:
                    self._orders.append(order)
        return super().read()

    def next_order(self) -> dict[str, Any]:
        """The next order; empty without one."""
        return self._orders.pop(0) if self._orders else {}


class RelayedManager(ProcessManager):
    """Relays the data of ranks to their process manager, which is in the supervising actor."""

    def receive(self, rank: int, data: bytes) -> list[Reply]:
        """Passes data on; the replies come as orders."""
        report(pmi=[rank, data.decode("latin-1")])
        return []


def report(**event: object) -> None:
    """Prints an event."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Runs the processes of the first order until they have ended or an order ends them."""
    termination.adopt_orphans()
    orders, temporary = OrderPipe(), TemporaryFolder()
    while not (first := orders.next_order()) and not orders.is_closed:
        select.select([orders], [], [])
        orders.read()
    if first:
        order = NodeTask(**first)
        plan = Plan.from_json(order.plan)
        job = Layout(Path(programs_folder()).parents[1]).job(plan.guid)
        with locked(job.root, fcntl.LOCK_SH):  # see `HomeFiles.is_running`
            _run(plan, order, orders, temporary)
    termination.kill()
    temporary.remove()
    report(over=True)


def _run(plan: Plan, order: NodeTask, orders: OrderPipe, temporary: TemporaryFolder) -> None:
    reported = set[int]()
    with contextlib.closing(Ranks(plan, orders, env=order.env, temporary=temporary)) as ranks:
        orders.take_replies = lambda replies: ranks.reply(
            Reply(rank, text.encode("latin-1")) for rank, text in replies
        )
        ranks.start(node=order.node, manager=RelayedManager)
        is_ended = False
        while not is_ended:
            signals = ranks.poll(None)
            _report_ends(ranks, reported)
            while not is_ended and (next_order := orders.next_order()):
                is_ended = _obey(next_order, ranks, orders)
            if not is_ended and (orders.is_closed or signal.SIGTERM in signals):
                is_ended = _obey({"end": [OUTPUT_TIMEOUT_S, plan.limits.grace_s]}, ranks, orders)
        _report_ends(ranks, reported)
        report(printed=ranks.printed)


def _obey(order: Mapping[str, Any], ranks: Ranks, orders: OrderPipe) -> bool:
    """Performs an order; returns whether it has ended the processes."""
    if "warn" in order:
        EndWarning(ranks.plan).give(order["warn"], termination.processes_of(ranks))
    if "end" not in order:
        return False
    patience_s, grace_s = order["end"]
    termination.end(ranks, patience_s=patience_s, grace_s=grace_s, is_hurried=lambda: orders.is_hurried)
    return True


def _report_ends(ranks: Ranks, reported: set[int]) -> None:
    """Reports the processes that have ended and are not in `reported`, and output that cannot be written."""
    for rank in ranks.ends.keys() - reported:
        reported.add(rank)
        report(exit=ranks.ends[rank]._asdict())
    if ranks.unwritable:
        report(unwritable=ranks.unwritable.errno or 0)


if __name__ == "__main__":
    main()
