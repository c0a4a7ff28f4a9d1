"""One HTTP exchange: limited in bytes and in time, whatever the other side sends."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from batchai_magics.records import http_client
from tests.patience import PATIENCE_S


@contextlib.contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that answers one request in some way."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(1 << 16)
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join()


def test_an_endless_response_is_read_up_to_a_limit() -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        while True:
            connection.sendall(bytes(1 << 16))

    with answering(answer) as url:
        assert len(http_client.send(url, b"{}", {}, timeout_s=PATIENCE_S)) == http_client.MAX_BYTES


def test_a_response_that_comes_slowly_ends_after_a_time() -> None:
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.0 200 OK\r\n")
        while not over.wait(0.02):
            connection.sendall(b"X: y\r\n")

    with answering(answer) as url:
        with pytest.raises(TimeoutError, match="not complete in time"):
            http_client.send(url, b"{}", {}, timeout_s=0.1)
        over.set()
