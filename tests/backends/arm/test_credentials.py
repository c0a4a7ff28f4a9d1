"""Who we say we are: by the token that is set, and only without one by what Azure knows of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from azure.core.pipeline import PipelineContext, PipelineRequest
from azure.core.rest import HttpRequest

from batchai_magics.backends.arm.arm_backend import ArmBackend
from batchai_magics.backends.arm.connection import Endpoint, credentials
from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.config import Settings
from batchai_magics.errors import ServiceError
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.server.server_home import ServerHome
from tests.server.process import Process, started
from tests.server.running import WORKSPACE

ID = ResourceId.parse(WORKSPACE)
HERE = "http://127.0.0.1:1000"


class Identity(ThreadingHTTPServer):
    """The endpoint of a managed identity, as Azure's machines have one: it gives a token to who asks."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Teller)
        self.token, self.asked = "", []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class _Teller(BaseHTTPRequestHandler):
    server: Identity

    def do_GET(self) -> None:
        self.server.asked.append(parse_qs(urlsplit(self.path).query)["resource"][0])
        told = {"access_token": self.server.token, "expires_on": str(int(time.time()) + 3600)}
        body = json.dumps({**told, "token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> Iterator[Identity]:
    """The one thing that Azure knows of this machine."""
    for name in [name for name in os.environ if name.startswith(("AZURE_", "IDENTITY_", "MSI_"))]:
        monkeypatch.delenv(name)
    with Identity() as server:
        monkeypatch.setenv("IDENTITY_ENDPOINT", server.url)
        monkeypatch.setenv("IDENTITY_HEADER", "of-this-machine")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server with TLS: what Azure knows of us is not sent without."""
    with started(tmp_path_factory.mktemp("tls") / "home", "--tls", "self") as server:
        authority = ServerHome(server.home / "server").authority
        assert server.ask("PUT", WORKSPACE, json={"location": "eastus"}, verify=str(authority)).ok
        yield server


@contextlib.contextmanager
def client(server: Process, token: str = "") -> Iterator[ArmBackend]:
    authority = ServerHome(server.home / "server").authority
    own = ArmSettings(endpoint=server.url, token=token, authority=str(authority))
    backend = ArmBackend(Endpoint.of(own), Settings(backend="arm", sections={"arm": own}))
    with contextlib.closing(backend):
        yield backend


@pytest.mark.slow
def test_without_a_token_the_identity_of_the_machine_is_used_and_asked_for_that_endpoint(
    encrypted: Process, identity: Identity
) -> None:
    identity.token = encrypted.token
    with client(encrypted) as backend:
        assert backend.show(ID).id == ID
    assert set(identity.asked) == {encrypted.url}


@pytest.mark.slow
def test_with_a_token_nothing_else_is_asked_be_it_wrong(encrypted: Process, identity: Identity) -> None:
    identity.token = encrypted.token
    with client(encrypted, encrypted.token) as backend:
        assert backend.show(ID).id == ID
    with client(encrypted, "a-token-of-somebody-else") as backend, pytest.raises(ServiceError) as caught:
        backend.show(ID)
    assert caught.value.code == "InvalidAuthenticationToken"
    assert identity.asked == []


@pytest.mark.slow
def test_with_neither_it_says_how_to_get_one(
    encrypted: Process, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")  # the others would look around
    with client(encrypted) as backend, pytest.raises(ServiceError) as caught:
        backend.show(ID)
    assert caught.value.code == "NoCredentials"
    assert "BATCHAI_TOKEN" in caught.value.hint
    assert "az login" in caught.value.hint


@pytest.mark.parametrize(
    ("url", "is_given"),
    [
        (f"{HERE}/subscriptions", True),
        (f"{HERE}?api-version=1", True),
        (f"{HERE}0/subscriptions", False),
        (f"{HERE}.example.org/subscriptions", False),
        (f"{HERE}@example.org/subscriptions", False),
        ("http://127.0.0.1/subscriptions", False),
        ("https://127.0.0.1:1000/subscriptions", False),
        (f"http://example.org/?next={HERE}/", False),
    ],
)
def test_a_token_goes_to_its_endpoint_and_nowhere_else(url: str, is_given: bool) -> None:
    made = credentials(Endpoint.of(ArmSettings(endpoint=HERE, token="hush")))
    request = HttpRequest("GET", url)
    made["authentication_policy"].on_request(PipelineRequest(request, PipelineContext(None)))
    assert request.headers.get("Authorization") == ("Bearer hush" if is_given else None)
    assert made["credential"].get_token("any").token == "hush"
