"""The nodes of a preflight: connections to the programs that measure them, and what these have measured."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from batchai_magics.records.preflight import NodeCheck

Reply = Mapping[str, Any]


class NodeProgram:
    """The connection to the program of a node."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._stream = connection, connection.makefile("rwb")
        self.address, self.port = "", 0

    def ask(self, request: Reply) -> None:
        """Sends a request; a lost connection is found when the reply is read."""
        with contextlib.suppress(OSError):
            self._stream.write(json.dumps(request).encode() + b"\n")
            self._stream.flush()

    def reply(self) -> Reply | None:
        """The reply; None without one."""
        try:
            reply: Reply = json.loads(self._stream.readline())
        except (OSError, ValueError):
            return None
        return reply

    def close(self) -> None:
        """Ends the connection."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._stream.close()
        self._connection.close()


class MeasuredNodes:
    """The nodes with what was measured, and the programs of those that still answer."""

    def __init__(self, names: Sequence[str]) -> None:
        self.checks = [NodeCheck(name) for name in names]
        self.open: dict[int, NodeProgram] = {}

    def ask(self, requests: Mapping[int, Reply]) -> dict[int, Reply]:
        """The replies of some nodes, which work at the same time; nodes that do not answer are lost."""
        for number, request in requests.items():
            self.open[number].ask(request)
        replies = {number: self.open[number].reply() for number in requests}
        for number, reply in replies.items():
            if reply is None:
                self.lose(number, "it stopped answering while it was measured")
        return {number: reply for number, reply in replies.items() if reply}

    def lose(self, number: int, problem: str) -> None:
        """Notes that a node cannot be measured."""
        self.checks[number] = self.checks[number]._replace(problem=problem)
        if number in self.open:
            self.open.pop(number).close()

    def note(self, replies: Mapping[int, Reply]) -> None:
        """Adds facts of nodes."""
        for number, reply in replies.items():
            added = NodeCheck.from_json({"node": "", **reply})
            self.checks[number] = self.checks[number]._replace(**{f: getattr(added, f) for f in reply})

    def note_best(self, replies: Mapping[int, Reply]) -> None:
        """Adds rates of nodes that are better than those known."""
        for number, reply in replies.items():
            if problem := reply.get("problem"):
                self.lose(number, f"it could not be measured: {problem}")
                continue
            known = self.checks[number]._asdict()
            self.note({number: {name: max(rate, known[name] or 0.0) for name, rate in reply.items()}})

    def close(self) -> None:
        """Ends all programs."""
        for program in list(self.open.values()):
            program.close()
