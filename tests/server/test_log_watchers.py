"""Many who watch one job cost the backend what one costs, and each is told what is news to it."""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from batchai_magics.backends.service.extension_wire import SINCE, STATE
from tests.server.running import WORKSPACE, Running
from tests.world import until

pytestmark = pytest.mark.slow
JOB = f"{WORKSPACE}/experiments/default/jobs/watched"
SCRIPT = """
import pathlib, sys, time
print("a line", flush=True)
print("an error", file=sys.stderr, flush=True)
while not pathlib.Path("GO").exists():
    time.sleep(0.05)
print("more", flush=True)
time.sleep(1000)
"""
WATCHERS, BETWEEN_S = 10, 0.1


@pytest.fixture
def growing(server: Running, tmp_path) -> Iterator[object]:
    """A job that is silent until the file it looks for is there; calling this makes it."""
    job = server.world.submit("watched --new", SCRIPT.replace("GO", str(tmp_path / "go")))
    until(lambda: {"stdout.txt", "stderr.txt"} <= set(tail(server, {}).json()["value"]))
    yield (tmp_path / "go").touch
    job.cancel()
    until(lambda: job.show().state.is_final)
    server.world.backend.delete(job.id)


@pytest.fixture
def counted(server: Running, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the server asks its backend what."""
    counts: Counter[str] = Counter()

    def count(name: str) -> None:
        verb = getattr(server.world.backend, name)

        def counting(*values: object, **named: object) -> object:
            counts[name] += 1
            return verb(*values, **named)

        monkeypatch.setattr(server.world.backend, name, counting)

    for name in ("show", "status", "tail"):
        count(name)
    return counts


def tail(server: Running, positions: Mapping[str, int], **headers: str) -> requests.Response:
    return server.ask("POST", f"{JOB}/batchaiTail", json={"positions": positions}, headers=headers)


def known(server: Running) -> tuple[dict[str, int], str]:
    """How long each log is, and the state of the job."""
    answer = tail(server, {}, Prefer="wait=30", **{SINCE: ""})
    return {path: piece["size"] for path, piece in answer.json()["value"].items()}, answer.headers[STATE]


def left_out(positions: Mapping[str, int], path: str) -> dict[str, int]:
    return {name: position for name, position in positions.items() if name != path}


def test_ten_who_watch_a_silent_job_share_one_poll(
    server: Running, growing: object, counted: Counter[str]
) -> None:
    positions, state = known(server)
    counted.clear()
    asked = [positions, left_out(positions, "stderr.txt")] * (WATCHERS // 2)
    began = time.monotonic()
    with ThreadPoolExecutor(WATCHERS) as pool:
        list(pool.map(lambda own: tail(server, own, Prefer="wait=1", **{SINCE: state}), asked))
    polls = (time.monotonic() - began) / BETWEEN_S + 2
    assert counted["show"] == 0
    assert counted["status"] <= polls
    assert counted["tail"] <= polls + WATCHERS  # each may end at a moment of its own


def test_tail_without_a_logs_position_returns_when_that_log_grows(server: Running, growing) -> None:
    positions, _ = known(server)
    some = left_out(positions, "stdout.txt")
    state = tail(server, some, Prefer="wait=1", **{SINCE: ""}).headers[STATE]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(tail, server, some, Prefer="wait=30", **{SINCE: state})
        growing()
        answer = waiting.result()
    assert base64.b64decode(answer.json()["value"]["stdout.txt"]["data"]).endswith(b"more\n")
    assert answer.headers[STATE] != state


def test_invalid_tail_requests_are_refused_at_once(server: Running, growing: object) -> None:
    for body in ({"positions": 1}, {"positions": {"x": -1}}):
        answer = server.ask("POST", f"{JOB}/batchaiTail", json=body, headers={"Prefer": "wait=30"})
        assert answer.status_code == 400
    missing = server.ask("POST", f"{JOB}x/batchaiTail", json={}, headers={"Prefer": "wait=30"})
    assert missing.status_code == 404
    old = {"api-version": "2017-09-01-preview"}
    assert tail(server, {}, Prefer="wait=30").status_code == 200
    refused = server.ask("POST", f"{JOB}/batchaiTail", json={}, params=old, headers={"Prefer": "wait=30"})
    assert refused.status_code == 400
