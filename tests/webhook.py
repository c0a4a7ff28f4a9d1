"""A webhook on the loopback interface."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

SECRET = "T0ken-4711"  # in its address


class Webhook:
    """A server that records what it receives; it answers with these statuses first, then with 200.

    It answers when `may_answer` is set; until then, whoever notifies it waits for it.
    """

    def __init__(self, *statuses):
        self.received, self.statuses = [], list(statuses)
        self.may_answer = threading.Event()
        self.may_answer.set()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = hook.status_of(body)
                if status == 200:
                    hook.received.append(body | {"key": self.headers["Idempotency-Key"]})
                hook.may_answer.wait()
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hooks/{SECRET}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def status_of(self, body):
        """The status with which it answers this notification."""
        return self.statuses.pop(0) if self.statuses else 200

    def close(self):
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def webhook():
    made = Webhook()
    yield made
    made.close()
