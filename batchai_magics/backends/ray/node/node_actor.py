"""The actor of a run on a node: starts the programs of plans there, and relays their lines."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from batchai_magics.backends.node.job_environment import free_ports
from batchai_magics.backends.node.node_programs import programs_folder, start_words
from batchai_magics.backends.ray.node.home_files import HomeFiles

RUN_NODE = "batchai_magics.backends.ray.node.run_node"
ERRORS_S = 1.0  # how long the errors of an ended program may take to arrive


class NodeFacts(NamedTuple):
    """The facts about a node that the supervising actor needs; `gpus` are those of its bundle."""

    id: str
    address: str
    host: str
    gpus: tuple[str, ...]
    cpus: float


class NodePrograms(HomeFiles):
    """The programs on a node, one at a time, and its files. Its methods are called in several threads."""

    def __init__(self, home: str, guid: str, owner: str) -> None:
        super().__init__(home, guid, owner)
        self._program: subprocess.Popen[bytes] | None = None
        self._changed, self._order_lock = threading.Condition(), threading.Lock()
        self._lines: list[str] = []
        self._is_over = False

    def facts(self) -> NodeFacts:
        """The facts about this node."""
        import ray

        context = ray.get_runtime_context()
        gpus = tuple(map(str, ray.get_gpu_ids()))
        cpus = float(context.get_assigned_resources().get("CPU", 1))
        return NodeFacts(
            context.get_node_id(), ray.util.get_node_ip_address(), socket.gethostname(), gpus, cpus
        )

    def free_ports(self, count: int, host: str) -> tuple[int, ...]:
        """Free ports of this node."""
        return free_ports(count, host)

    def start(self, python: str, order: str) -> None:
        """Starts the program that runs a part of a plan, with its first order."""
        self._lines, self._is_over = [], False
        words = start_words(python, RUN_NODE, programs_folder(), section="ray")
        env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        pipe = subprocess.PIPE
        self._program = subprocess.Popen(words, env=env, stdin=pipe, stdout=pipe, stderr=pipe)
        threading.Thread(target=self._read_lines, args=(self._program,), daemon=True).start()
        self.send(order)

    def send(self, order: str) -> None:
        """Gives the program an order, unless it has ended."""
        program = self._program
        assert program
        assert program.stdin
        with self._order_lock, contextlib.suppress(OSError):
            program.stdin.write(order.encode() + b"\n")
            program.stdin.flush()

    def news(self, timeout_s: float) -> tuple[Sequence[str], bool]:
        """The new lines of the program, and whether it has ended; waits up to `timeout_s` for either."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._is_over, timeout_s)
            lines, self._lines = self._lines, []
            return lines, self._is_over

    def idle(self, timeout_s: float) -> tuple[Sequence[str], bool]:
        """No news, after `timeout_s`: a call that fails when the node is lost."""
        time.sleep(timeout_s)
        return (), False

    def _read_lines(self, program: subprocess.Popen[bytes]) -> None:
        assert program.stdout
        errors = threading.Thread(target=self._read_errors, args=(program,), daemon=True)
        errors.start()
        for line in program.stdout:
            self._add(line.decode())
        program.wait()
        errors.join(ERRORS_S)  # leftover processes may hold the pipe open
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _read_errors(self, program: subprocess.Popen[bytes]) -> None:
        assert program.stderr
        for line in program.stderr:
            self._add(json.dumps({"error": line.decode(errors="replace")}))

    def _add(self, line: str) -> None:
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()
