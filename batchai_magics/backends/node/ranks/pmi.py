"""PMI-1, through which MPICH's ranks find each other: the process manager's side.

Pure: bytes in, replies out.

A rank sends lines of `name=value` pairs over its own connection and waits for a reply to each. What a rank
puts into the shared key-value space is visible to all after the next barrier. Intel MPI and Slurm's clients
speak the same protocol.
"""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from batchai_magics.backends.node.ranks.rank import PmiEnvironment
from batchai_magics.launch.plan import Plan, Rendezvous

MAX_LINE = 1 << 16
MAX_NAME, MAX_KEY, MAX_VALUE = 256, 64, 4096  # the limits of MPICH's launcher
NO_SPAWN = (
    "MPI_Comm_spawn is not possible here: all processes of a job start together; ask for as many as it needs"
)
LOOPBACK = "127.0.0.1"
_READ_SIZE = 1 << 16
_MAX_HELLO = 256
_MAX_UNIDENTIFIED = 64  # connections that have not identified themselves


class Reply(NamedTuple):
    """Bytes for one rank."""

    rank: int
    data: bytes


def mapping(nodes: Sequence[int]) -> str:
    """The node of each rank in PMI's notation: blocks of (first node, node count, ranks per node)."""
    counts: dict[int, int] = {}
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
    blocks: list[list[int]] = []
    for node, count in counts.items():
        if blocks and blocks[-1][2] == count and sum(blocks[-1][:2]) == node:
            blocks[-1][1] += 1
        else:
            blocks.append([node, 1, count])
    return "(vector," + ",".join(f"({first},{number},{count})" for first, number, count in blocks) + ")"


def greeting(rank: int, size: int) -> bytes:
    """The reply that tells a rank that connected to the port its number and the size of the job."""
    lines = ("cmd=initack rc=0", f"cmd=set size={size}", f"cmd=set rank={rank}", "cmd=set debug=0")
    return "".join(f"{line}\n" for line in lines).encode()


def claimed_id(line: bytes) -> str:
    """The id with which a rank that connected to the port identifies itself."""
    pairs = pairs_of(line.decode("utf-8", "replace").strip())
    return pairs.get("pmiid", "") if pairs.get("cmd") == "initack" else ""


def pairs_of(text: str) -> dict[str, str]:
    """The pairs of a line; a word without `=` continues the previous value."""
    pairs: dict[str, str] = {}
    name = ""
    for word in text.split(" "):
        if "=" in word:
            name, _, value = word.partition("=")
            pairs[name] = value
        elif name:
            pairs[name] += f" {word}"
    return pairs


def reply(rank: int, command: str, **pairs: str) -> Reply:
    """A command for a rank; blanks in values are replaced on the wire."""
    parts = [f"cmd={command}", *(f"{name}={value.replace(' ', '_')}" for name, value in pairs.items())]
    return Reply(rank, (" ".join(parts) + "\n").encode())


class Abort(NamedTuple):
    """A rank called MPI_Abort."""

    rank: int
    code: int
    message: str


