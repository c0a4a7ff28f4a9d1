"""What a job needs, created in one request: it belongs to who asks, and a wrong request creates nothing."""

from __future__ import annotations

import pytest

from tests.server.running import SUBSCRIPTION, WORKSPACE, Running
from tests.world import until

pytestmark = pytest.mark.slow
PATH = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/batchaiEnsure"
OTHER = WORKSPACE.replace("workspaces/default", "workspaces/other")
JOB = f"{OTHER}/experiments/e/jobs/j"
NEEDS = {
    "job": JOB,
    "resources": [
        {"id": OTHER, "body": {"location": "local"}},
        {"id": f"{OTHER}/experiments/e", "body": {}},
    ],
    "share": "fresh",
}


def test_created_resource_belongs_to_the_caller(server: Running) -> None:
    anna, ben = server.add_user("anna"), server.add_user("ben")
    for token in (anna, ben):  # it is there the second time
        assert server.json("POST", PATH, token=token, json=NEEDS) == {"value": []}
    assert server.ask("DELETE", OTHER, token=ben).status_code == 403
    assert server.ask("DELETE", OTHER, token=anna).status_code == 202
    until(lambda: server.ask("GET", OTHER).status_code == 404)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"job": ""}, "InvalidRequestContent"),
        ({"job": 7}, "InvalidRequestContent"),
        ({"job": JOB.replace(SUBSCRIPTION, "s")}, "SubscriptionNotFound"),
        ({"resources": {}}, "InvalidRequestContent"),
        ({"resources": NEEDS["resources"] * 6}, "InvalidRequestContent"),
        ({"resources": [7]}, "InvalidRequestContent"),
        ({"files": ["a"]}, "InvalidRequestContent"),
        ({"files": {"a": 7}}, "InvalidRequestContent"),
        ({"files": {"a": "no base64"}}, "InvalidRequestContent"),
        ({"files": {"a": "YQ=="}, "share": ""}, "InvalidRequestContent"),
        ({"resources": [*NEEDS["resources"], {"id": JOB, "body": {}}]}, "InvalidRequestContent"),
        ({"resources": [*NEEDS["resources"], {"id": f"{OTHER}/clusters/c", "body": {}}]}, "InvalidRequest"),
    ],
)
def test_a_wrong_request_creates_nothing(server: Running, change: dict[str, object], code: str) -> None:
    answer = server.ask("POST", PATH, json={**NEEDS, "share": "unmade", **change})
    assert (answer.status_code in (400, 404), answer.json()["error"]["code"]) == (True, code)
    assert server.ask("GET", OTHER).status_code == 404
    assert "unmade" not in server.world.backend.storage.shares()


def test_a_share_name_that_cannot_be_is_refused_before_anything_is_created(server: Running) -> None:
    answer = server.ask("POST", PATH, json={**NEEDS, "share": "../x"})
    assert 400 <= answer.status_code < 500
    assert server.ask("GET", OTHER).status_code == 404
