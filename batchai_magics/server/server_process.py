"""The server process: sockets, greeting, shutdown."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.folders.private_files import write
from batchai_magics.config import Settings
from batchai_magics.errors import CapabilityError, UsageError
from batchai_magics.server import server_home
from batchai_magics.server.server_home import ServerHome, TlsFiles
from batchai_magics.server.storage.storage_resource import OWN_ACCOUNT

if TYPE_CHECKING:
    import uvicorn

    from batchai_magics.server.http.asgi_app import App
    from batchai_magics.server.http.request_limits import ServerLimits


_SHUTDOWN_TIMEOUT_S = 5  # for requests to finish at shutdown
_BACKLOG = 256


@dataclass(frozen=True)
class ServerConfig:
    """The configuration of a server process."""

    host: str
    port: int
    token: str = field(repr=False)
    token_file: Path | None  # file of the token; None: the one in the home
    names: tuple[str, ...]
    tls: TlsFiles
    is_files_only: bool

    def url(self, port: int) -> str:
        """The URL for clients."""
        host = self.names[0] if self.names else self.host
        name = f"[{host}]" if ":" in host else host
        return f"{'https' if self.tls.certificate else 'http'}://{name}:{port}"


def serve(serving: ServerConfig, settings: Settings, home: ServerHome) -> int:
    """Runs until stopped and returns the exit code; jobs keep running."""
    try:
        import uvicorn

        from batchai_magics.server.http.asgi_app import make_app, open_context
        from batchai_magics.server.http.request_limits import ServerLimits
    except ImportError as error:
        hint = "pip install 'batchai-magics[server]'"
        raise CapabilityError(f"the server needs {error.name}", code="NotSupported", hint=hint) from error
    listener = _listen(serving)
    backend = open_backend(settings)
    context = open_context(backend, settings, home)
    limits = ServerLimits()
    app = make_app(
        context,
        limits,
        home,
        token=serving.token,
        names=(serving.host, *serving.names),
        is_files_only=serving.is_files_only,
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(message)s")
    server = uvicorn.Server(_uvicorn_config(app, serving, limits))
    _stop_on_signals(server)
    key = context.keys.of(OWN_ACCOUNT)[0]
    port = listener.getsockname()[1]
    if os.geteuid() == 0:
        text = "Warning: serving as root: whoever has a token runs programs as root on this machine."
        print(text, file=sys.stderr, flush=True)
    with server_home.registered(
        home.running, server_home.RunningServer(serving.url(port), serving.tls.authority)
    ):
        for line in _greeting(serving, home, port, key):
            print(line, flush=True)
        server.run(sockets=[listener])
    app.close()
    context.operations.close()
    backend.close()
    return 0


def _uvicorn_config(app: App, serving: ServerConfig, limits: ServerLimits) -> uvicorn.Config:
    """The uvicorn configuration: our limits, no logging of its own."""
    import uvicorn

    from batchai_magics.server.http.request_limits import LimitedProtocol

    protocol = partial(
        LimitedProtocol,
        header_bytes=limits.header_bytes,
        header_s=limits.header_s,
        send_s=limits.send_s,
    )
    return uvicorn.Config(
        app,
        http=cast("Any", protocol),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # otherwise any local process could spoof client addresses
        lifespan="off",
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
        ssl_certfile=serving.tls.certificate,
        ssl_keyfile=serving.tls.key,
    )


def _greeting(serving: ServerConfig, home: ServerHome, port: int, key: str) -> Iterator[str]:
    """The lines printed at startup: the URL, and what a client needs to connect.

    Secrets are shown on a terminal; otherwise shell expressions read them, as printed output may end up in
    logs that others read.
    """
    url, is_terminal = serving.url(port), sys.stdout.isatty()
    if serving.is_files_only:
        parts = {
            "DefaultEndpointsProtocol": url.partition(":")[0],
            "AccountName": OWN_ACCOUNT,
            "AccountKey": key,
            "FileEndpoint": f"{url}/{OWN_ACCOUNT}",
            "BlobEndpoint": f"{url}/{OWN_ACCOUNT}",
        }
        connection_string = ";".join(f"{name}={value}" for name, value in parts.items())
        if not is_terminal:
            write(home.connection_string, connection_string + "\n")
        shown = f"'{connection_string}'" if is_terminal else _cat_expression(home.connection_string)
        yield f"Serving files at {url}."
        yield f"  export AZURE_STORAGE_CONNECTION_STRING={shown}"
        return
    token = shlex.quote(serving.token) if is_terminal else _cat_expression(serving.token_file or home.token)
    yield f"Serving at {url}. Its token is the right to run programs as you: keep it."
    yield f"  export BATCHAI_BACKEND=arm BATCHAI_ENDPOINT={url} BATCHAI_TOKEN={token}"
    yield f"  %batchai use --backend arm --endpoint {url}"
    yield "  batchai serve az-config FOLDER    # for a genuine az"
    if serving.tls.authority:
        yield f"  export REQUESTS_CA_BUNDLE={serving.tls.authority} SSL_CERT_FILE={serving.tls.authority}"


def _cat_expression(file: Path) -> str:
    return f'"$(cat {shlex.quote(str(file))})"'


def _listen(serving: ServerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in serving.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((serving.host, serving.port))
    except OSError as error:
        listener.close()
        hint = "Give another one with --port, or --port 0 for any that is free."
        text = f"--port {serving.port}: cannot listen on {serving.host}: {error.strerror}"
        raise UsageError(text, hint=hint) from error
    listener.listen(_BACKLOG)
    return listener


def _stop_on_signals(server: uvicorn.Server) -> None:
    """Stops the server also for signals that arrive before uvicorn handles them.

    uvicorn raises the signal again after shutting down; by then it has no effect.
    """

    def end(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