class ProcessManager:
    """The process manager's state and its replies to the ranks of a job.

    `name` is the name of its key-value space; MPICH names shared memory after it, so it must be unique.
    `attached` are the ranks between MPI_Init and MPI_Finalize, `initialized` those that ever were; `abort` is
    set by the first MPI_Abort.
    """

    def __init__(self, name: str, size: int, mapping: str) -> None:
        self.name, self.size = name, size
        self.attached: set[int] = set()
        self.initialized: set[int] = set()
        self.abort: Abort | None = None
        self._space = {"PMI_process_mapping": mapping}
        self._at_barrier: set[int] = set()
        self._unread: dict[int, bytes] = {}
        self._blocks: dict[int, str] = {}  # ranks in the middle of a multi-line command

    def receive(self, rank: int, data: bytes) -> list[Reply]:
        """Takes data from a rank, split arbitrarily; returns the replies to send."""
        *lines, unread = (self._unread.get(rank, b"") + data).split(b"\n")
        replies = [reply for line in lines for reply in self._line(rank, line)]
        if len(unread) > MAX_LINE:
            unread = b""
            replies.append(self._error_reply(rank, "a line is too long"))
        self._unread[rank] = unread
        return replies

    def missed(self, ended: Set[int]) -> Set[int]:
        """The ended ranks for which other ranks wait forever."""
        return {rank for rank in ended if rank in self.attached or self._at_barrier - {rank}}

    def _line(self, rank: int, line: bytes) -> list[Reply]:
        text = line.decode("utf-8", "replace").strip()
        if rank in self._blocks:
            if text != "endcmd":
                return []
            return [reply(rank, f"{self._blocks.pop(rank)}_result", rc="-1", msg=NO_SPAWN, errcodes="1")]
        pairs = pairs_of(text)
        if "mcmd" in pairs:
            self._blocks[rank] = pairs["mcmd"]
            return []
        command = _COMMANDS.get(pairs.get("cmd", ""))
        if not command:
            return (
                [self._error_reply(rank, f"unknown command {pairs.get('cmd', text)[:MAX_KEY]}")]
                if text
                else []
            )
        return command(self, rank, pairs)

    def _space_problem(self, pairs: Mapping[str, str]) -> str:
        return "" if pairs.get("kvsname", self.name) == self.name else "kvsname_unknown"

    def _error_reply(self, rank: int, message: str) -> Reply:
        return reply(rank, "error", rc="-1", msg=message)

    def _init(self, rank: int, pairs: Mapping[str, str]) -> list[Reply]:
        is_known = pairs.get("pmi_version", "1") == "1"
        if is_known:
            self.attached.add(rank)
            self.initialized.add(rank)
        return [
            reply(rank, "response_to_init", rc="0" if is_known else "-1", pmi_version="1", pmi_subversion="1")
        ]

    def _fact(self, rank: int, pairs: Mapping[str, str]) -> list[Reply]:
        """Replies to a query whose answer is the same for all ranks."""
        facts: Mapping[str, Mapping[str, object]] = {
            "maxes": {"kvsname_max": MAX_NAME, "keylen_max": MAX_KEY, "vallen_max": MAX_VALUE},
            "appnum": {"appnum": 0},
            "my_kvsname": {"kvsname": self.name},
            "universe_size": {"size": self.size},
        }
        name = pairs["cmd"].removeprefix("get_")
        return [reply(rank, name, rc="0", **{key: str(value) for key, value in facts[name].items()})]

    def _put(self, rank: int, pairs: Mapping[str, str]) -> list[Reply]:
        key, value = pairs.get("key", ""), pairs.get("value", "")
        problem = self._space_problem(pairs) or _entry_problem(key, value)
        if problem:
            return [reply(rank, "put_result", rc="-1", msg=problem)]
        self._space[key] = value
        return [reply(rank, "put_result", rc="0", msg="success")]

    def _get(self, rank: int, pairs: Mapping[str, str]) -> list[Reply]:
        value = self._space.get(pairs.get("key", ""))
        problem = self._space_problem(pairs) or ("" if value is not None else "key_not_found")
        if problem:
            return [reply(rank, "get_result", rc="-1", msg=problem)]
        return [reply(rank, "get_result", rc="0", msg="success", value=value or "")]

    def _barrier(self, rank: int, _: Mapping[str, str]) -> list[Reply]:
        self._at_barrier.add(rank)
        if len(self._at_barrier) < self.size:
            return []
        ranks, self._at_barrier = sorted(self._at_barrier), set()
        return [reply(waiting, "barrier_out", rc="0") for waiting in ranks]

    def _finalize(self, rank: int, _: Mapping[str, str]) -> list[Reply]:
        self.attached.discard(rank)
        return [reply(rank, "finalize_ack", rc="0")]

    def _abort(self, rank: int, pairs: Mapping[str, str]) -> list[Reply]:
        try:
            code = int(pairs.get("exitcode", "1"))
        except ValueError:
            code = 1
        message = pairs.get("message") or pairs.get("msg") or ""
        self.abort = self.abort or Abort(rank, code, message)
        return []


