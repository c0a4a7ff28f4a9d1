"""Requests as any client could send them: the right status, and an error that says what is wrong."""

from __future__ import annotations

import re

import pytest

from batchai_magics.server.api_routes import ARM_ROUTES, ROUTES
from tests.server.running import GROUP, SUBSCRIPTION, WORKSPACE, Running
from tests.world import until

pytestmark = pytest.mark.slow
JOBS = f"{WORKSPACE}/experiments/default/jobs"


def error(server: Running, method: str, path: str, **more: object) -> tuple[int, str, str]:
    answer = server.ask(method, path, **more)
    told = answer.json()
    assert set(told) == {"error"}
    return answer.status_code, told["error"]["code"], told["error"]["message"]


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        (f"{JOBS}/x", "JobNotFound", "The specified job x is not found"),
        (
            f"{WORKSPACE}/experiments/x/jobs/y",
            "ExperimentNotFound",
            "The specified experiment x is not found",
        ),
        (f"{WORKSPACE}/clusters/x", "ClusterNotFound", "The specified cluster x is not found"),
        (f"{WORKSPACE}x/clusters", "WorkspaceNotFound", "The specified workspace defaultx is not found"),
        (
            "/subscriptions/s/resourceGroups/g",
            "SubscriptionNotFound",
            "The subscription 's' could not be found.",
        ),
        (f"{GROUP}x", "ResourceGroupNotFound", "Resource group 'batchaix' could not be found."),
    ],
)
def test_what_is_missing_is_said_in_the_words_of_the_service(
    server: Running, path: str, code: str, message: str
) -> None:
    assert error(server, "GET", path) == (404, code, message)


def test_every_address_in_another_subscription_is_rejected(server: Running) -> None:
    routes = [route for route in (*ROUTES, *ARM_ROUTES) if "{subscription}" in route.path]
    for route in routes:
        path = re.sub(r"\{\w+\}", "x", route.path.replace("{subscription}", "other"))
        answer = server.ask(
            route.method, path, **({} if route.method in ("GET", "HEAD") else {"data": b"{}"})
        )
        assert answer.status_code == 404, f"{route.method} {route.path}"
        assert route.method == "HEAD" or answer.json()["error"]["code"] == "SubscriptionNotFound"


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(server: Running, body: bytes) -> None:
    assert error(server, "PUT", f"{JOBS}/x", data=body)[:2] == (400, "InvalidRequestContent")


def test_a_body_that_is_too_large_is_refused(server: Running) -> None:
    assert error(server, "PUT", f"{JOBS}/x", data=b"x" * (2 << 20))[:2] == (413, "RequestBodyTooLarge")


def test_every_problem_of_a_description_has_its_field(server: Running) -> None:
    body = {"properties": {"nodeCount": 0, "nodeCuont": 1, "customToolkitSettings": {}}}
    answer = server.ask("PUT", f"{JOBS}/x", json=body)
    fields = {detail["target"] for detail in answer.json()["error"]["details"]}
    assert answer.status_code == 400
    assert {"properties.nodeCount", "properties.nodeCuont", "properties.cluster"} <= fields


def test_ids_are_the_same_in_any_letter_case(server: Running) -> None:
    shown = server.json("GET", WORKSPACE)
    assert server.json("GET", WORKSPACE.upper().replace(SUBSCRIPTION.upper(), SUBSCRIPTION)) == shown


def test_an_etag_stays_while_the_state_changes_and_goes_with_the_description(server: Running) -> None:
    path = f"{WORKSPACE}/clusters/tagged"
    body = {"vmSize": "STANDARD_D1", "userAccountSettings": {"adminUserName": "a"}}
    scale = {"scaleSettings": {"manual": {"targetNodeCount": 0}}}
    assert server.ask("PUT", path, json={"properties": {**body, **scale}}).status_code == 202
    first, again = (server.ask("GET", path).headers["ETag"] for _ in range(2))
    scale["scaleSettings"]["manual"]["targetNodeCount"] = 1
    changed = server.ask("PATCH", path, json={"properties": scale}).headers["ETag"]
    assert first == again != changed


def test_the_answer_to_a_resize_has_the_state_before_it(server: Running) -> None:
    path = f"{WORKSPACE}/clusters/resized"
    body = {"vmSize": "STANDARD_D1", "userAccountSettings": {"adminUserName": "a"}}
    scale = {"scaleSettings": {"manual": {"targetNodeCount": 0}}}
    assert server.ask("PUT", path, json={"properties": {**body, **scale}}).status_code == 202
    before = server.json("GET", path)["properties"]
    scale["scaleSettings"]["manual"]["targetNodeCount"] = 1
    answer = server.json("PATCH", path, json={"properties": scale})["properties"]
    assert answer["scaleSettings"]["manual"]["targetNodeCount"] == 1
    state = ("allocationState", "allocationStateTransitionTime", "currentNodeCount", "nodeStateCounts")
    assert {name: answer[name] for name in state} == {name: before[name] for name in state}
    until(lambda: server.json("GET", path)["properties"]["currentNodeCount"] == 1)


def test_a_host_name_that_is_not_the_servers_is_refused(server: Running) -> None:
    assert error(server, "GET", WORKSPACE, headers={"Host": "evil.example"})[:2] == (
        421,
        "MisdirectedRequest",
    )


def test_deleting_what_is_not_there_is_no_error(server: Running) -> None:
    assert server.ask("DELETE", f"{JOBS}/nothing").status_code == 204


@pytest.mark.parametrize("action", ["register", "unregister"])
def test_the_provider_is_registered_in_a_version_of_the_resource_manager(
    server: Running, action: str
) -> None:
    path = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/{action}"
    told = server.json("POST", path, params={"api-version": "2022-09-01"})
    assert told["namespace"] == "Microsoft.BatchAI"
