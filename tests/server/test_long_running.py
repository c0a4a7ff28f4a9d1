"""The 202 of what takes long, and what it points to, as recorded calls of the service have them."""

from __future__ import annotations

import re

import pytest

from tests.server.running import SUBSCRIPTION, VERSION, WORKSPACE, Running

pytestmark = pytest.mark.slow
NAME = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
SCOPE = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/locations/local"
CLUSTER = {
    "vmSize": "STANDARD_D1",
    "userAccountSettings": {"adminUserName": "a"},
    "scaleSettings": {"manual": {"targetNodeCount": 0}},
}


@pytest.mark.parametrize(("method", "host"), [("PUT", "127.0.0.1"), ("DELETE", "localhost")])
def test_a_202_is_empty_and_has_the_recorded_headers_with_the_clients_own_name_of_the_host(
    server: Running, method: str, host: str
) -> None:
    path = f"{WORKSPACE}/clusters/made"
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
