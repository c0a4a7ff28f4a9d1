"""Requests of one user that would cost much: they are refused, and others are answered meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.server.running import WORKSPACE, Running
from tests.world import until

pytestmark = pytest.mark.slow
JOBS = f"{WORKSPACE}/experiments/default/jobs"
DOUBLING = [
    {"name": f"A{number}", "value": f"$A{number - 1}$A{number - 1}" if number else "xx"}
    for number in range(60)
]
MPI = {"commandLine": "true", "processCount": 2**31 - 1}
HOSTILE = [
    {"nodeCount": 2**31 - 1, "customToolkitSettings": {"commandLine": "true"}},
    {"nodeCount": 1, "customMpiSettings": MPI},
    {"nodeCount": 1, "customToolkitSettings": {"commandLine": "true"}, "environmentVariables": DOUBLING},
    {"nodeCount": 1, "tensorFlowSettings": {"pythonScriptFilePath": "t.py", "workerCount": 2**31 - 1}},
]


@pytest.fixture
def empty_cluster(server: Running) -> str:
    """A cluster without nodes, which says nothing about how many a job may ask for."""
    path = f"{WORKSPACE}/clusters/empty"
    scale = {"manual": {"targetNodeCount": 0}}
    account = {"adminUserName": "me", "adminUserPassword": "hush"}
    properties = {"vmSize": "Standard_D2", "scaleSettings": scale, "userAccountSettings": account}
    assert server.ask("PUT", path, json={"location": "local", "properties": properties}).ok
    return path


def test_of_two_hundred_hostile_requests_none_keeps_another_user_waiting(
    server: Running, empty_cluster: str
) -> None:
    """The other user's requests begin and end while those are under way."""
    common = {"cluster": {"id": empty_cluster}, "stdOutErrPathPrefix": "/tmp"}
    bodies = [json.dumps({"properties": {**common, **fields}}) for fields in HOSTILE]
    under_way = threading.Semaphore(0)

    def attack(number: int) -> tuple[int, bool]:
        under_way.release()
        answer = server.ask("PUT", f"{JOBS}/hostile-{number}", data=bodies[number % len(bodies)])
        return answer.status_code, "see the setting max_" in answer.text

    with ThreadPoolExecutor(16) as attackers:
        answers = [attackers.submit(attack, number) for number in range(200)]
        for _ in range(16):
            under_way.acquire()
        others = list(_answers(server, lambda: all(answer.done() for answer in answers)))
    assert {answer.result() for answer in answers} == {(400, True)}
    assert others
    assert set(others) == {200}


def _answers(server: Running, is_over: Callable[[], bool]) -> Iterator[int]:
    """What another user gets, until all of the first one's requests are answered."""
    while True:
        yield server.ask("GET", JOBS).status_code
        if is_over():
            return


def test_of_the_pipes_of_a_job_none_keeps_another_user_waiting(server: Running) -> None:
    """The first user's job replaces its records; two hundred requests for them leave room for others."""
    pipes = "cd $BATCHAI_ARTIFACT_DIR/.. && mkfifo records/parameters.json telemetry/x.jsonl stdout.times"
    job = f"{JOBS}/pipes"
    properties = {
        "cluster": {"id": f"{WORKSPACE}/clusters/default"},
        "nodeCount": 1,
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs",
        "customToolkitSettings": {"commandLine": f"{pipes}; echo replaced"},
    }
    assert server.ask("PUT", job, json={"properties": properties}).ok
    until(lambda: server.json("GET", job)["properties"]["executionState"] == "succeeded")
    asks = [
        ("batchaiRecords", {"names": ["parameters.json"]}),
        ("batchaiTelemetry", {}),
        ("batchaiRead", {"path": "stdout.txt"}),
        ("batchaiTail", {"positions": {}}),
    ]

    def attack(number: int) -> int:
        name, body = asks[number % len(asks)]
        return server.ask("POST", f"{job}/{name}", json=body).status_code

    with ThreadPoolExecutor(16) as attackers:
        answers = [attackers.submit(attack, number) for number in range(200)]
        others = list(_answers(server, lambda: all(answer.done() for answer in answers)))
    assert {answer.result() for answer in answers} == {200}
    assert set(others) == {200}
