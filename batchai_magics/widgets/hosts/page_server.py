"""A server of one plain page on this machine: the streams of live views, or the replay of a recording.

It listens on 127.0.0.1 only. The token is in the fragment of the page's address, which no request contains;
the page keeps it and sends it in a header, since a cookie would go to every port of this machine. Without it
only the front end itself is served.
"""

from __future__ import annotations

import hmac
import json
import secrets
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.untrusted_files import parse_json
from batchai_magics.widgets.core import pages
from batchai_magics.widgets.core.view_stream import Batch, PageData, ViewStream

LOOPBACK = "127.0.0.1"
MAX_MESSAGE_BYTES = 1 << 16
NO_TOKEN = "Open the complete address that was printed, with its token."
IDLE_TIMEOUT_S = 30.0  # without a byte, after which an incomplete request or an unread response ends
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
VIEWS = ("job_view", "jobs_dashboard", "comparison_view", "sweep_view")
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>batchai</title>
<link rel="icon" href="data:,">
{styles}
</head>
<body class="ba-page"><main id="view"></main><script type="module" src="start.js"></script></body>
</html>
"""
STYLE = '<link rel="stylesheet" href="{}.css">'
LIVE_SCRIPT = """import { showPages } from "./job_view.js";
showPages(document.getElementById("view"));
"""
REPLAY_SCRIPT = """import widget, { authorization, keepToken } from "./job_view.js";
keepToken();
const traits = { recording: "recording", headers: authorization() };
const model = { get: (name) => traits[name] };
widget().render({ model, el: document.getElementById("view") });
"""


IDLE_S = 5.0  # without a message, after which an empty one checks that the page is still connected


class PageConnection:
    """Carries a view to a page. `frames` ends with `close`, when it `is_gone`."""

    def __init__(self, view: ViewStream) -> None:
        self.view = view
        view.carrier = self
        self.is_gone = False
        self._frames: SimpleQueue[bytes | None] = SimpleQueue()
        self._page_state: PageData = {}  # the state that the page has
        self.publish_state({**view.state, "is_first": True})

    def transmit(self, message: Batch) -> None:
        """Queues a message for the page."""
        self._frames.put(frame({"content": message.content}, *message.buffers))

    def publish_state(self, state: PageData) -> None:
        """Queues the parts of the state that have changed; of an equal number of rows, the changed rows."""
        known, self._page_state = self._page_state, state
        new = {name: value for name, value in state.items() if name not in known or known[name] != value}
        if "rows" in new and "rows" in known and len(known["rows"]) == len(new["rows"]):
            pairs = enumerate(zip(known["rows"], new.pop("rows"), strict=True))
            new["changed_rows"] = [(i, row) for i, (old, row) in pairs if row is not old and row != old]
        self._frames.put(frame({"state": {"is_first": False, **new}}))

    def close(self) -> None:
        """Ends `frames`."""
        self.is_gone = True
        self._frames.put(None)

    def frames(self) -> Iterator[bytes]:
        """The frames to send, as they come; blocks between them."""
        while True:
            try:
                data = self._frames.get(timeout=IDLE_S)
            except Empty:
                data = frame({"state": {"is_first": False}})
            if data is None:
                return
            yield data


def frame(header: PageData, *buffers: bytes) -> bytes:
    """The length of a header, the header as JSON with the lengths of the buffers, the buffers."""
    text = json.dumps({**header, "buffers": list(map(len, buffers))}, default=float).encode()
    return b"".join((struct.pack(">I", len(text)), text, *buffers))


class PageServer:
    """Serves a page until it is closed: live with `connect`, else the replay of `recording`.

    `connect` is called with the address of a view in the page; the page opens at `address`. `on_close` is
    called when no page is connected any more.
    """

    def __init__(
        self,
        *,
        connect: Callable[[str], PageConnection] | None = None,
        address: str = "/",
        recording: bytes = b"",
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._connect = connect
        self._address = address
        self._on_close = on_close
        self._token = secrets.token_urlsafe(32)
        self._connections: dict[str, PageConnection] = {}

        class PageRequestHandler(_Handler):
            page_server = self

        self._http = ThreadingHTTPServer((LOOPBACK, 0), PageRequestHandler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, name="batchai-page", daemon=True)
        self.port: int = self._http.server_address[1]
        views = VIEWS if connect else VIEWS[:1]
        page = PAGE.format(styles="\n".join(map(STYLE.format, views)))
        self._files = {
            "/": ("text/html; charset=utf-8", page.encode()),
            "/start.js": ("text/javascript", (LIVE_SCRIPT if connect else REPLAY_SCRIPT).encode()),
            **{f"/{view}.js": ("text/javascript", pages.script(view).encode()) for view in views},
            **{f"/{view}.css": ("text/css", pages.style(view).encode()) for view in views},
        }
        self.recording = None if connect else ("application/gzip", recording)
        """The type and content of the recording, if it is one."""

    @property
    def url(self) -> str:
        """The address of the page, with its token."""
        return f"http://{LOOPBACK}:{self.port}/#{self._address}?token={self._token}"

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

    def file(self, path: str) -> tuple[str, bytes] | None:
        """The type and content of a file of the front end, which is the same for everyone."""
        return self._files.get(path)

    def open(self, page: str, address: str) -> PageConnection:
        """A new connection of a page to the view at an address, in place of an earlier one.

        Raises:
            NotFoundError: There is no such view.
        """
        if self._connect is None:
            raise NotFoundError("A recording has no stream.")
        if earlier := self._connections.pop(page, None):
            earlier.close()
        connection = self._connections[page] = self._connect(address)
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
            connection.view.receive(content)
        return connection is not None


class _Handler(BaseHTTPRequestHandler):
    page_server: PageServer
    server_version = "batchai"
    timeout = IDLE_TIMEOUT_S  # of the socket
    sys_version = ""

    def do_GET(self) -> None:
        if not self._is_to_this_host():
            return
        url = _target(self.path)
        if file := self.page_server.file(url.path):
            self._send_file(*file)
        elif not self._is_allowed():
            return
        elif url.path == "/stream":
            self._stream(_value_of("page", url.query), _value_of("view", url.query))
        elif url.path == "/recording" and (file := self.page_server.recording):
            self._send_file(*file)
        else:
            self._refuse(404, "There is no such file.")

    def do_POST(self) -> None:
        url = _target(self.path)
        host = self.headers.get("Host", "")
        if self.headers.get("Origin", "") != f"http://{host}":
            return self._refuse(403, "Messages are accepted from the page itself only.")
        if not self._is_to_this_host():
            return
        if self._is_allowed():
            content = self._message()
            if content is None or not self.page_server.receive(_value_of("page", url.query), content):
                self._refuse(400, "This is no message of an open page.")
            else:
                self._respond(204, b"", {})

    def _is_to_this_host(self) -> bool:
        """Whether the request names this server; answers it if not."""
        if self.page_server.accepts_host(self.headers.get("Host", "")):
            return True
        self._refuse(421, "This server does not have that name.")
        return False

    def _is_allowed(self) -> bool:
        """Whether the request has the token; answers it if not."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme == "Bearer" and self.page_server.accepts_token(token):
            return True
        self._refuse(403, NO_TOKEN)
        return False

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

    def _send_file(self, kind: str, content: bytes) -> None:
        self._respond(200, content, {"Content-Type": kind})

    def _stream(self, page: str, address: str) -> None:
        try:
            connection = self.page_server.open(page, address)
        except BatchAIError as error:
            return self._refuse(404, error.message)
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


def _value_of(name: str, query: str) -> str:
    return parse_qs(query).get(name, [""])[0]


def _target(text: str) -> SplitResult:
    """The parts of a request's target; empty ones if it is ill-formed."""
    try:
        return urlsplit(text)
    except ValueError:
        return urlsplit("")
