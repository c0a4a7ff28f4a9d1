"""Port forwarding from this machine to a node: `node exec -L PORT:HOST:PORT`."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from batchai_magics.errors import UsageError, command_error

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
    return [_parse_forward(text) for text in texts]


@contextlib.contextmanager
def open_forwards(wanted: Sequence[PortForward]) -> Iterator[None]:
    """Forwards connections inside the `with` block; listens on the loopback interface only."""
    with contextlib.ExitStack() as stack:
        for forward in wanted:
            server = stack.enter_context(_listen(forward))
            threading.Thread(
                target=server.serve_forever, args=(0.05,), name="batchai-tunnel", daemon=True
            ).start()
            stack.callback(server.shutdown)
        yield


def wait_for_interrupt() -> None:
    """Blocks until Ctrl-C."""
    threading.Event().wait()


def _parse_forward(text: str) -> PortForward:
    parts = text.split(":")
    if len(parts) != 3 or not (parts[0].isdigit() and parts[1] and parts[2].isdigit()):
        raise UsageError(f"--address: {text!r} is no PORT:HOST:PORT", hint="such as 8888:localhost:8888")
    return PortForward(int(parts[0]), parts[1], int(parts[2]))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def _listen(forward: PortForward) -> _Server:
    class Handler(socketserver.BaseRequestHandler):
        """Relays one connection in both directions."""

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
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
