"""How often a submit asks its backend, and how many requests that takes over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from azure.core.pipeline.transport import RequestsTransport

from batchai_magics import cell
from batchai_magics.backends.base import Backend
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import SubmittedJob, submit
from tests.server.running import connected, serving
from tests.world import World

pytestmark = pytest.mark.slow


class Counted:
    """A backend, or its storage, whose calls are noted."""

    def __init__(self, inner: Any, calls: list[str]) -> None:
        self._inner, self._calls = inner, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "storage":
            return Counted(found, self._calls)
        if not callable(found):
            return found

        def recorded_call(*given: Any, **named: Any) -> Any:
            self._calls.append(name)
            return found(*given, **named)

        return recorded_call


def submitted(backend: Backend, calls: list[str], line: str, body: str = "x = 1") -> SubmittedJob:
    """Submits a cell; `calls` has those of this submit alone afterwards."""
    calls.clear()
    request = cell.parse(line, body, settings=Settings())
    return submit(Counted(backend, calls), request, Settings())


@pytest.mark.parametrize(
    ("line", "body", "is_new"),
    [("j", "x = 1", False), ("j", "x = 2", True), ("j --new", "x = 1", True), ("k", "x = 1", True)],
)
def test_a_submit_checks_the_job_and_asks_a_local_backend_twice(
    world: World, line: str, body: str, is_new: bool
) -> None:
    calls: list[str] = []
    submitted(world.backend, calls, "j")
    assert submitted(world.backend, calls, line, body).is_new is is_new
    assert calls == ["check", "ensure", "create"]


@pytest.fixture
def requests_sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests that go to a server from here on."""
    sent: list[str] = []
    send = RequestsTransport.send

    def recorded_call(self: RequestsTransport, request: Any, **named: Any) -> Any:
        sent.append(f"{request.method} {request.url.partition('?')[0].rpartition('/')[2]}")
        return send(self, request, **named)

    monkeypatch.setattr(RequestsTransport, "send", recorded_call)
    return sent


def test_a_submit_to_our_own_server_is_three_requests(tmp_path: Path, requests_sent: list[str]) -> None:
    with serving(tmp_path / "home") as running:
        backend, calls = connected(running.url), []
        submitted(backend, calls, "j")  # it also asks what the server can do, and for the share's key
        for line, body in (("j", "x = 1"), ("j", "x = 2"), ("k", "x = 1")):
            requests_sent.clear()
            submitted(backend, calls, line, body)
            assert calls == ["check", "ensure", "create"]
            assert [word.split()[0] for word in requests_sent] == ["POST", "POST", "PUT"], requests_sent
        backend.close()
