"""Clients and commands that are too many, too slow, too large or silent starve nobody."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from batchai_magics.backends.base import CommandEnd
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.server.batchai import extensions
from batchai_magics.server.http.request_limits import LimitedProtocol, ServerLimits
from tests.server.running import TOKEN, WORKSPACE, Running, connected, connections, serving
from tests.server.storage.signed_urls import signed_path
from tests.world import until

pytestmark = pytest.mark.slow
HASTY = ServerLimits(body_s=0.3, send_s=0.5, header_bytes=8 << 10)
PUT = (
    f"PUT {WORKSPACE}?api-version=2018-05-01 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
)


def limited(
    folders: pytest.TempPathFactory, *, header_s: float = 60.0, send_s: float = 60.0, **more: ServerLimits
) -> AbstractContextManager[Running]:
    """A server that takes small headers."""
    sizes = {"header_bytes": HASTY.header_bytes, "header_s": header_s, "send_s": send_s}
    return serving(folders.mktemp("server") / "home", http=partial(LimitedProtocol, **sizes), **more)


@pytest.fixture(scope="module")
def abrupt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that waits for no header: on a busy machine even those that are sent may come too late."""
    with limited(tmp_path_factory, header_s=0.3) as running:
        yield running


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that has patience."""
    with limited(tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that waits for nobody once the headers are there."""
    with limited(tmp_path_factory, limits=HASTY, send_s=HASTY.send_s) as running:
        yield running


@contextlib.contextmanager
def connection(server: Running, sent: str) -> Iterator[socket.socket]:
    with connections(server.url, 1, sent.encode()) as (client,):
        yield client


def receive_all(client: socket.socket) -> bytes:
    """All that comes until the server closes the connection, or the first piece of an answer."""
    return client.recv(65536)


def test_headers_that_do_not_come_are_not_waited_for(abrupt: Running) -> None:
    with connection(abrupt, "GET / HTTP/1.1\r\nHost: local") as client:
        assert receive_all(client) == b""


def test_the_rest_of_a_refused_body_is_not_waited_for(abrupt: Running) -> None:
    head = "PUT /local/batchaishare/a?comp=range HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n"
    with contextlib.ExitStack() as left:
        client, answer = until(lambda: answered(left.enter_context(connection(abrupt, head))))
        assert b"401" in answer.splitlines()[0]
        until(lambda: is_closed(client))


def answered(client: socket.socket) -> tuple[socket.socket, bytes] | None:
    """A connection with its answer, unless its headers came too late for one."""
    with contextlib.suppress(ConnectionError):
        if answer := receive_all(client):
            return client, answer
    return None


def is_closed(client: socket.socket) -> bool:
    """Whether a byte more finds the connection closed."""
    try:
        client.sendall(b"x")
    except ConnectionError:
        return True
    return False


LARGE = 16 << 10  # bytes, more than are taken of a head
CHUNKED = f"{PUT}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n"


@pytest.mark.parametrize(
    "head",
    [f"GET / HTTP/1.1\r\nX-Long: {'x' * LARGE}", f"GET /{'x' * LARGE}", "\r\n" * LARGE],
    ids=["header", "request line", "blank lines"],
)
def test_headers_that_are_too_large_are_refused(narrow: Running, head: str) -> None:
    with connection(narrow, head) as client:
        assert receive_all(client).startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("line", ["0\r\nX-Long: ", "2;"], ids=["trailer", "extension"])
def test_lines_around_a_body_that_are_too_large_are_refused(narrow: Running, line: str) -> None:
    with connection(narrow, CHUNKED) as client:
        until(lambda: narrow.open_requests() == 1)
        client.sendall((line + "x" * LARGE).encode())
        assert receive_all(client) == b""


