"""Which API is used with an endpoint: discovered once, and again after an endpoint could not answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict

import pytest

from batchai_magics.backends.arm.arm_backend import ArmBackend
from batchai_magics.backends.arm.connection import Endpoint
from batchai_magics.backends.arm.server_extensions import ServerDiscovery
from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.base import FACETS, Capabilities, Pace
from batchai_magics.backends.service.extension_wire import ServerInfo
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError, ServiceError, UnreachableError
from tests.backends.arm.scripted_connection import ScriptedConnection
from tests.patience import PATIENCE_S

OFFER = {
    "capabilities": {**asdict(Capabilities(name="x")), "pace": {"poll_interval_s": 0.25}},
    "facets": ["storage"],
}
ANY = ("accounts", "groups", "storage", "usages")


def discovery(connection: ScriptedConnection) -> ServerDiscovery:
    """Gives the offer of a server of our own."""
    return ServerDiscovery(connection, lambda info: info)


def facets_of(backend: ArmBackend) -> list[str]:
    return sorted(facet.attribute for facet in FACETS if getattr(backend, facet.attribute))


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ArmBackend]:
    """A backend whose discovery gets these answers."""

    def made(*answers: object) -> ArmBackend:
        settings = ArmSettings(endpoint="http://127.0.0.1:1", token="t")
        backend = ArmBackend(Endpoint.of(settings), Settings(sections={"arm": settings}))
        monkeypatch.setattr(backend._connection, "request_json", ScriptedConnection(*answers).request_json)
        return backend

    return made


def test_a_server_with_an_offer_gets_the_extended_api_and_is_queried_once() -> None:
    connection = ScriptedConnection(OFFER)
    found = discovery(connection)
    assert (found.server.capabilities.pace, found.server.facets) == (Pace(poll_interval_s=0.25), ("storage",))
    assert found.server is found.server
    assert len(connection.requests) == 1


@pytest.mark.parametrize("answer", [{}, {"capabilities": {}}, NotFoundError("no", code="NotFound")])
def test_any_other_endpoint_gets_the_published_api_and_is_queried_once(answer: object) -> None:
    connection = ScriptedConnection(answer)
    found = discovery(connection)
    assert (found.server, found.server) == (None, None)
    assert len(connection.requests) == 1


def test_the_published_api_has_the_minimum_of_facets_and_capabilities(
    backend: Callable[..., ArmBackend],
) -> None:
    made = backend({})
    assert (made.server, facets_of(made)) == (None, sorted(ANY))
    assert made.capabilities == Capabilities(name="arm", pace=Pace(poll_interval_s=2.0))


@pytest.mark.parametrize("facet", ["containers", "node_commands", "preemption", "setup_logs", "telemetry"])
def test_extensions_have_the_facets_of_the_offer(backend: Callable[..., ArmBackend], facet: str) -> None:
    made = backend({**OFFER, "facets": ["storage", facet]})
    assert facets_of(made) == sorted([*ANY, facet])
    assert made.capabilities.pace == Pace(poll_interval_s=0.25)


@pytest.mark.parametrize(
    "error",
    [
        UnreachableError("nobody listens"),
        *(
            ServiceError("no", code=code)
            for code in (
                "AuthenticationFailed",
                "InvalidAuthenticationToken",
                "NoCredentials",
                "AuthorizationFailed",
            )
        ),
    ],
    ids=str,
)
def test_an_endpoint_that_is_unreachable_or_denies_access_is_queried_again(error: Exception) -> None:
    connection = ScriptedConnection(error, error, OFFER)
    found = discovery(connection)
    assert [found.server is None for _ in range(4)] == [True, True, False, False]
    assert len(connection.requests) == 3


def test_concurrent_callers_share_one_query() -> None:
    begun, told = threading.Barrier(4), []

    class Slow(ScriptedConnection):
        def request_json(self, request: object) -> object:
            for _ in range(2000):  # so that the others come in too, if they can
                time.sleep(0)
            return super().request_json(request)

    connection = Slow(*[OFFER] * 4)
    found = discovery(connection)

    def want() -> None:
        begun.wait(PATIENCE_S)
        told.append(found.server)

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert (told, len(connection.requests)) == ([found.server] * 4, 1)
    assert isinstance(found.server, ServerInfo)
