"""Clients that are too many, too slow or too large starve nobody."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from functools import partial
from urllib.parse import urlsplit

import pytest

from batchai_magics.server.http.limits import Limits
from batchai_magics.server.http.protocol import BoundedProtocol
from tests.patience import PATIENCE_S
from tests.server.running import TOKEN, WORKSPACE, Running, serving
from tests.server.storage.signed import signed_path
from tests.world import until

pytestmark = pytest.mark.slow
TIGHT = Limits(streams=2, body_s=0.3, send_s=0.5, header_s=0.3, header_bytes=8 << 10)
PUT = (
    f"PUT {WORKSPACE}?api-version=2018-05-01 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
)


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    http = partial(BoundedProtocol, header_s=TIGHT.header_s)
    config = {"http": http, "h11_max_incomplete_event_size": TIGHT.header_bytes}
    with serving(tmp_path_factory.mktemp("tight") / "home", limits=TIGHT, **config) as running:
        yield running


@contextlib.contextmanager
def connection(server: Running, sent: str = "") -> Iterator[socket.socket]:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as client:
        client.sendall(sent.encode())
        yield client


def answer(client: socket.socket) -> bytes:
    """All that comes until the server closes the connection, or the first piece of an answer."""
    return client.recv(65536)


def test_headers_that_do_not_come_are_not_waited_for(tight: Running) -> None:
    with connection(tight, "GET / HTTP/1.1\r\nHost: local") as client:
        assert answer(client) == b""


def test_headers_that_are_too_large_are_refused(tight: Running) -> None:
    with connection(tight, f"GET / HTTP/1.1\r\nX-Long: {'x' * (64 << 10)}") as client:
        assert answer(client).startswith(b"HTTP/1.1 4")


def test_a_body_that_does_not_come_is_not_waited_for(tight: Running) -> None:
    with connection(tight, f"{PUT}Content-Length: 100\r\n\r\n{{") as client:
        assert b"408" in answer(client).splitlines()[0]


def test_more_requests_at_once_than_are_taken_are_told_to_come_again(tight: Running) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(TIGHT.streams):
            stack.enter_context(connection(tight, f"{PUT}Content-Length: 100\r\n\r\n{{"))
        until(lambda: tight.ask("GET", "/healthz").status_code == 503)
        assert tight.ask("GET", "/healthz").headers["Retry-After"] == "1"
    until(lambda: tight.ask("GET", "/healthz").status_code == 200)


def test_a_reader_that_stops_reading_is_let_go(tight: Running) -> None:
    storage = tight.world.backend.storage
    storage.upload("batchaishare", {"large.bin": bytes(64 << 20)})
    path = signed_path(tight, "batchaishare", "large.bin")
    with connection(tight, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n") as client:
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        until(lambda: open_requests(tight) == 1)  # this question alone is under way: the reader is gone


def test_the_numbers_of_the_server_are_told_to_who_has_a_token(tight: Running) -> None:
    assert tight.ask("GET", "/metrics", token=None).status_code == 401
    tight.ask("GET", WORKSPACE)
    text = tight.ask("GET", "/metrics").text
    assert 'batchai_requests_total{method="GET",status="200"}' in text
    assert "batchai_request_seconds_bucket" in text


def open_requests(server: Running) -> int:
    lines = server.ask("GET", "/metrics").text.splitlines()
    line = next(
        (line for line in lines if line.startswith("batchai_requests_open ")), "batchai_requests_open 9"
    )
    return int(float(line.split()[1]))