def test_a_body_in_chunks_may_be_larger_than_headers(narrow: Running) -> None:
    spaces = f"{LARGE:x}\r\n{' ' * LARGE}\r\n"
    chunks = "1\r\n \r\n" * LARGE
    with connection(narrow, CHUNKED + spaces + chunks + "0\r\n\r\n") as client:
        assert b"LocationRequired" in receive_all(client)  # the JSON was read


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 2\r\nTransfer-Encoding: chunked",
        "Content-Length: 2\r\nContent-Length: 3",
        "Transfer-Encoding: gzip",
        "Host: evil.example",
    ],
)
def test_a_request_that_can_be_read_in_two_ways_is_refused(narrow: Running, framing: str) -> None:
    with connection(narrow, f"{PUT}{framing}\r\n\r\n{{}}") as client:
        assert receive_all(client).startswith(b"HTTP/1.1 4")


def test_unfinished_request_bodies_of_a_user_are_limited(narrow: Running) -> None:
    sent = f"{PUT}Content-Length: 100\r\n\r\n{{".encode()
    with connections(narrow.url, ServerLimits().bodies_of_user + 1, sent) as clients:
        (refused,) = until(lambda: select.select(clients, [], [], 0)[0])
        assert b"ServerBusy" in refused.recv(65536)


def test_a_reader_that_stops_reading_is_let_go(hasty: Running) -> None:
    storage = hasty.world.backend.storage
    storage.upload("batchaishare", {"large.bin": bytes(64 << 20)})
    path = signed_path(hasty, "batchaishare", "large.bin")
    with connection(hasty, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n") as client:
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        until(lambda: hasty.open_requests() == 0)  # the reader is gone


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Running]:
    """A server that lets nobody go for being slow, and takes as many bodies of one user as requests."""
    slow = {"body_s": 1e6, "body_idle_s": 1e6, "send_s": 1e6}
    bodies = dict.fromkeys(("bodies", "bodies_of_user", "bodies_of_address"), ServerLimits().streams)
    with serving(tmp_path / "home", limits=ServerLimits(**slow, **bodies)) as running:
        yield running


def test_slow_readers_and_writers_do_not_starve_other_requests(
    patient: Running, caplog: pytest.LogCaptureFixture
) -> None:
    patient.world.backend.storage.upload("batchaishare", {"large.bin": bytes(32 << 20)})
    path = signed_path(patient, "batchaishare", "large.bin")
    crowd, stalled = 3 * ServerLimits().threads, f"{PUT}Content-Length: 100\r\n\r\n{{".encode()
    read = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with (
        connections(patient.url, crowd // 2, read) as readers,
        connections(patient.url, crowd // 2, stalled),
    ):
        until(lambda: patient.open_requests() == crowd)
        assert all(client.recv(1000).startswith(b"HTTP/1.1 200") for client in readers)
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda _: patient.ask("GET", WORKSPACE).status_code, range(40))
            assert set(answers) == {200}
        few = patient.ask("GET", path, token=None, headers={"Range": "bytes=0-9"})
        assert (few.status_code, few.content) == (206, bytes(10))
    until(lambda: patient.open_requests() == 0)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []  # who goes is no error


def test_server_metrics_need_a_token(server: Running) -> None:
    assert server.ask("GET", "/metrics", token=None).status_code == 401
    server.ask("GET", WORKSPACE)
    text = server.ask("GET", "/metrics").text
    assert 'batchai_requests_total{method="GET",status="200"}' in text
    assert "batchai_request_seconds_bucket" in text


CLUSTER = ResourceId.parse(WORKSPACE).child(Kind.CLUSTER, "default")


def test_silent_node_commands_do_not_block_other_requests(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(extensions, "_HEARTBEAT_S", 0.0)  # none of them lets go of its thread for a moment
    go = tmp_path / "go"
    with serving(tmp_path / "home", limits=ServerLimits(threads=2)) as server:
        until(lambda: server.world.backend.nodes(CLUSTER))
        node = server.world.backend.nodes(CLUSTER)[0].id
        with contextlib.closing(connected(server.url)) as backend:
            command = f"echo up; until [ -e {go} ]; do sleep 0.05; done"
            outputs = [backend.node_commands.execute(CLUSTER, node, command) for _ in range(4)]
            assert [next(output).data for output in outputs] == [b"up\n"] * 4
            assert server.ask("GET", str(CLUSTER)).ok
            go.touch()
            assert [list(output) for output in outputs] == [[CommandEnd(0)]] * 4
