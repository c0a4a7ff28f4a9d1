"""The preflight of a job: its nodes are measured, alone and in pairs, before its first rank starts.

The program that starts the ranks sends requests to a `preflight_program` on each node, over TCP, which
authenticates with a token. Nodes on one machine are measured one after another, so that they do not slow each
other down.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from batchai_magics.backends.node import preflight_program
from batchai_magics.backends.node.launcher import PlanProcesses
from batchai_magics.backends.node.node_programs import programs_folder, start_words
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Containers, LaunchMode, LogPaths, Output, Plan, Process
from batchai_magics.records.preflight import (
    NodeCheck,
    PairCheck,
    PreflightReport,
    pairs_to_repeat,
    slow_nodes,
)
from batchai_magics.records.record_files import PREFLIGHT

HELLO_S = 20.0  # how long to wait for the programs of the first half of the nodes
REST_S, REST_FACTOR = 5.0, 3.0  # how long for all programs: at least, and relative to the first half
ANSWER_S = 5.0  # timeout of a request
PAIRS_S = 4.0  # how long rounds of pairs may begin
PAIRS_AGAIN_S = 2.0  # how long, after the last round, pairs that look slow may be measured again
PASSES, MORE_PASSES = 2, 8  # measurements of every node, and at most this many more of slow ones
MAX_EXCLUDED = 4
CODE = "JobPreflightFailed"
POLL_S = 0.1

Item = TypeVar("Item")
Reply = Mapping[str, Any]


def max_excluded(node_count: int) -> int:
    """How many nodes a job may leave out: a quarter of them, at least one of several."""
    return min(MAX_EXCLUDED, max(1, node_count // 4), node_count - 1)


class Conclusion(NamedTuple):
    """The decision on a job: it fails with `outcome`, or runs, if `smaller` on `nodes` (by number)."""

    outcome: Outcome | None
    nodes: tuple[int, ...] = ()
    smaller: str = ""


def conclusion_of(report: PreflightReport, smaller: Sequence[str]) -> Conclusion:
    """Whether the job runs, and on which nodes; `smaller` are its Plans for one node less, two less, …."""
    flagged = report.flagged
    if not flagged:
        return Conclusion(None)
    if len(flagged) <= len(smaller):
        good = (number for number, node in enumerate(report.nodes) if node.node not in flagged)
        return Conclusion(None, tuple(good), smaller[len(flagged) - 1])
    texts = "; ".join(finding.sentence for finding in report.findings)
    more = f" At most {len(smaller)} of its nodes can be left out." if smaller else ""
    return Conclusion(failed_with(CODE, f"The preflight found a problem: {texts}.{more}"))


class Preflight:
    """Measures nodes, in a thread of the program that starts `plan` with the variables `env`."""

    def __init__(self, plan: Plan, address: str, folder: Path) -> None:
        """Listens at an address of this node.

        `folder` is for the exits of the programs; their log is beside it.
        """
        self.plan = _check_plan(plan, folder)
        self._names = [node.id for node in plan.nodes]
        self._listener = socket.create_server((address, 0))
        self._token = secrets.token_hex(preflight_program.TOKEN_BYTES // 2)
        self._thread = threading.Thread(target=self._run, name="batchai-preflight", daemon=True)
        self._checks = [NodeCheck(name) for name in self._names]
        self._open: dict[int, NodeProgram] = {}  # the programs of the nodes that still answer, by number
        self._started_s = time.monotonic()
        self._is_closed = False
        self.report: PreflightReport | None = None

    @property
    def env(self) -> dict[str, str]:
        """The variables by which the programs connect to this one."""
        host, port = self._listener.getsockname()[:2]
        return {preflight_program.ADDRESS: f"{host}:{port}", preflight_program.TOKEN: self._token}

    def follow(
        self, programs: PlanProcesses, interruption: Callable[[set[int]], Outcome | None]
    ) -> Outcome | None:
        """Measures until all is done; returns early with the outcome if the job is interrupted."""
        self._thread.start()
        while self._thread.is_alive() and programs.is_running:
            if interrupted := interruption(programs.poll(POLL_S)):
                return interrupted
        self.close()
        return None

    def conclude(self, smaller: Sequence[str], folder: Path) -> Conclusion:
        """The decision by the measurements; writes the report to the folder of the run's record."""
        if self.report is None:
            return Conclusion(failed_with(CODE, "The preflight could not be completed."))
        conclusion = conclusion_of(self.report, smaller)
        if conclusion.smaller:
            self.report = self.report._replace(excluded=self.report.flagged)
        part = folder / f"{PREFLIGHT}.part"
        with contextlib.suppress(OSError):  # the disk is full
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(self.report.to_json(), file)
            part.replace(folder / PREFLIGHT)
        return conclusion

    @property
    def sentence(self) -> str:
        """The result for the log."""
        if self.report is None:
            return "preflight: it could not be completed"
        excluded = f"; the job runs without {', '.join(self.report.excluded)}" if self.report.excluded else ""
        return self.report.sentence + excluded

    def close(self) -> None:
        """Ends all connections, and with them the programs."""
        self._is_closed = True
        self._close_programs()
        if self._thread.is_alive():
            self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        self._accept_programs()
        self._measure_clocks()
        self._note(self._ask({number: {"do": "facts"} for number in self._open}))
        self._measure_speed()
        pairs = self._measure_pairs_again(self._measure_pairs())
        self.report = PreflightReport.of(self._checks, pairs, time.monotonic() - self._started_s)
        self._close_programs()

    def _close_programs(self) -> None:
        for program in list(self._open.values()):
            program.close()

    def _accept_programs(self) -> None:
        """Waits for the program of each node."""
        limit_s, waited_s = HELLO_S, 0.0
        while len(self._open) < len(self._names) and waited_s < limit_s and not self._is_closed:
            self._listener.settimeout(POLL_S)
            with contextlib.suppress(OSError):
                self._accept(self._listener.accept()[0])
            waited_s = time.monotonic() - self._started_s
            if limit_s == HELLO_S and 2 * len(self._open) >= len(self._names):
                limit_s = max(REST_S, REST_FACTOR * waited_s)
        for number in set(range(len(self._names))) - set(self._open):
            self._lose(number, "it did not answer")

    def _accept(self, connection: socket.socket) -> None:
        connection.settimeout(ANSWER_S)
        program = NodeProgram(connection)
        hello = program.reply()
        if hello and hmac.compare_digest(str(hello.get("token", "")).encode(), self._token.encode()):
            program.address, program.port = str(hello["address"]), int(hello["port"])
            self._open[int(hello["node"])] = program
        else:
            program.close()

    def _measure_clocks(self) -> None:
        """Asks each node for its time, one by one; the best of three answers counts."""
        offsets: dict[int, float] = {}
        for number in sorted(self._open):
            best_s = float("inf")
            for _ in range(3):
                asked_at, began = time.time(), time.monotonic()
                reply = self._ask({number: {"do": "clock"}}).get(number)
                took_s = time.monotonic() - began
                if reply and took_s < best_s:
                    best_s, offsets[number] = took_s, reply["time"] - asked_at - took_s / 2
        first = offsets.get(0, 0.0)
        self._note({n: {"clock_offset_s": offset_s - first} for n, offset_s in offsets.items()})

    def _measure_speed(self) -> None:
        """Measures each node several times; the best result counts, since other load comes and goes."""
        for number in range(PASSES):
            self._measure_nodes(self._open, has_disk=number == 0)
        for _ in range(MORE_PASSES):
            slow = slow_nodes(self._checks)
            again = [number for number in self._open if self._names[number] in slow]
            if not again:
                return
            self._measure_nodes(again, has_disk=True)

    def _measure_nodes(self, numbers: Sequence[int] | Mapping[int, Any], *, has_disk: bool) -> None:
        """Measures nodes, and records the rates that are higher than their previous ones."""
        for turn in _turns(list(numbers), lambda number: {self._machine(number)}):
            request = {"do": "speed", "disk": has_disk}
            for number, reply in self._ask(dict.fromkeys(turn, request)).items():
                if problem := reply.get("problem"):
                    self._lose(number, f"it could not be measured: {problem}")
                    continue
                known = self._checks[number]._asdict()
                self._note({number: {name: max(rate, known[name] or 0.0) for name, rate in reply.items()}})

    def _measure_pairs(self) -> Iterator[PairCheck]:
        """Measures the pairs of nodes in rounds; in a round, each node has one partner."""
        started = time.monotonic()
        for number, pairs in enumerate(rounds(sorted(self._open))):
            if number and time.monotonic() - started > PAIRS_S:
                return
            for turn in _turns(pairs, lambda pair: set(map(self._machine, pair))):
                yield from self._measure_turn(turn)

    def _measure_pairs_again(self, pairs: Iterable[PairCheck]) -> list[PairCheck]:
        """Measures nodes that look slow again, with their best partners; the best result counts."""
        best, numbers = {pair[:2]: pair for pair in pairs}, {n: i for i, n in enumerate(self._names)}
        until = time.monotonic() + PAIRS_AGAIN_S
        for _ in range(MORE_PASSES):
            again = sorted(pairs_to_repeat(self._checks, best.values()))
            if not again or time.monotonic() > until:
                break
            named = [(numbers[first], numbers[second]) for first, second in again]
            for turn in _turns(named, lambda pair: set(map(self._machine, pair))):
                for pair in self._measure_turn(turn):
                    best[pair[:2]] = max(best[pair[:2]], pair, key=lambda pair: pair.rate or 0.0)
        return list(best.values())

    def _measure_turn(self, pairs: Sequence[tuple[int, int]]) -> Iterator[PairCheck]:
        programs = self._open
        requests: dict[int, Reply] = {}
        for server, client in pairs:
            if server in programs and client in programs:
                peer = programs[server]
                requests |= {
                    server: {"do": "serve"},
                    client: {"do": "connect", "address": peer.address, "port": peer.port},
                }
        replies = self._ask(requests)
        for server, client in pairs:
            reply = {**replies.get(server, {"problem": "no answer"}), **replies.get(client, {})}
            problem = reply.get("problem", "" if client in replies else "no answer")
            rates = {} if problem else {name: reply[name] for name in ("rate", "latency_s", "allreduce_s")}
            yield PairCheck(self._names[server], self._names[client], problem=problem, **rates)

    def _ask(self, requests: Mapping[int, Reply]) -> dict[int, Reply]:
        """The replies of nodes, which work concurrently; nodes that do not answer are dropped."""
        for number, request in requests.items():
            self._open[number].ask(request)
        replies = {number: self._open[number].reply() for number in requests}
        for number, reply in replies.items():
            if reply is None:
                self._lose(number, "it stopped answering while it was measured")
        return {number: reply for number, reply in replies.items() if reply}

    def _lose(self, number: int, problem: str) -> None:
        """Notes that a node cannot be measured."""
        self._checks[number] = self._checks[number]._replace(problem=problem)
        if number in self._open:
            self._open.pop(number).close()

    def _note(self, replies: Mapping[int, Reply]) -> None:
        """Adds the facts in replies to the checks of their nodes."""
        for number, reply in replies.items():
            added = NodeCheck.from_json({"node": "", **reply})
            self._checks[number] = self._checks[number]._replace(**{f: getattr(added, f) for f in reply})

    def _machine(self, number: int) -> str:
        return self._checks[number].machine


