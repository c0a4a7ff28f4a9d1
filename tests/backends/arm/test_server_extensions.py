"""Our own server's extensions: discovered once, and again if it could not answer; requests for logs."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict

import pytest

from batchai_magics.backends.arm.server_extensions import ServerDiscovery, ServerExtensions
from batchai_magics.backends.base import Capabilities, Chunk
from batchai_magics.backends.service import extension_bodies
from batchai_magics.backends.service.extension_wire import SINCE, STATE, ServerInfo
from batchai_magics.errors import NotFoundError, ServiceError, UnreachableError
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.backends.arm.scripted_connection import ScriptedConnection, ScriptedResponse
from tests.patience import PATIENCE_S
from tests.server.running import WORKSPACE

OFFER = {
    "capabilities": {**asdict(Capabilities(name="x")), "pace": {"poll_interval_s": 0.25}},
    "facets": ["storage"],
}


def discovery(connection: ScriptedConnection) -> ServerDiscovery:
    """Gives the offer of a server of our own."""
    return ServerDiscovery(connection, None, "g")


@pytest.mark.parametrize("answer", [{}, {"capabilities": {}}, NotFoundError("no", code="NotFound")])
def test_any_other_endpoint_gets_the_published_api_and_is_queried_once(answer: object) -> None:
    connection = ScriptedConnection(answer)
    found = discovery(connection)
    assert (found.server, found.server) == (None, None)
    assert len(connection.requests) == 1


@pytest.mark.parametrize(
    "code",
    ["", "AuthenticationFailed", "InvalidAuthenticationToken", "NoCredentials", "AuthorizationFailed"],
)
def test_an_endpoint_that_is_unreachable_or_denies_access_is_queried_again(code: str) -> None:
    error = ServiceError("no", code=code) if code else UnreachableError("nobody listens")
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
    assert isinstance(found.server, ServerExtensions)


EXPERIMENT = ResourceId.parse(WORKSPACE).child(Kind.EXPERIMENT, "e")
PIECE = Chunk(data=b"abc", offset=3, size=9, is_complete=False)


def job(name: str = "j") -> ResourceId:
    return EXPERIMENT.child(Kind.JOB, name)


def server_of(connection: ScriptedConnection) -> ServerExtensions:
    info = ServerInfo(Capabilities(name="arm"), ())
    return ServerExtensions(connection, info, None, "g")


def tails(*states: str) -> tuple[ServerExtensions, ScriptedConnection]:
    """Logs whose tails come one after the other, with these states."""
    told = {"value": {"stdout.txt": extension_bodies.chunk_to_wire(PIECE)}}
    connection = ScriptedConnection(*(ScriptedResponse(told, {STATE: state}) for state in states))
    return server_of(connection), connection


def test_a_tail_is_asked_for_by_what_is_known_and_not_tried_twice_at_once() -> None:
    made, connection = tails("s1")
    assert made.tail(job(), {"stdout.txt": 3}, 7, wait_s=0.0) == {"stdout.txt": PIECE}
    (request,) = connection.requests
    assert request.body == {"positions": {"stdout.txt": 3}, "limit": 7}
    assert (request.headers, request.is_polled) == ({}, True)


def test_tail_does_not_wait_if_the_client_lacks_bytes_already_sent() -> None:
    made, connection = tails("first", "second", "third")
    made.tail(job(), {}, 9, wait_s=10.0)
    made.tail(job(), {"stderr.txt": 3}, 9, wait_s=10.0)  # another who follows the job here
    made.tail(job(), {"stderr.txt": 3, "stdout.txt": 6}, 9, wait_s=10.0)
    assert [request.headers[SINCE] for request in connection.requests] == ["", "", "second"]


@pytest.mark.parametrize(("names", "known"), [("abcbca", ["b", "c", ""]), ("abca", [""]), ("abba", ["a"])])
def test_of_so_many_jobs_the_oldest_is_forgotten(names: str, known: list[str]) -> None:
    made, connection = tails(*names)
    made.max_jobs = 2
    for name in names:
        made.tail(job(name), {"stdout.txt": 3}, 9, wait_s=1.0)
    assert [request.headers[SINCE] for request in connection.requests[3:]] == known
