"""The ranks' connections to their process manager: socket pairs, or a loopback port."""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from batchai_magics.backends.node.ranks import pmi
from batchai_magics.backends.node.ranks.pmi import ProcessManager, Reply
from batchai_magics.backends.node.ranks.rank import PmiEnvironment
from batchai_magics.launch.plan import Plan, Rendezvous

LOOPBACK = "127.0.0.1"
_READ_SIZE = 1 << 16
_MAX_HELLO = 256
_MAX_UNIDENTIFIED = 64  # at most so many connections that have not identified themselves


class Connections:
    """Transfers bytes between the ranks of a plan and their process manager, driven by a selector."""

    def __init__(self, plan: Plan, selector: selectors.BaseSelector) -> None:
        nodes = [process.node for process in plan.processes]
        self.manager = ProcessManager(f"kvs_{os.urandom(8).hex()}", len(nodes), pmi.mapping(nodes))
        self._nodes, self._selector = nodes, selector
        self._by_rank: dict[int, socket.socket] = {}
        self._unidentified: dict[socket.socket, bytes] = {}
        self._ids: dict[str, int] = {}
        self._listener = _listener() if plan.rendezvous is Rendezvous.PORT else None
        self._listen()

    @contextmanager
    def environment(self, rank: int) -> Iterator[PmiEnvironment]:
        """The environment and descriptors to start a rank with, within the context."""
        env = {"PMI_RANK": str(rank), "PMI_SIZE": str(len(self._nodes)), **self._local_ranks(rank)}
        if self._listener:
            port, secret = self._listener.getsockname()[1], _secret()
            self._ids[secret] = rank
            yield PmiEnvironment({**env, "PMI_PORT": f"{LOOPBACK}:{port}", "PMI_ID": secret})
            return
        manager_end, rank_end = socket.socketpair()
        with rank_end:
            self._register(rank, manager_end)
            yield PmiEnvironment({**env, "PMI_FD": str(rank_end.fileno())}, (rank_end.fileno(),))

    def drain(self, rank: int) -> None:
        """Reads what remains on the connection of a rank whose process has ended."""
        while connection := self._by_rank.get(rank):
            if not self._read(rank, connection):
                return

    def close(self) -> None:
        """Closes all connections."""
        for connection in (*self._by_rank.values(), *self._unidentified):
            self._drop(connection)
        if self._listener:
            self._drop(self._listener)

    def _local_ranks(self, rank: int) -> dict[str, str]:
        node = self._nodes[rank]
        local = rank - self._nodes.index(node)
        return {"MPI_LOCALRANKID": str(local), "MPI_LOCALNRANKS": str(self._nodes.count(node))}

    def _register(self, rank: int, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._by_rank[rank] = connection
        self._selector.register(connection, selectors.EVENT_READ, partial(self._read, rank, connection))

    def _read(self, rank: int, connection: socket.socket) -> bool:
        """Reads from a rank; False if there is nothing more now."""
        data = _received(connection)
        if data:
            for reply in self.manager.receive(rank, data):
                self._send(reply)
        elif data is not None:
            self._disconnect(rank, connection)
        return bool(data)

    def _send(self, reply: Reply) -> None:
        connection = self._by_rank.get(reply.rank)
        try:
            is_sent = connection is None or connection.send(reply.data) == len(reply.data)
        except OSError:
            is_sent = False
        if connection and not is_sent:  # it is gone, or sends without reading replies
            self._disconnect(reply.rank, connection)

    def _disconnect(self, rank: int, connection: socket.socket) -> None:
        if self._by_rank.get(rank) is connection:
            del self._by_rank[rank]
        self._drop(connection)
        self._listen()

    def _drop(self, connection: socket.socket) -> None:
        if connection in self._selector.get_map():
            self._selector.unregister(connection)
        connection.close()

    # Docker's containers inherit no descriptors: their ranks connect to a port and identify themselves by id.

    def _listen(self) -> None:
        """Accepts connections only while a rank is missing."""
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
        except OSError:  # it disconnected again
            return
        if len(self._unidentified) >= _MAX_UNIDENTIFIED:
            connection.close()
            return
        connection.setblocking(False)
        self._unidentified[connection] = b""
        self._selector.register(connection, selectors.EVENT_READ, partial(self._identify, connection))

    def _identify(self, connection: socket.socket) -> None:
        """Reads which rank it is; closes the connection unless it identifies itself at once."""
        data = _received(connection)
        if data is None:
            return
        line, end, rest = (self._unidentified[connection] + data).partition(b"\n")
        if data and not end and len(line) < _MAX_HELLO:
            self._unidentified[connection] = line
            return
        del self._unidentified[connection]
        self._selector.unregister(connection)
        rank = self._ids.get(pmi.claimed_id(line)) if end else None
        if rank is None or rank in self._by_rank:
            connection.close()
            return
        self._admit(rank, connection, rest)

    def _admit(self, rank: int, connection: socket.socket, rest: bytes) -> None:
        """Tells a rank who it is, and processes what it sent after its greeting."""
        self._register(rank, connection)
        self._send(Reply(rank, pmi.greeting(rank, len(self._nodes))))
        for reply in self.manager.receive(rank, rest) if rest else ():
            self._send(reply)
        self._listen()


def _received(connection: socket.socket) -> bytes | None:
    """Received data: None if there is none yet, empty if the other side has closed."""
    try:
        return connection.recv(_READ_SIZE)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _listener() -> socket.socket:
    listener = socket.create_server((LOOPBACK, 0))
    listener.setblocking(False)
    return listener


def _secret() -> str:
    """An unguessable number; PMI clients parse it as an int."""
    return str(1 + int.from_bytes(os.urandom(4), "little") % (2**31 - 2))