def rounds(nodes: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """All pairs of nodes in rounds: in each, every node has one partner (or none, if their number is odd)."""
    ring: list[int | None] = [*nodes, *([None] * (len(nodes) % 2))]
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        opposite = zip(ring[:half], reversed(ring[half:]), strict=True)
        yield [(first, second) for first, second in opposite if first is not None and second is not None]
        ring.insert(1, ring.pop())


def _turns(items: Sequence[Item], machines_of: Callable[[Item], set[str]]) -> Iterator[list[Item]]:
    """The items in rounds; no machine occurs twice in a round."""
    remaining = list(items)
    while remaining:
        busy: set[str] = set()
        turn: list[Item] = []
        later: list[Item] = []
        for item in remaining:
            machines = machines_of(item)
            (later if machines & busy else turn).append(item)
            busy |= machines
        yield turn
        remaining = later


def _check_plan(plan: Plan, folder: Path) -> Plan:
    """A process on each node, on the node itself rather than in the job's image."""
    program, folder_of_programs = preflight_program.__name__, programs_folder()
    command = shlex.join(start_words(plan.python, program, folder_of_programs, has_packages=True))
    log = f"{folder}.log"
    os.close(os.open(log, os.O_WRONLY | os.O_CREAT, 0o600))
    return plan._replace(
        processes=tuple(
            Process(number, number, command, env={preflight_program.INDEX: str(number)})
            for number in range(len(plan.nodes))
        ),
        output=Output(LogPaths(log), LogPaths(log)),
        launcher=LaunchMode.DIRECT,
        exits=str(folder),
        mounts=(),
        containers=Containers(),
        secrets=(),
        telemetry="",
        machines="",
    )


class NodeProgram:
    """The connection to the program of a node."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._stream = connection, connection.makefile("rwb")
        self.address, self.port = "", 0

    def ask(self, request: Reply) -> None:
        """Sends a request; a lost connection is noticed when the reply is read."""
        with contextlib.suppress(OSError):
            self._stream.write(json.dumps(request).encode() + b"\n")
            self._stream.flush()

    def reply(self) -> Reply | None:
        """The reply; None if the connection is lost, times out, or sends anything but a JSON object."""
        try:
            reply: object = json.loads(self._stream.readline())
        except (OSError, ValueError):
            return None
        return reply if isinstance(reply, dict) else None

    def close(self) -> None:
        """Ends the connection."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._stream.close()
        self._connection.close()
