"""A CONNECT proxy that is every host it is asked for: it answers over TLS on the connection itself.

A client needs two environment variables to use it: HTTPS_PROXY and REQUESTS_CA_BUNDLE.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.azureml.faults import CUT_BODY, CUT_REQUEST, SLOW_BODY, Fault, Faults
from tests.azureml.http_messages import Request, Response

SLOW_PIECES, SLOW_PAUSE_S = 20, 0.002


@dataclass
class Exchange:
    """One request and what it got: noted before the answer is sent, but for its bytes."""

    at: float
    request: Request
    status: int
    sent_bytes: int = 0


class TlsProxy:
    """Listens on a port of this machine and has `answer` respond to every request of every host."""

    def __init__(self, answer: Callable[[Request], Response], faults: Faults, tls: ssl.SSLContext) -> None:
        self.answer, self.faults, self.tls = answer, faults, tls
        self.exchanges: list[Exchange] = []
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Connection)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self.cut_all()
        self._server.server_close()

    def cut_all(self) -> None:
        """Cuts every open connection."""
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)


class _Server(ThreadingHTTPServer):
    proxy: TlsProxy
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error of the server's."""


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def do_CONNECT(self) -> None:
        """Goes on over TLS, as the host that the client wants."""
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        plain, self._plain_files = self.connection, (self.rfile, self.wfile)
        self.connection = self.server.proxy.tls.wrap_socket(plain, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
        self.server.proxy.opened(self.connection)
        self.close_connection = False

    def respond(self) -> None:
        proxy, request = self.server.proxy, self._request()
        fault = proxy.faults.take(request)
        if fault == CUT_REQUEST:
            return self._cut()
        response = fault.response() if fault and fault.status else proxy.answer(request)
        is_head = request.method == "HEAD"
        exchange = Exchange(time.monotonic(), request, response.status)
        proxy.exchanges.append(exchange)  # before the client has the answer
        self._send_head(response, is_head=is_head)
        if not is_head:
            exchange.sent_bytes = self._send_body(response.body, fault)

    do_GET = do_PUT = do_POST = do_HEAD = do_PATCH = do_DELETE = respond

    def _request(self) -> Request:
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        host = self.headers["Host"].partition(":")[0]
        return Request(self.command, host, unquote(url.path), query, self.headers, self._body())

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send_head(self, response: Response, *, is_head: bool) -> None:
        self.send_response(response.status)
        length = "" if is_head else str(len(response.body))
        for name, value in {**response.headers, **({"Content-Length": length} if length else {})}.items():
            self.send_header(name, value)
        if is_head and "Content-Length" not in response.headers:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def _send_body(self, body: bytes, fault: Fault | None) -> int:
        if fault == CUT_BODY and body:
            body = body[: len(body) // 2]
            self.wfile.write(body)
            self.wfile.flush()
            self._cut()
        elif fault == SLOW_BODY:
            step = len(body) // SLOW_PIECES + 1
            for start in range(0, len(body), step):
                self.wfile.write(body[start : start + step])
                self.wfile.flush()
                time.sleep(SLOW_PAUSE_S)
        else:
            self.wfile.write(body)
        return len(body)

    def _cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().finish()
        for file in getattr(self, "_plain_files", ()):
            with contextlib.suppress(OSError, ValueError):
                file.close()
        if isinstance(self.connection, ssl.SSLSocket):
            self.server.proxy.closed(self.connection)
            self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: `exchanges` has it."""
