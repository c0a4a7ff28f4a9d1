"""The 202 of what takes long, and what it points to, as recorded calls of the service have them."""

from __future__ import annotations

import re

import pytest
import requests

from batchai_magics.models.states import ExecutionState
from batchai_magics.server.operations import TERMINATE
from tests.server.running import SUBSCRIPTION, TOKEN, VERSION, WORKSPACE, Running
from tests.world import until

pytestmark = pytest.mark.slow
NAME = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
SCOPE = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/locations/local"
CLUSTER = {
    "vmSize": "STANDARD_D1",
    "userAccountSettings": {"adminUserName": "a"},
    "scaleSettings": {"manual": {"targetNodeCount": 0}},
}


def followed(url: str) -> requests.Response:
    """What is at the address of a header, as it stands there."""
    return requests.get(url, headers={"Authorization": f"Bearer {TOKEN}"})


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", f"{WORKSPACE}/clusters/made"), ("DELETE", f"{WORKSPACE}/clusters/made")]
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_202_is_empty_and_has_the_recorded_headers_with_the_clients_own_name_of_the_host(
    server: Running, method: str, path: str, host: str
) -> None:
    origin = server.url.replace("127.0.0.1", host)
    if method == "DELETE":
        server.ask("PUT", path, json={"properties": CLUSTER})
    more = {"json": {"properties": CLUSTER}} if method == "PUT" else {}
    answer = server.ask(method, path, headers={"Host": origin.removeprefix("http://")}, **more)
    assert (answer.status_code, answer.content) == (202, b"")
    assert answer.headers["Retry-After"] == "1"
    (name,) = re.findall(NAME, answer.headers["Location"].rpartition("/")[2])
    assert answer.headers["Location"] == f"{origin}{SCOPE}/operationstatuses/{name}?api-version={VERSION}"
    told = answer.headers["Azure-AsyncOperation"]
    assert told == f"{origin}{SCOPE}/operationresults/{name}?api-version={VERSION}"


def test_both_addresses_say_to_ask_again_in_a_second_until_it_is_over(server: Running) -> None:
    job = server.world.submit("long", "import time; time.sleep(1000)")
    until(lambda: job.state is ExecutionState.RUNNING)
    name = server.context.operations.start(TERMINATE, str(job.id)).name
    result, status = (
        f"{server.url}{SCOPE}/{word}/{name}?api-version={VERSION}"
        for word in ("operationresults", "operationstatuses")
    )
    under_way = [followed(url) for url in (result, status)]
    assert [answer.status_code for answer in under_way] == [200, 202]
    assert [answer.headers["Retry-After"] for answer in under_way] == ["1", "1"]
    assert [answer.json()["status"] for answer in under_way] == ["InProgress", "InProgress"]
    assert under_way[0].json()["id"] == result.partition("?")[0]
    job.cancel()
    until(lambda: followed(result).json()["status"] == "Succeeded")
    over = [followed(url) for url in (result, status)]
    assert [answer.status_code for answer in over] == [200, 200]
    assert not any("Retry-After" in answer.headers for answer in over)


def test_an_operation_is_found_in_its_own_subscription_alone(server: Running) -> None:
    name = server.context.operations.record_completed(server.world.cluster).name
    for word in ("operationresults", "operationstatuses"):
        path = f"{SCOPE}/{word}/{name}"
        assert server.ask("GET", path).json()["status"] == "Succeeded"
        missing = server.ask("GET", path.replace(SUBSCRIPTION, "11111111-1111-1111-1111-111111111111"))
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "SubscriptionNotFound")
