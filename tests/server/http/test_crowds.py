"""As many at once as a server takes, and slow ones among them: the others are answered."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from batchai_magics.server.http.request_limits import ServerLimits
from tests.server.running import TOKEN, WORKSPACE, Running, connections, serving
from tests.server.storage.signed_urls import signed_path
from tests.world import until

pytestmark = pytest.mark.slow
STREAMS = ServerLimits().streams
STALLED = (
    f"PUT {WORKSPACE}?api-version=2018-05-01 HTTP/1.1\r\nHost: localhost\r\n"
    f"Authorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n{{"
).encode()


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Running]:
    """A server that lets nobody go for being slow, and takes as many bodies of one user as requests."""
    slow = {"body_s": 1e6, "body_idle_s": 1e6, "send_s": 1e6}
    bodies = dict.fromkeys(("bodies", "bodies_of_user", "bodies_of_address"), STREAMS)
    with serving(tmp_path / "home", limits=ServerLimits(**slow, **bodies)) as running:
        yield running


def test_slow_readers_and_slow_writers_starve_nobody(
    patient: Running, caplog: pytest.LogCaptureFixture
) -> None:
    patient.world.backend.storage.upload("batchaishare", {"large.bin": bytes(32 << 20)})
    path = signed_path(patient, "batchaishare", "large.bin")
    crowd = 3 * ServerLimits().threads
    read = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with (
        connections(patient.url, crowd // 2, read) as readers,
        connections(patient.url, crowd // 2, STALLED),
    ):
        until(lambda: patient.open_requests() == crowd)
        assert all(client.recv(1000).startswith(b"HTTP/1.1 200") for client in readers)
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda _: patient.ask("GET", WORKSPACE).status_code, range(40))
            assert set(answers) == {200}
        few = patient.ask("GET", path, token=None, headers={"Range": "bytes=0-9"})
        assert (few.status_code, few.content) == (206, bytes(10))
    until(lambda: patient.open_requests() == 0)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []  # who goes is no error
