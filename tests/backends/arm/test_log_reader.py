"""Log requests to our own server, and the job states that are kept between them."""

from __future__ import annotations

import pytest

from batchai_magics.backends.arm import server_extensions
from batchai_magics.backends.arm.server_extensions import ServerExtensions
from batchai_magics.backends.base import Capabilities, Chunk, FileRef
from batchai_magics.backends.service import extension_bodies
from batchai_magics.backends.service.extension_wire import PREFER, SINCE, STATE, ServerInfo
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.backends.arm.scripted_connection import ScriptedConnection, ScriptedResponse
from tests.server.running import WORKSPACE

EXPERIMENT = ResourceId.parse(WORKSPACE).child(Kind.EXPERIMENT, "e")
PIECE = Chunk(data=b"abc", offset=3, size=9, is_complete=False)


def job(name: str = "j") -> ResourceId:
    return EXPERIMENT.child(Kind.JOB, name)


def server_of(connection: ScriptedConnection) -> ServerExtensions:
    info = ServerInfo(Capabilities(name="arm"), ())
    return ServerExtensions(connection, info, storage=None, containers=None)


def tails(*states: str) -> tuple[ServerExtensions, ScriptedConnection]:
    """Logs whose tails come one after the other, with these states."""
    told = {"value": {"stdout.txt": extension_bodies.chunk_to_wire(PIECE)}}
    connection = ScriptedConnection(*(ScriptedResponse(told, {STATE: state}) for state in states))
    return server_of(connection), connection


def test_a_piece_is_asked_for_by_its_place_and_length() -> None:
    connection = ScriptedConnection(extension_bodies.chunk_to_wire(PIECE))
    assert server_of(connection).read(FileRef(job(), "a/b.txt", "OUT"), 3, 5) == PIECE
    (request,) = connection.requests
    assert request.body == {"path": "a/b.txt", "directoryId": "OUT", "offset": 3, "limit": 5}
    assert request.path.endswith("/jobs/j/batchaiRead")


def test_a_tail_is_asked_for_by_what_is_known_and_not_tried_twice_at_once() -> None:
    made, connection = tails("s1")
    assert made.tail(job(), {"stdout.txt": 3}, 7, wait_s=0.0) == {"stdout.txt": PIECE}
    (request,) = connection.requests
    assert request.body == {"positions": {"stdout.txt": 3}, "limit": 7}
    assert (request.headers, request.is_polled) == ({}, True)


def test_who_waits_says_how_the_job_stood_when_it_was_asked_for_last() -> None:
    made, connection = tails("first", "other", "second", "third")
    made.tail(job(), {}, 9, wait_s=10.0)
    made.tail(job("other"), {}, 9, wait_s=10.0)
    made.tail(job(), {}, 9, wait_s=0.0)  # its state was not told to anybody
    made.tail(job(), {"stdout.txt": 6, "stderr.txt": 0}, 9, wait_s=4.0)
    assert [request.headers for request in connection.requests] == [
        {PREFER: "wait=10", SINCE: ""},
        {PREFER: "wait=10", SINCE: ""},
        {},
        {PREFER: "wait=4", SINCE: "first"},
    ]


def test_who_knows_less_than_was_told_waits_for_nothing() -> None:
    made, connection = tails("first", "second", "third")
    made.tail(job(), {}, 9, wait_s=10.0)
    made.tail(job(), {"stderr.txt": 3}, 9, wait_s=10.0)  # another who follows the job here
    made.tail(job(), {"stderr.txt": 3, "stdout.txt": 6}, 9, wait_s=10.0)
    assert [request.headers[SINCE] for request in connection.requests] == ["", "", "second"]


@pytest.mark.parametrize(("names", "known"), [("abcbca", ["b", "c", ""]), ("abca", [""]), ("abba", ["a"])])
def test_of_so_many_jobs_the_oldest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, names: str, known: list[str]
) -> None:
    monkeypatch.setattr(server_extensions, "_MAX_JOBS", 2)
    made, connection = tails(*names)
    for name in names:
        made.tail(job(name), {"stdout.txt": 3}, 9, wait_s=1.0)
    assert [request.headers[SINCE] for request in connection.requests[3:]] == known
