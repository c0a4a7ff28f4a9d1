"""A server of one plain page on this machine: a job's live view, or the replay of a recording.

It listens on 127.0.0.1 only. Every request needs its token: in the page's address, afterwards in a cookie.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from batchai_magics.untrusted_files import parse_json
from batchai_magics.widgets.core import pages

LOOPBACK = "127.0.0.1"
MAX_MESSAGE_BYTES = 1 << 16
IDLE_TIMEOUT_S = 30.0  # without a byte, after which half a request ends, and a page that reads nothing
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>batchai</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="job_view.css">
</head>
<body class="ba-page"><main id="view"></main><script type="module" src="start.js"></script></body>
</html>
"""
CLEAN_ADDRESS = 'history.replaceState(null, "", "/");\n'  # the token stays in the cookie only
LIVE_SCRIPT = f"""import {{ showLive }} from "./job_view.js";
{CLEAN_ADDRESS}showLive(document.getElementById("view"));
"""
REPLAY_SCRIPT = f"""import widget from "./job_view.js";
{CLEAN_ADDRESS}const model = {{ get: (name) => (name === "recording" ? "recording" : undefined) }};
widget().render({{ model, el: document.getElementById("view") }});
"""


class PageConnection(Protocol):
    """An open page."""

    def frames(self) -> Iterator[bytes]:
        """The frames to send, as they come; blocks between them."""

    def receive(self, content: dict[str, Any]) -> None:
        """Takes a message of the page."""

    def close(self) -> None:
        """The page is gone."""


class PageServer:
    """Serves a page until it is closed: live with `connect`, else the replay of `recording`.

    `on_close` is called when no page is connected any more.
    """

    def __init__(
        self,
        *,
        connect: Callable[[], PageConnection] | None = None,
        recording: bytes = b"",
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._connect = connect
        self._on_close = on_close
        self._token = secrets.token_urlsafe(32)
        self._connections: dict[str, PageConnection] = {}
        self._http = ThreadingHTTPServer((LOOPBACK, 0), _handler_class(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, name="batchai-page", daemon=True)
        self.port: int = self._http.server_address[1]
        self._files = {
            "/": ("text/html; charset=utf-8", PAGE.encode()),
            "/start.js": ("text/javascript", (LIVE_SCRIPT if connect else REPLAY_SCRIPT).encode()),
            "/job_view.js": ("text/javascript", pages.script().encode()),
            "/job_view.css": ("text/css", pages.style().encode()),
            **({} if connect else {"/recording": ("application/gzip", recording)}),
        }

    @property
    def url(self) -> str:
        """The address of the page, with its token."""
        return f"http://{LOOPBACK}:{self.port}/?token={self._token}"

    def start(self) -> PageServer:
        """Serves in a thread."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Ends the server, its thread and its pages."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        for connection in list(self._connections.values()):
            connection.close()
        self._on_close()

    def accepts_host(self, host: str) -> bool:
        """Whether a `Host` header names this server: guards against DNS rebinding from web pages."""
        return host in (f"{LOOPBACK}:{self.port}", f"localhost:{self.port}")

    def accepts_token(self, token: str) -> bool:
        """Whether a token is the server's, in constant time."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    @property
    def cookie_name(self) -> str:
        """The name of the cookie: those of a machine's servers are sent to all of its ports."""
        return f"batchai-{self.port}"

    def cookie(self) -> str:
        """The cookie that a page with the right token gets."""
        return f"{self.cookie_name}={self._token}; HttpOnly; SameSite=Lax; Path=/"

    def file(self, path: str) -> tuple[str, bytes] | None:
        """The type and content of a file of the page."""
        return self._files.get(path)

    def open(self, page: str) -> PageConnection | None:
        """A new connection of a page, in place of an earlier one; None for a recording."""
        if self._connect is None:
            return None
        if earlier := self._connections.pop(page, None):
            earlier.close()
        connection = self._connections[page] = self._connect()
        return connection

    def leave(self, page: str, connection: PageConnection) -> None:
        """Ends a connection."""
        connection.close()
        if self._connections.get(page) is connection:
            del self._connections[page]

    def receive(self, page: str, content: dict[str, Any]) -> bool:
        """Takes a message of a page; returns whether the page is known."""
        connection = self._connections.get(page)
        if connection:
            connection.receive(content)
        return connection is not None


def _handler_class(server: PageServer) -> type[BaseHTTPRequestHandler]:
    """The class of request handlers of a server."""

    class PageRequestHandler(_Handler):
        page_server = server

    return PageRequestHandler


class _Handler(BaseHTTPRequestHandler):
    page_server: PageServer
    server_version = "batchai"
    timeout = IDLE_TIMEOUT_S  # of the socket
    sys_version = ""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        token = parse_qs(url.query).get("token", [""])[0]
        if not self._is_allowed(token if url.path == "/" else ""):
            return
        if url.path == "/stream":
            self._stream(_page_of(url.query))
        elif file := self.page_server.file(url.path):
            kind, content = file
            cookie = {"Set-Cookie": self.page_server.cookie()} if url.path == "/" else {}
            self._respond(200, content, {"Content-Type": kind, **cookie})
        else:
            self._refuse(404, "There is no such file.")

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        host = self.headers.get("Host", "")
        if self.headers.get("Origin", "") != f"http://{host}":
            self._refuse(403, "Messages are accepted from the page itself only.")
        elif self._is_allowed(""):
            content = self._message()
            if content is None or not self.page_server.receive(_page_of(url.query), content):
                self._refuse(400, "This is no message of an open page.")
            else:
                self._respond(204, b"", {})

    def _is_allowed(self, token: str) -> bool:
        """Whether host and token are right; answers the request if not."""
        if not self.page_server.accepts_host(self.headers.get("Host", "")):
            self._refuse(421, "This server does not have that name.")
            return False
        if not self.page_server.accepts_token(token or self._cookie_token()):
            self._refuse(403, "Open the complete address that was printed, with its token.")
            return False
        return True

    def _cookie_token(self) -> str:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(self.page_server.cookie_name)
        except CookieError:
            return ""
        return cookie.value if cookie else ""

    def _message(self) -> dict[str, Any] | None:
        """The JSON object of the request; None if there is none, or it is too large."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_MESSAGE_BYTES:
            return None
        try:
            content = parse_json(self.rfile.read(int(length)))
        except ValueError:
            return None
        return content if isinstance(content, dict) else None

    def _stream(self, page: str) -> None:
        connection = self.page_server.open(page)
        if connection is None:
            return self._refuse(404, "A recording has no stream.")
        try:
            self._head(200, {"Content-Type": "application/octet-stream", "Connection": "close"})
            for frame in connection.frames():
                self.wfile.write(frame)
        except OSError:  # the page was closed
            self.close_connection = True
        finally:
            self.page_server.leave(page, connection)

    def _refuse(self, status: int, message: str) -> None:
        self._respond(status, message.encode(), {"Content-Type": "text/plain; charset=utf-8"})

    def _respond(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        self._head(status, {**headers, "Content-Length": str(len(content))})
        self.wfile.write(content)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: the address of the page has the token."""


def _page_of(query: str) -> str:
    return parse_qs(query).get("page", [""])[0]
