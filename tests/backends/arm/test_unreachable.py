"""Every way not to get through has an error of its own, and comes soon."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from batchai_magics.backends.base import Backend
from batchai_magics.errors import ServiceError, UnreachableError
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.server.access.certificates import server_certificate
from tests.ports import deaf_port
from tests.server.running import WORKSPACE, connected

pytestmark = pytest.mark.slow  # Azure's libraries ask `uname` what this machine is
ID = ResourceId.parse(WORKSPACE)


class Stranger(BaseHTTPRequestHandler):
    """Answers everything with a page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>Welcome</html>")

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def stranger(context: ssl.SSLContext | None = None) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def refused(backend: Backend) -> ServiceError:
    with contextlib.closing(backend), pytest.raises(ServiceError) as caught:
        backend.show(ID)
    assert caught.value.hint
    return caught.value


def test_closed_port_is_reported_at_once_by_storage_too() -> None:
    with deaf_port() as port, contextlib.closing(connected(f"http://127.0.0.1:{port}")) as backend:
        for ask in (backend.storage.shares, lambda: backend.storage.make("data"), backend.groups.list):
            with pytest.raises(UnreachableError, match="nothing is listening there"):
                ask()


def test_tls_where_there_is_none_is_named() -> None:
    with stranger() as port:
        error = refused(connected(f"https://localhost:{port}"))
    assert "does not speak TLS" in error.message


def test_untrusted_certificate_error_says_how_to_trust_it(tmp_path, monkeypatch) -> None:
    pair = server_certificate(tmp_path, ["localhost"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with stranger(context) as port:
        error = refused(connected(f"https://localhost:{port}"))
        assert error.code == "CertificateNotTrusted"
        assert "REQUESTS_CA_BUNDLE" in error.hint
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(pair.authority))
        assert refused(connected(f"https://localhost:{port}")).code == "WrongEndpoint"  # it was let through
