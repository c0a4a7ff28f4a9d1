"""Our own client waits for news; it is told when there is some, and not before."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from batchai_magics.backends.service.extension_wire import SINCE, STATE
from tests.server.running import WORKSPACE, Running
from tests.server.storage.signed_urls import signed_path
from tests.world import until

pytestmark = pytest.mark.slow
WAIT = {"Prefer": "wait=30"}
CLUSTER = f"{WORKSPACE}/clusters/waited-for"


@pytest.fixture
def cluster(server: Running) -> str:
    scale(server, 0)
    until(lambda: server.json("GET", CLUSTER)["properties"]["allocationState"] == "steady")
    return CLUSTER


def scale(server: Running, count: int) -> None:
    settings = {"scaleSettings": {"manual": {"targetNodeCount": count}}}
    if server.ask("GET", CLUSTER).status_code == 404:
        settings |= {"vmSize": "STANDARD_D1", "userAccountSettings": {"adminUserName": "a"}}
        assert server.ask("PUT", CLUSTER, json={"properties": settings}).ok
    else:
        assert server.ask("PATCH", CLUSTER, json={"properties": settings}).ok


def test_a_change_is_told_to_who_waits_for_it(server: Running, cluster: str) -> None:
    known = server.ask("GET", cluster, headers=WAIT).headers[STATE]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.ask, "GET", cluster, headers={**WAIT, SINCE: known})
        assert not waiting.done()
        scale(server, 1)
        answer = waiting.result()
    assert answer.headers[STATE] != known
    assert answer.json()["properties"]["scaleSettings"]["manual"]["targetNodeCount"] == 1


def test_a_byte_more_is_told_to_who_read_a_file_to_its_end(server: Running) -> None:
    storage = server.world.backend.storage
    storage.upload("batchaishare", {"growing.txt": b"one\n"})
    url = server.url + signed_path(server, "batchaishare", "growing.txt")
    at_end = {**WAIT, "Range": "bytes=4-"}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(requests.get, url, headers=at_end)
        begun = threading.Timer(0.2, storage.upload, ["batchaishare", {"growing.txt": b"one\ntwo\n"}])
        begun.start()
        answer = waiting.result()
        begun.join()
    assert (answer.status_code, answer.content) == (206, b"two\n")
    assert requests.get(url, headers={"Range": "bytes=8-"}).status_code == 416
