"""Request bodies: none is read before its sender is let in, and unfinished ones starve nobody."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest
from starlette.requests import Request

from batchai_magics.server.api_call import ApiError
from batchai_magics.server.http.request_bodies import RequestBodies
from batchai_magics.server.http.request_checks import parse_head
from batchai_magics.server.http.request_limits import ServerLimits
from batchai_magics.server.http.request_telemetry import ServerMetrics
from tests.server import process
from tests.server.running import WORKSPACE, connections

FILE = "/local/batchaishare/model.bin?comp=range"
REFUSED = {
    "a range with a forged key": (FILE, "Authorization: SharedKey local:c2ln\r\n"),
    "a range with a forged signature": (f"{FILE}&sv=2018-11-09&sr=f&sp=w&se=2999-01-01&sig=c2ln", ""),
    "a description": (f"{WORKSPACE}?api-version=2018-05-01", "Authorization: Bearer forged\r\n"),
}


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[process.Process]:
    """`batchai serve` with its own limits."""
    with process.started(tmp_path_factory.mktemp("serve") / "home") as running:
        yield running


def metric(server: process.Process, name: str) -> float:
    lines = server.ask("GET", "/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).rpartition(" ")[2])


def temporary_files(server: process.Process) -> list[str]:
    """The temporary files that the server has open: each is deleted already."""
    files = []
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            files.append(str(link.readlink()))
    return [file for file in files if file.endswith("(deleted)")]


@pytest.mark.slow
@pytest.mark.parametrize("target", list(REFUSED))
def test_no_byte_is_read_of_a_body_whose_sender_is_not_let_in(serve: process.Process, target: str) -> None:
    before = metric(serve, "batchai_body_received_bytes_total"), temporary_files(serve)
    path, header = REFUSED[target]
    head = f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}Content-Length: {1 << 20}\r\n\r\n"
    with connections(serve.url, 40, head.encode() + bytes(1000)) as clients:
        statuses = {client.recv(65536).split()[1] for client in clients}
        assert statuses <= {b"401", b"403"}
        assert serve.ask("GET", WORKSPACE.rpartition("/")[0]).status_code == 200
        assert serve.ask("GET", "/healthz", headers={"Authorization": ""}).json() == {"status": "ok"}
        assert (metric(serve, "batchai_body_received_bytes_total"), temporary_files(serve)) == before
        assert metric(serve, "batchai_bodies_unfinished") == 0


def request_with(*pieces: bytes, size: int | None = None, pause_s: float = 0.0) -> Request:
    """A request whose body comes in pieces; without a size, in chunks. It never ends without pieces."""
    header = ("transfer-encoding", "chunked") if size is None else ("content-length", str(size))
    left = list(pieces)

    async def receive() -> dict:
        if not pieces:
            await anyio.sleep_forever()
        if len(left) < len(pieces):
            await anyio.sleep(pause_s)
        piece = left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    headers = [tuple(part.encode() for part in header), (b"x-ms-blob-type", b"BlockBlob")]
    scope = {"type": "http", "method": "PUT", "path": "/", "headers": headers, "client": ("10.0.0.1", 1)}
    return Request(scope, receive)


@contextlib.asynccontextmanager
async def unfinished(bodies: RequestBodies, count: int, *, size: int = 1, **more: int) -> AsyncIterator[None]:
    """Bodies of Ada's that are being read and never end."""

    async def read() -> None:
        request = request_with(size=size)
        async with bodies.received(request, parse_head(request), "ada", **{"max_bytes": 99, **more}):
            raise AssertionError("a body that never ends")

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        yield
        group.cancel_scope.cancel()


async def sent(bodies: RequestBodies, *pieces: bytes, user: str = "ada", **more: object) -> bytes:
    """The body that is read of one request."""
    limits = {name: more.pop(name) for name in ("max_bytes", "spooled_bytes") if name in more}
    request = request_with(*pieces, **{"size": sum(map(len, pieces)), **more})
    async with bodies.received(request, parse_head(request), user, **{"max_bytes": 99, **limits}) as call:
        assert bool(call.spool) == bool(limits.get("spooled_bytes"))
        return b"".join(call.body_chunks(4))


@pytest.mark.parametrize(
    ("quota", "is_taken_of_bob"),
    [("bodies", False), ("bodies_of_user", True), ("bodies_of_address", False)],
)
def test_number_of_unfinished_bodies_is_limited(quota: str, is_taken_of_bob: bool) -> None:
    async def crowd() -> None:
        bodies = RequestBodies(ServerLimits(**{quota: 2}), ServerMetrics())
        async with unfinished(bodies, 2):
            with pytest.raises(ApiError, match="unfinished") as caught:
                await sent(bodies, b"x")
            assert (caught.value.status, caught.value.code) == (503, "ServerBusy")
            with contextlib.nullcontext() if is_taken_of_bob else pytest.raises(ApiError):
                assert await sent(bodies, b"x", user="bob") == b"x"
            assert await sent(bodies) == b""
        assert await sent(bodies, b"x") == b"x"

    anyio.run(crowd)


@pytest.mark.parametrize(("place", "spooled"), [("memory", {}), ("disk", {"spooled_bytes": 99})])
@pytest.mark.parametrize("whose", ["", "_of_user"])
def test_total_size_of_unfinished_bodies_is_limited(place: str, spooled: dict[str, int], whose: str) -> None:
    async def crowd() -> None:
        bodies = RequestBodies(ServerLimits(**{f"{place}_bytes{whose}": 100}), ServerMetrics())
        async with unfinished(bodies, 1, size=60, **spooled):
            with pytest.raises(ApiError, match="unfinished"):
                await sent(bodies, bytes(41), **spooled)
            assert await sent(bodies, bytes(40), **spooled) == bytes(40)
            with pytest.raises(ApiError, match="unfinished"):  # in chunks: it may be as large as any
                await sent(bodies, b"x", size=None, **spooled)
        assert await sent(bodies, bytes(99), **spooled) == bytes(99)

    anyio.run(crowd)


def test_a_body_may_take_as_long_as_its_size_needs_at_the_lowest_rate() -> None:
    async def read() -> None:
        bodies = RequestBodies(ServerLimits(body_s=0.3, body_bytes_s=10), ServerMetrics())
        pieces = [bytes(9000), *[b"x"] * 5]
        assert len(await sent(bodies, *pieces, pause_s=0.1, max_bytes=9999)) == 9005
        with pytest.raises(ApiError) as caught:
            await sent(bodies, *[b"x"] * 5, pause_s=0.5)
        assert caught.value.status == 408

    anyio.run(read)


def test_a_body_that_stops_is_given_up_however_fast_it_was() -> None:
    async def read() -> None:
        bodies = RequestBodies(ServerLimits(body_s=1e6, body_idle_s=0.05), ServerMetrics())
        with pytest.raises(ApiError) as caught:
            await sent(bodies, size=9)
        assert caught.value.status == 408

    anyio.run(read)


def test_a_body_that_is_larger_than_it_may_be_is_refused_before_it_is_read() -> None:
    async def read() -> None:
        bodies = RequestBodies(ServerLimits(), ServerMetrics())
        for size, pieces in ((10, []), (None, [bytes(6), bytes(6)])):
            with pytest.raises(ApiError) as caught:
                await sent(bodies, *pieces, size=size, max_bytes=9)
            assert caught.value.status == 413

    anyio.run(read)
