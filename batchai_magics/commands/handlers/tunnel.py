"""Ports of a node, reached at ports of this machine: what `node exec -L PORT:HOST:PORT` asks for."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from batchai_magics.errors import UsageError, command_error

_LOOPBACK = "127.0.0.1"
_PIECE_BYTES = 1 << 16


@dataclass(frozen=True)
class Forward:
    """One port of this machine, and where it leads."""

    port: int
    host: str
    host_port: int

    def __str__(self) -> str:
        return f"{_LOOPBACK}:{self.port} to {self.host}:{self.host_port}"


def forwards(texts: Sequence[str]) -> list[Forward]:
    """What the `-L` options say."""
    return [_forward(text) for text in texts]


@contextlib.contextmanager
def opened(wanted: Sequence[Forward]) -> Iterator[None]:
    """Forwards connections while it is entered. Nobody outside of this machine can use them."""
    with contextlib.ExitStack() as stack:
        for forward in wanted:
            server = stack.enter_context(_listening(forward))
            threading.Thread(
                target=server.serve_forever, args=(0.05,), name="batchai-tunnel", daemon=True
            ).start()
            stack.callback(server.shutdown)
        yield


def wait() -> None:
    """Blocks until somebody interrupts."""
    threading.Event().wait()


def _forward(text: str) -> Forward:
    parts = text.split(":")
    if len(parts) != 3 or not (parts[0].isdigit() and parts[1] and parts[2].isdigit()):
        raise UsageError(f"--address: {text!r} is no PORT:HOST:PORT", hint="such as 8888:localhost:8888")
    return Forward(int(parts[0]), parts[1], int(parts[2]))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def _listening(forward: Forward) -> _Server:
    class Handler(socketserver.BaseRequestHandler):
        """One connection, passed on in both directions."""

        def handle(self) -> None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((forward.host, forward.host_port)) as there,
            ):
                back = threading.Thread(
                    target=_pump, args=(there, self.request), name="batchai-tunnel", daemon=True
                )
                back.start()
                _pump(self.request, there)
                back.join()

    try:
        return _Server((_LOOPBACK, forward.port), Handler)
    except OSError as error:
        message = (
            f"Connection to remote host failed. Please check provided credentials. Error: {error.strerror}"
        )
        raise command_error(message, hint=f"Port {forward.port} of this machine may be in use.") from None


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
