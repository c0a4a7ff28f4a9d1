"""A server that is killed within half a second of a PUT: the job is its user's, or was never created."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.server.access.access_control import Users

if TYPE_CHECKING:
    from benchmarks.chaos.harms import Place

MAX_TTL_S = 0.5  # from the PUT to the kill
_USERS = ("alice", "bob")
_GONE = (204, 404)
_SECONDS = 60.0  # for a server to answer


@dataclass(frozen=True)
class _Server:
    port: int
    process: subprocess.Popen[str]

    def status(self, method: str, path: str, token: str, body: bytes = b"") -> int:
        """The status of an answer; 0 where the server ends before it answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_SECONDS)
        try:
            connection.request(
                method, f"{path}?api-version=2018-05-01", body, {"Authorization": f"Bearer {token}"}
            )
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()


def own(place: Place, names: list[str]) -> None:
    """A server is killed at a random moment after a PUT of a user's job; the next one says whose it is."""
    alice, bob = _tokens(place.home)
    job = place.id(f"{names[0]}-of-alice")
    with _running(place.home) as server:
        asking = threading.Thread(target=server.status, args=("PUT", str(job), alice, _body(place)))
        asking.start()
        time.sleep(place.dice.uniform(0.0, MAX_TTL_S))
        server.process.kill()
        asking.join()
    with _running(place.home) as server:
        _check(server, job, alice=alice, bob=bob)


def _check(server: _Server, job: ResourceId, *, alice: str, bob: str) -> None:
    if server.status("GET", str(job), alice) == 404:
        return
    theirs, hers = (server.status("DELETE", str(job), token) for token in (bob, alice))
    assert (theirs, hers) == (403, 202), f"{job.name}: another user is answered {theirs}, its own {hers}"
    deadline = time.monotonic() + _SECONDS
    while server.status("GET", str(job), alice) not in _GONE:
        assert time.monotonic() < deadline, f"{job.name} is not deleted"
        time.sleep(0.02)


def _tokens(home: Path) -> list[str]:
    users = Users(home / "server" / "users.json")
    for name in _USERS:
        with contextlib.suppress(NotFoundError):
            users.remove(name)
    return [users.add(name) for name in _USERS]


def _body(place: Place) -> bytes:
    cluster = workspace_id(place.settings).child(Kind.CLUSTER, place.settings.cluster)
    properties = {
        "cluster": {"id": str(cluster)},
        "nodeCount": 1,
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs",
        "customToolkitSettings": {"commandLine": "true"},
    }
    return json.dumps({"properties": properties}).encode()


@contextlib.contextmanager
def _running(home: Path) -> Iterator[_Server]:
    words = [sys.executable, "-m", "batchai_magics.cli", "serve", "--port", "0"]
    env = {**os.environ, "BATCHAI_HOME": str(home)}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            said = process.stdout.readline()
            found = re.search(r":(\d+)\.", said)
            assert found, f"the server said {said!r}"
            yield _Server(int(found[1]), process)
        finally:
            process.kill()
