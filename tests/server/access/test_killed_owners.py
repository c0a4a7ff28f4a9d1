"""A server that is killed between creating a resource and answering: whose it is then."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest
import requests

from batchai_magics.server.access.access_control import Users
from batchai_magics.server.server_home import ServerHome
from tests.patience import PATIENCE_S
from tests.server.process import Process, started
from tests.server.running import GROUP, WORKSPACE
from tests.wire_bodies import plain_cluster, plain_job

BODIES = {
    WORKSPACE: {"location": "eastus"},
    f"{WORKSPACE}/clusters/c": plain_cluster(0),
    f"{WORKSPACE}/experiments/e": {},
    f"{WORKSPACE}/experiments/e/jobs/j": plain_job(f"{WORKSPACE}/clusters/c"),
    f"{GROUP}-of-alice": {"location": "eastus"},
    f"{GROUP}/providers/Microsoft.Storage/storageAccounts/alices": {"location": "eastus"},
}
KILLED_AT = [*BODIES][-3:]  # each is created in another way
# Ends the process by SIGKILL as soon as the resource of a name is committed.
KILLED = """
import os, signal, sys
from batchai_magics.backends.service import job_admission
from batchai_magics.backends.service.home_subscription import HomeAccounts, HomeGroups
from batchai_magics.cli import main

def killing(create, name_of):
    def created(*words, **more):
        made = create(*words, **more)
        if name_of(words) == os.environ["KILLED_AT"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return made
    return created

job_admission.create_jobs = killing(job_admission.create_jobs, lambda words: words[1][0].id.name)
HomeGroups.create = killing(HomeGroups.create, lambda words: words[1])
HomeAccounts.create = killing(HomeAccounts.create, lambda words: words[1])
sys.exit(main(["serve", "--port", *sys.argv[1:]]))
"""


def put(server: Process, token: str, path: str) -> requests.Response:
    return server.ask("PUT", path, json=BODIES[path], headers={"Authorization": f"Bearer {token}"})


def deleted_by(server: Process, token: str, path: str) -> int:
    return server.ask("DELETE", path, headers={"Authorization": f"Bearer {token}"}).status_code


@pytest.mark.slow
def test_what_was_created_when_the_server_was_killed_belongs_to_its_user(tmp_path: Path) -> None:
    home, users = tmp_path / "home", dict[str, str]()
    todo = iter(BODIES)
    for killed_at in KILLED_AT:
        name = killed_at.rpartition("/")[2]
        with started(home, command=(sys.executable, "-c", KILLED), KILLED_AT=name) as server:
            known = Users(ServerHome(home / "server").users)
            users = users or {name: known.add(name) for name in ("alice", "bob")}
            for needed in itertools.takewhile(lambda path, at=killed_at: path != at, todo):
                assert put(server, users["alice"], needed).ok
            with pytest.raises(requests.ConnectionError):
                put(server, users["alice"], killed_at)
            server.process.wait(PATIENCE_S)
    with started(home) as server:
        for path in KILLED_AT:
            assert server.ask("GET", path).ok
            assert deleted_by(server, users["bob"], path) == 403
            assert deleted_by(server, users["alice"], path) in (200, 202)