_Command = Callable[[ProcessManager, int, Mapping[str, str]], list[Reply]]
_COMMANDS: Mapping[str, _Command] = {
    "init": ProcessManager._init,
    **dict.fromkeys(("get_maxes", "get_appnum", "get_my_kvsname", "get_universe_size"), ProcessManager._fact),
    "put": ProcessManager._put,
    "get": ProcessManager._get,
    "barrier_in": ProcessManager._barrier,
    "finalize": ProcessManager._finalize,
    "abort": ProcessManager._abort,
}


def _entry_problem(key: str, value: str) -> str:
    if not key:
        return "no_key"
    return "too_long" if len(key) > MAX_KEY or len(value) > MAX_VALUE else ""


def manager_of(plan: Plan, kind: type[ProcessManager] = ProcessManager) -> ProcessManager:
    """The process manager of a plan's ranks."""
    nodes = [process.node for process in plan.processes]
    return kind(f"kvs_{os.urandom(8).hex()}", len(nodes), mapping(nodes))


class Connections:
    """Transfers bytes between the ranks of a plan and their process manager, driven by a selector."""

    def __init__(
        self, plan: Plan, selector: selectors.BaseSelector, kind: type[ProcessManager] = ProcessManager
    ) -> None:
        self.manager = manager_of(plan, kind)
        self._nodes, self._selector = [process.node for process in plan.processes], selector
        self._by_rank: dict[int, socket.socket] = {}
        self._unidentified: dict[socket.socket, bytes] = {}
        self._ids: dict[str, int] = {}
        self._listener = _listener() if plan.rendezvous is Rendezvous.PORT else None
        self._listen()

    @contextmanager
    def environment(self, rank: int) -> Iterator[PmiEnvironment]:
        """The environment and descriptors to start a rank with, within the context."""
        node = self._nodes[rank]
        local = rank - self._nodes.index(node)
        env = {
            "PMI_RANK": str(rank),
            "PMI_SIZE": str(len(self._nodes)),
            "MPI_LOCALRANKID": str(local),
            "MPI_LOCALNRANKS": str(self._nodes.count(node)),
        }
        if self._listener:
            port = self._listener.getsockname()[1]
            secret = str(1 + int.from_bytes(os.urandom(4), "little") % (2**31 - 2))
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

    def _register(self, rank: int, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._by_rank[rank] = connection
        self._selector.register(connection, selectors.EVENT_READ, partial(self._read, rank, connection))

    def _read(self, rank: int, connection: socket.socket) -> bool:
        """Reads from a rank; False if there is nothing more now."""
        data = _received(connection)
        if data:
            for reply in self.manager.receive(rank, data):
                self.send(reply)
        elif data is not None:
            self._disconnect(rank, connection)
        return bool(data)

    def send(self, reply: Reply) -> None:
        """Sends a reply to its rank, if that is still connected."""
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
        """Reads the id of a rank; closes a connection whose first line is not a valid one."""
        data = _received(connection)
        if data is None:
            return
        line, end, remaining = (self._unidentified[connection] + data).partition(b"\n")
        if data and not end and len(line) < _MAX_HELLO:
            self._unidentified[connection] = line
            return
        del self._unidentified[connection]
        self._selector.unregister(connection)
        rank = self._ids.get(claimed_id(line)) if end else None
        if rank is None or rank in self._by_rank:
            connection.close()
            return
        self._register(rank, connection)
        self.send(Reply(rank, greeting(rank, len(self._nodes))))
        for reply in self.manager.receive(rank, remaining) if remaining else ():
            self.send(reply)
        self._listen()


def _received(connection: socket.socket) -> bytes | None:
    """The received data; None if nothing has arrived, empty if the other side has closed."""
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
