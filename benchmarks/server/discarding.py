"""A server that throws the bodies of requests away: what Azure's library takes itself."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_RESPONSE = (
    b'HTTP/1.1 201 Created\r\nContent-Length: 0\r\nETag: "1"\r\n'
    b"Last-Modified: Tue, 01 Dec 2026 00:00:00 GMT\r\nx-ms-version: 2021-06-08\r\n"
    b"x-ms-request-server-encrypted: true\r\n\r\n"
)


@contextmanager
def discarding() -> Iterator[int]:
    """Runs the server in a process of its own; its port."""
    process = subprocess.Popen([sys.executable, "-m", __name__], stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def answer(connection: socket.socket) -> None:
    """Answers the requests of one connection until the client closes it."""
    piece = memoryview(bytearray(1 << 18))
    while True:
        head = b""
        while b"\r\n\r\n" not in head:
            received = connection.recv(1 << 16)
            if not received:
                return
            head += received
        head, _, body = head.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        left = (int(length[1]) if length else 0) - len(body)
        while left > 0:
            left -= connection.recv_into(piece) or left
        connection.sendall(_RESPONSE)


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            with listener.accept()[0] as client, suppress(ConnectionError):
                answer(client)
