"""Where we send what says who we are: a token or what Azure knows of this machine, checked before."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from azure.core.pipeline import PipelineContext, PipelineRequest
from azure.core.rest import HttpRequest

from batchai_magics.backends.arm.arm_backend import ArmBackend
from batchai_magics.backends.arm.connection import Endpoint, credentials
from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.base.backend_registry import load_settings, open_backend
from batchai_magics.config import Settings
from batchai_magics.errors import ServiceError, UsageError
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.server.server_home import ServerHome
from tests.server.process import Process, started
from tests.server.running import WORKSPACE


def endpoint(url: str, **more: str) -> Endpoint:
    return Endpoint.of(ArmSettings(endpoint=url, **more))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:10000",
        "http://localhost:10000/",
        "http://[::1]:10000",
        "https://jobs.example.org",
        "https://management.azure.com",
    ],
)
def test_loopback_may_be_plain_and_others_are_encrypted(url: str) -> None:
    assert endpoint(url).url == url.rstrip("/")


PLAIN = ("http://jobs.example.org", "http://10.0.0.1:10000", "http://127.0.0.1.example.org", "http://0.0.0.0")
ODD = (
    "jobs.example.org",
    "ftp://x",
    "https://",
    "https://a:b@c",
    "https://x/?a=b",
    "https://x:0",
    "https://x:y",
)


@pytest.mark.parametrize(
    ("urls", "said", "hint"),
    [
        (PLAIN, "plain http", "https"),
        (ODD, "is not an endpoint", ""),
        (("",), "has no endpoint", "BATCHAI_ENDPOINT"),
    ],
)
def test_what_is_no_address_or_not_encrypted_is_refused(urls: Sequence[str], said: str, hint: str) -> None:
    for url in urls:
        with pytest.raises(UsageError, match=said) as caught:
            endpoint(url)
        assert hint in caught.value.hint, url


def test_a_missing_authority_is_named() -> None:
    with pytest.raises(UsageError, match=r"arm\.authority: /nowhere"):
        endpoint("https://x", authority="/nowhere")


def test_the_lines_that_a_server_prints_choose_it(tmp_path) -> None:
    env = {"BATCHAI_BACKEND": "arm", "BATCHAI_ENDPOINT": "http://127.0.0.1:1", "BATCHAI_TOKEN": "hush"}
    settings = load_settings(env, path=tmp_path / "none")
    own = settings.for_backend(ArmSettings)
    assert (own.endpoint, own.token) == ("http://127.0.0.1:1", "hush")
    backend = open_backend(settings)
    assert "hush" not in repr(settings) + repr(own) + repr(vars(backend))
    backend.close()


def test_no_proxy_leads_to_this_machine() -> None:
    assert endpoint("http://127.0.0.1:1").transport()["use_env_settings"] is False
    assert endpoint("https://jobs.example.org").transport()["use_env_settings"] is True


# -- credentials


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


@contextlib.contextmanager
def client(server: Process, token: str = "") -> Iterator[ArmBackend]:
    authority = ServerHome(server.home / "server").authority
    own = ArmSettings(endpoint=server.url, token=token, authority=str(authority))
    backend = ArmBackend(Endpoint.of(own), Settings(backend="arm", sections={"arm": own}))
    with contextlib.closing(backend):
        yield backend


@pytest.mark.slow
def test_token_precedes_the_machine_identity_and_a_hint_follows_without_both(
    tmp_path: Path, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(tmp_path / "home", "--tls", "self") as server:  # what Azure knows is not sent without TLS
        authority = ServerHome(server.home / "server").authority
        assert server.ask("PUT", WORKSPACE, json={"location": "eastus"}, verify=str(authority)).ok
        identity.token = server.token
        with client(server, server.token) as backend:
            assert backend.show(ID).id == ID
        with client(server, "a-token-of-somebody-else") as backend, pytest.raises(ServiceError) as caught:
            backend.show(ID)
        assert (caught.value.code, identity.asked) == ("InvalidAuthenticationToken", [])
        with client(server) as backend:
            assert backend.show(ID).id == ID
        assert set(identity.asked) == {server.url}
        monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")  # the others would look around
        with client(server) as backend, pytest.raises(ServiceError) as caught:
            backend.show(ID)
    assert caught.value.code == "NoCredentials"
    assert "BATCHAI_TOKEN" in caught.value.hint
    assert "az login" in caught.value.hint


def test_a_server_without_tls_and_no_token_for_it_say_to_set_one() -> None:
    own = ArmSettings(endpoint=HERE)
    backend = ArmBackend(Endpoint.of(own), Settings(backend="arm", sections={"arm": own}))
    with contextlib.closing(backend), pytest.raises(ServiceError) as caught:
        backend.show(ID)
    assert (caught.value.code, caught.value.message) == ("NoCredentials", f"there is no token for {HERE}")
    assert "BATCHAI_TOKEN" in caught.value.hint


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
