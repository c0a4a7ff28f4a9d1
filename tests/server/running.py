"""A real server on a free port of the loopback, in a thread, in front of a real local backend."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests
import uvicorn

from batchai_magics.backends.arm.arm_backend import ArmBackend
from batchai_magics.backends.arm.connection import Endpoint
from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.base import Backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.server.access.access_control import Users
from batchai_magics.server.handler_context import HandlerContext
from batchai_magics.server.http.asgi_app import make_app, open_context
from batchai_magics.server.http.request_limits import ServerLimits
from batchai_magics.server.server_home import ServerHome
from tests.patience import PATIENCE_S
from tests.server.published_api import Watched
from tests.world import World, until

TOKEN = "the-token-of-these-tests"
SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
VERSION = "2018-05-01"
CONFIG = {"http": "httptools", "log_config": None, "access_log": False, "lifespan": "off"}
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/batchai"
WORKSPACE = f"{GROUP}/providers/Microsoft.BatchAI/workspaces/default"


@dataclass
class Running:
    """A server that runs, and short ways to ask it."""

    url: str
    context: HandlerContext
    world: World
    watched: Watched

    def ask(self, method: str, path: str, *, token: str | None = TOKEN, **more: object) -> requests.Response:
        """One request, with the token and the version of the API unless others are said."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers.update(more.pop("headers", {}))
        params = {"api-version": VERSION, **more.pop("params", {})}
        return requests.request(method, f"{self.url}{path}", headers=headers, params=params, **more)

    def json(self, method: str, path: str, **more: object) -> dict:
        """The JSON of an answer that is well."""
        answer = self.ask(method, path, **more)
        assert answer.ok, answer.text
        return answer.json()

    def add_user(self, name: str) -> str:
        """The token of a new user, or the new token of one that is there."""
        users = Users(ServerHome.of(self.world.settings).users)
        if name in users.added():
            users.remove(name)
        return users.add(name)

    def open_requests(self) -> int:
        """The requests under way, but for this question; all that are taken when there is no room for it."""
        answer = self.ask("GET", "/metrics")
        if answer.status_code == 503:
            return ServerLimits().streams
        lines = answer.text.splitlines()
        line = next(line for line in lines if line.startswith("batchai_requests_open "))
        return int(float(line.split()[1])) - 1


def connected(url: str, token: str = TOKEN) -> ArmBackend:
    """Our own client of a server."""
    settings = ArmSettings(endpoint=url, token=token)
    return ArmBackend(Endpoint.of(settings), Settings(sections={"arm": settings}))


@contextlib.contextmanager
def connections(url: str, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Clients that have each sent something, and do nothing more."""
    address = urlsplit(url)
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(count):
            client = socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S)
            clients.append(stack.enter_context(client))
            client.sendall(sent)
        yield clients


@contextlib.contextmanager
def serving(
    home: Path, *, limits: ServerLimits | None = None, local: LocalSettings | None = None, **config: object
) -> Iterator[Running]:
    """A server in front of a local backend with its defaults; it has to answer as it is described."""
    world = World(home, limits=local)
    with _served(world.backend, world.settings, limits or ServerLimits(), **config) as (
        url,
        context,
        watched,
    ):
        yield Running(url, context, world, watched)
    world.close()
    assert not watched.deviations, "\n".join(watched.deviations)


@contextlib.contextmanager
def serving_backend(backend: Backend, home: Path) -> Iterator[str]:
    """The address of a server in front of any backend."""
    settings = Settings(sections={"local": LocalSettings(home=home)})
    with _served(backend, settings, ServerLimits()) as (url, *_):
        yield url


@contextlib.contextmanager
def _served(
    backend: Backend, settings: Settings, limits: ServerLimits, **config: object
) -> Iterator[tuple[str, HandlerContext, Watched]]:
    home = ServerHome.of(settings)
    context = open_context(backend, settings, home)
    app = make_app(context, limits, home, token=TOKEN, names=["127.0.0.1"])
    watched = Watched(app)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        server = uvicorn.Server(uvicorn.Config(watched, **{**CONFIG, **config}))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        until(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", context, watched
        server.should_exit = True
        thread.join()
    app.close()
    context.operations.close()
