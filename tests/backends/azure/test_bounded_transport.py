"""However much a server sends, no more than the limit is kept of it, and the error names both."""

from __future__ import annotations

import contextlib
import gzip
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from batchai_magics.backends.arm.arm_backend import ArmBackend
from batchai_magics.backends.arm.connection import Endpoint
from batchai_magics.backends.arm.server_extensions import ExtendedStorage, ServerNodes
from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.arm.share_clients import signed_file_client, translated_errors
from batchai_magics.backends.azure import bounded_transport
from batchai_magics.errors import ServiceError
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.server.running import WORKSPACE, connected

pytestmark = pytest.mark.slow  # Azure's libraries ask `uname` what this machine is
LIMIT = 4 << 20
TWICE = "gzip, gzip"  # a body that ends, of 64 MiB
ID = ResourceId.parse(WORKSPACE)


class EndlessServer(ThreadingHTTPServer):
    """Answers every request with a body that never ends."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Endless)
        self.status, self.encoding, self.has_chunks = 200, "", True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Endless(BaseHTTPRequestHandler):
    server: EndlessServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Range", "bytes 0-99/100")
        if self.server.encoding:
            self.send_header("Content-Encoding", self.server.encoding)
        if self.server.has_chunks:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):  # the client has closed the connection
            for piece in _pieces(self.server.encoding):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if self.server.has_chunks else piece)
            self.wfile.write(b"0\r\n\r\n" if self.server.has_chunks else b"")

    do_POST = do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        pass


def _pieces(encoding: str) -> Iterator[bytes]:
    data = b"[" * (1 << 20)
    if encoding == TWICE:
        once = zlib.compressobj(wbits=31)
        yield gzip.compress(b"".join([*(once.compress(data) for _ in range(64)), once.flush()]))
        return
    compressor = zlib.compressobj(wbits=31) if encoding else None
    while True:
        piece = compressor.compress(data) if compressor else data
        if piece:
            yield piece


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EndlessServer]:
    monkeypatch.setattr(bounded_transport, "MAX_RESPONSE_BYTES", LIMIT)
    with EndlessServer() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def backend(server: EndlessServer) -> Iterator[ArmBackend]:
    with contextlib.closing(connected(server.url)) as made:
        yield made


def refused(ask: Callable[[], object]) -> ServiceError:
    """The error of a request, which has kept little more than the limit."""
    tracemalloc.start()
    try:
        with pytest.raises(ServiceError) as caught:
            ask()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * LIMIT  # pieces, joined, as text; and a piece of 10 KiB that was compressed
    return caught.value


def _signed(server: EndlessServer) -> bytes:
    endpoint = Endpoint.of(ArmSettings(endpoint=server.url))
    address = urlsplit(f"{server.url}/account/share/file?sig=x")
    with signed_file_client(endpoint, address) as client, translated_errors():
        return bytes(client.download_file(offset=0, length=100).readall())


REQUESTS: dict[str, Callable[[ArmBackend, EndlessServer], object]] = {
    "show": lambda backend, _: backend.show(ID),
    "list": lambda backend, _: list(backend.list(ID, Kind.EXPERIMENT)),
    "delete": lambda backend, _: backend.delete(ID),
    "pack of files": lambda backend, _: ExtendedStorage(
        backend._connection, backend.accounts, "batchai", "file"
    ).fetch_pack("share", ["a", "b"]),
    "command on a node": lambda backend, _: list(ServerNodes(backend._connection).execute(ID, "0", "ls")),
    "file": lambda _, server: _signed(server),
}


@pytest.mark.parametrize("ask", REQUESTS.values(), ids=REQUESTS)
def test_an_endless_response_ends_at_the_limit(server, backend, ask) -> None:
    error = refused(lambda: ask(backend, server))
    assert error.code in ("ResponseTooLarge", "InvalidAnswer")
    assert "4 MiB" in error.message or "1 MiB" in error.message


@pytest.mark.parametrize(
    ("status", "has_chunks", "encoding"),
    [(404, False, "gzip"), (500, True, "gzip"), (500, False, ""), (404, True, "")],
)
def test_every_form_of_an_endless_response_ends(server, backend, status, has_chunks, encoding) -> None:
    server.status, server.has_chunks, server.encoding = status, has_chunks, encoding
    error = refused(lambda: backend.show(ID))
    assert (error.code, error.message) == (
        "ResponseTooLarge",
        f"{server.url} sends more than 4 MiB for {ID}",
    )


def test_a_body_that_was_compressed_twice_is_not_decompressed(server, backend) -> None:
    server.encoding = TWICE
    assert refused(lambda: backend.show(ID)).code == "WrongEndpoint"
