"""The ranks' connections to their process manager: a socket pair each, or a port of this machine alone."""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from batchai_magics.backends.node.ranks import pmi
from batchai_magics.backends.node.ranks.pmi import ProcessManager, Reply
from batchai_magics.backends.node.ranks.rank import Ticket
from batchai_magics.launch.plan import Plan, Rendezvous

LOOPBACK = "127.0.0.1"
_PIECE = 1 << 16
_LONGEST_HELLO = 256
_STRANGERS = 64  # who has not said yet which rank it is


class Connections:
    """Carries bytes between the ranks of a plan and their process manager, whenever the selector says so."""

    def __init__(self, plan: Plan, selector: selectors.BaseSelector) -> None:
        nodes = [process.node for process in plan.processes]
        self.manager = ProcessManager(f"kvs_{os.urandom(8).hex()}", len(nodes), pmi.mapping(nodes))
        self._nodes, self._selector = nodes, selector
        self._by_rank: dict[int, socket.socket] = {}
        self._strangers: dict[socket.socket, bytes] = {}
        self._ids: dict[str, int] = {}
        self._listener = _listener() if plan.meeting is Rendezvous.PORT else None
        self._listen()

    @contextmanager
    def ticket(self, rank: int) -> Iterator[Ticket]:
        """What a rank is started with, within the context."""
        env = {"PMI_RANK": str(rank), "PMI_SIZE": str(len(self._nodes)), **self._place(rank)}
        if self._listener:
            port, secret = self._listener.getsockname()[1], _secret()
            self._ids[secret] = rank
            yield Ticket({**env, "PMI_PORT": f"{LOOPBACK}:{port}", "PMI_ID": secret})
            return
        ours, theirs = socket.socketpair()
        with theirs:
            self._welcome(rank, ours)
            yield Ticket({**env, "PMI_FD": str(theirs.fileno())}, (theirs.fileno(),))

    def hear_out(self, rank: int) -> None:
        """Reads the last words of a rank whose process has ended."""
        while connection := self._by_rank.get(rank):
            if not self._read(rank, connection):
                return

    def close(self) -> None:
        """Closes all of them."""
        for connection in (*self._by_rank.values(), *self._strangers):
            self._drop(connection)
        if self._listener:
            self._drop(self._listener)

    def _place(self, rank: int) -> dict[str, str]:
        node = self._nodes[rank]
        local = rank - self._nodes.index(node)
        return {"MPI_LOCALRANKID": str(local), "MPI_LOCALNRANKS": str(self._nodes.count(node))}

    def _welcome(self, rank: int, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._by_rank[rank] = connection
        self._selector.register(connection, selectors.EVENT_READ, partial(self._read, rank, connection))

    def _read(self, rank: int, connection: socket.socket) -> bool:
        """Takes what a rank has sent; False when there is nothing more now."""
        data = _received(connection)
        if data:
            for reply in self.manager.receive(rank, data):
                self._send(reply)
        elif data is not None:
            self._part(rank, connection)
        return bool(data)

    def _send(self, reply: Reply) -> None:
        connection = self._by_rank.get(reply.rank)
        try:
            is_sent = connection is None or connection.send(reply.data) == len(reply.data)
        except OSError:
            is_sent = False
        if connection and not is_sent:  # it is gone, or asks without ever reading an answer
            self._part(reply.rank, connection)

    def _part(self, rank: int, connection: socket.socket) -> None:
        if self._by_rank.get(rank) is connection:
            del self._by_rank[rank]
        self._drop(connection)
        self._listen()

    def _drop(self, connection: socket.socket) -> None:
        if connection in self._selector.get_map():
            self._selector.unregister(connection)
        connection.close()

    # Docker's containers inherit no descriptors: their ranks come over a port, each with an id of its own.

    def _listen(self) -> None:
        """Takes who comes while a rank is missing, and nobody else."""
        if not self._listener:
            return
        is_listening = self._listener in self._selector.get_map()
        is_complete = len(self._by_rank) == len(self._nodes)
        if is_listening and is_complete:
            self._selector.unregister(self._listener)
        elif not (is_listening or is_complete):
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        assert self._listener
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it went away again
            return
        if len(self._strangers) >= _STRANGERS:
            connection.close()
            return
        connection.setblocking(False)
        self._strangers[connection] = b""
        self._selector.register(connection, selectors.EVENT_READ, partial(self._ask, connection))

    def _ask(self, connection: socket.socket) -> None:
        """Reads which rank it is; who does not say it rightly at once is sent away."""
        data = _received(connection)
        if data is None:
            return
        line, end, rest = (self._strangers[connection] + data).partition(b"\n")
        if data and not end and len(line) < _LONGEST_HELLO:
            self._strangers[connection] = line
            return
        del self._strangers[connection]
        self._selector.unregister(connection)
        rank = self._ids.get(pmi.claimed_id(line)) if end else None
        if rank is None or rank in self._by_rank:
            connection.close()
            return
        self._let_in(rank, connection, rest)

    def _let_in(self, rank: int, connection: socket.socket, rest: bytes) -> None:
        """Tells a rank who it is, and takes what it has sent behind its greeting."""
        self._welcome(rank, connection)
        self._send(Reply(rank, pmi.greeting(rank, len(self._nodes))))
        for reply in self.manager.receive(rank, rest) if rest else ():
            self._send(reply)
        self._listen()


def _received(connection: socket.socket) -> bytes | None:
    """What has come: None when nothing has, empty when the other side is gone."""
    try:
        return connection.recv(_PIECE)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _listener() -> socket.socket:
    listener = socket.create_server((LOOPBACK, 0))
    listener.setblocking(False)
    return listener


def _secret() -> str:
    """A number that nobody guesses; PMI's clients read it as an int."""
    return str(1 + int.from_bytes(os.urandom(4), "little") % (2**31 - 2))
