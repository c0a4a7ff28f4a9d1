"""`batchai cluster node …` and `batchai job node …`, with port forwarding: `node exec -L PORT:HOST:PORT`."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from batchai_magics.backends.base import NODE_COMMANDS, PREEMPTION, CommandBytes
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.output.command_progress import (
    CommandExit,
    LogOutput,
    Message,
    Stream,
    StreamParts,
)
from batchai_magics.errors import UsageError, command_error
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Node

_LOOPBACK = "127.0.0.1"
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class PortForward:
    """A local port and the address it forwards to."""

    port: int
    host: str
    host_port: int

    def __str__(self) -> str:
        return f"{_LOOPBACK}:{self.port} to {self.host}:{self.host_port}"


def parse_forwards(texts: Sequence[str]) -> list[PortForward]:
    """Parses the `-L` options."""
    forwards = []
    for text in texts:
        parts = text.split(":")
        if len(parts) != 3 or not (parts[0].isdigit() and parts[1] and parts[2].isdigit()):
            raise UsageError(f"--address: {text!r} is not PORT:HOST:PORT", hint="such as 8888:localhost:8888")
        forwards.append(PortForward(int(parts[0]), parts[1], int(parts[2])))
    return forwards


@contextlib.contextmanager
def open_forwards(forwards: Sequence[PortForward]) -> Iterator[None]:
    """Forwards connections inside the `with` block; listens on the loopback interface only."""
    with contextlib.ExitStack() as stack:
        for forward in forwards:
            server = stack.enter_context(_listen(forward))
            threading.Thread(
                target=server.serve_forever, args=(0.05,), name="batchai-tunnel", daemon=True
            ).start()
            stack.callback(server.shutdown)
        yield


def wait_for_interrupt() -> None:
    """Blocks until Ctrl-C."""
    threading.Event().wait()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def _listen(forward: PortForward) -> _Server:
    class RelayHandler(socketserver.BaseRequestHandler):
        """Relays one connection in both directions."""

        def handle(self) -> None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((forward.host, forward.host_port)) as remote,
            ):
                replies = threading.Thread(
                    target=_pump, args=(remote, self.request), name="batchai-tunnel", daemon=True
                )
                replies.start()
                _pump(self.request, remote)
                replies.join()

    try:
        return _Server((_LOOPBACK, forward.port), RelayHandler)
    except OSError as error:
        message = (
            f"Connection to remote host failed. Please check provided credentials. Error: {error.strerror}"
        )
        raise command_error(message, hint=f"Port {forward.port} of this machine may be in use.") from None


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def list_all(context: Context, arguments: Namespace, kind: Kind) -> Sequence[Node]:
    """The nodes of a cluster, or those that a job runs on, with their addresses."""
    return context.backend.nodes(_owner(context, arguments, kind))


def _owner(context: Context, arguments: Namespace, kind: Kind) -> ResourceId:
    return context.cluster(arguments) if kind is Kind.CLUSTER else context.target(arguments, kind)


def preempt(context: Context, arguments: Namespace) -> None:
    """Preempts a node, as Azure may at any time."""
    PREEMPTION.of(context.backend).preempt(context.cluster(arguments), arguments.node_id)


def execute(context: Context, arguments: Namespace, kind: Kind) -> Stream:
    """Runs a command on a node of a cluster or of a job."""
    id = _owner(context, arguments, kind)
    forwards = parse_forwards(arguments.address or ())
    if not arguments.exec and not forwards:
        raise command_error("Please provide a command with --exec, or ports with --address.")
    node = _choose_node(context.backend.nodes(id), arguments.node_id)
    effect = "The command was ended." if arguments.exec else "The ports are no longer forwarded."
    return Stream(_run(context, arguments.exec, id, node, forwards), f"Stopped. {effect}")


def _choose_node(nodes: Sequence[Node], node_id: str | None) -> Node:
    """The node with that id, by default the first one."""
    if not node_id:
        if not nodes:
            raise command_error("No nodes available in the cluster")
        return nodes[0]
    node = next((node for node in nodes if node.id == node_id), None)
    if node is None:
        known = ", ".join(node.id for node in nodes)
        raise command_error(
            f"Cannot find a node with id={node_id}", hint=f"Available: {known}." if known else ""
        )
    return node


def _run(
    context: Context,
    command: str | None,
    id: ResourceId,
    node: Node,
    forwards: Sequence[PortForward],
) -> StreamParts:
    with open_forwards(forwards):
        yield from (Message(f"{forward} of node {node.id} is forwarded.") for forward in forwards)
        if not command:
            wait_for_interrupt()
            return
        with closing(NODE_COMMANDS.of(context.backend).execute(id, node.id, command)) as output:
            for part in output:
                if isinstance(part, CommandBytes):
                    yield LogOutput(part.data, part.is_error)
                else:
                    ending = f"the command ended with exit code {part.exit_code}" if part.exit_code else ""
                    yield CommandExit(part.exit_code, ending)
