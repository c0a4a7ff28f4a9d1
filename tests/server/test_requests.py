"""Requests as any client could send them: the right status, and an error that says what is wrong."""

from __future__ import annotations

import re

import pytest
import requests

from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.api_routes import ARM_ROUTES, ROUTES
from batchai_magics.server.http.response_encoder import to_starlette
from tests.server.running import GROUP, SUBSCRIPTION, VERSION, WORKSPACE, Running
from tests.wire_bodies import manual, plain_cluster
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
def test_missing_resources_have_the_error_messages_of_the_service(
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


def test_response_to_a_resize_has_a_new_etag_and_the_previous_state(server: Running) -> None:
    path = f"{WORKSPACE}/clusters/resized"
    assert server.ask("PUT", path, json=plain_cluster(0)).status_code == 202
    first, again = (server.ask("GET", path) for _ in range(2))
    changed = server.ask("PATCH", path, json={"properties": {"scaleSettings": manual(1)}})
    assert first.headers["ETag"] == again.headers["ETag"] != changed.headers["ETag"]
    before, answer = again.json()["properties"], changed.json()["properties"]
    assert answer["scaleSettings"]["manual"]["targetNodeCount"] == 1
    state = ("allocationState", "allocationStateTransitionTime", "currentNodeCount", "nodeStateCounts")
    assert {name: answer[name] for name in state} == {name: before[name] for name in state}
    until(lambda: server.json("GET", path)["properties"]["currentNodeCount"] == 1)
    assert server.ask("GET", path).headers["ETag"] == changed.headers["ETag"]


def test_a_host_name_that_is_not_the_servers_is_refused(server: Running) -> None:
    assert error(server, "GET", WORKSPACE, headers={"Host": "evil.example"})[:2] == (
        421,
        "MisdirectedRequest",
    )


@pytest.mark.parametrize("action", ["register", "unregister"])
def test_the_provider_is_registered_in_a_version_of_the_resource_manager(
    server: Running, action: str
) -> None:
    path = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/{action}"
    told = server.json("POST", path, params={"api-version": "2022-09-01"})
    assert told["namespace"] == "Microsoft.BatchAI"


NAME = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
SCOPE = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.BatchAI/locations/local"


@pytest.mark.parametrize(("method", "host"), [("PUT", "127.0.0.1"), ("DELETE", "localhost")])
def test_202_has_no_body_and_its_headers_repeat_the_host_of_the_request(
    server: Running, method: str, host: str
) -> None:
    path = f"{WORKSPACE}/clusters/made"
    origin = server.url.replace("127.0.0.1", host)
    if method == "DELETE":
        server.ask("PUT", path, json=plain_cluster(0))
    more = {"json": plain_cluster(0)} if method == "PUT" else {}
    answer = server.ask(method, path, headers={"Host": origin.removeprefix("http://")}, **more)
    assert (answer.status_code, answer.content) == (202, b"")
    assert answer.headers["Retry-After"] == "1"
    (name,) = re.findall(NAME, answer.headers["Location"].rpartition("/")[2])
    assert answer.headers["Location"] == f"{origin}{SCOPE}/operationstatuses/{name}?api-version={VERSION}"
    told = answer.headers["Azure-AsyncOperation"]
    assert told == f"{origin}{SCOPE}/operationresults/{name}?api-version={VERSION}"


HALF = r"\ud800"
ACCOUNT = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/texts"
ROLE = f"{GROUP}/providers/Microsoft.Authorization/roleAssignments/one"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (GROUP, f'{{"location": "eastus", "tags": {{"a": "{HALF}"}}}}', "tags.a"),
        (f"{GROUP}-2", f'{{"location": "{HALF}"}}', "location"),
        (WORKSPACE, f'{{"location": "eastus", "tags": {{"{HALF}": "a"}}}}', "tags"),
        (ROLE, f'{{"properties": {{"principalId": "{HALF}"}}}}', "properties.principalId"),
        (ACCOUNT, f'{{"location": "{HALF}"}}', "location"),
        (ACCOUNT, f'{{"sku": {{"name": "{HALF}"}}}}', "sku.name"),
        (ACCOUNT, '{"location": 7}', "location"),
        (ACCOUNT, '{"sku": {"name": ["Standard_LRS"]}}', "sku.name"),
        (GROUP, b'{"tags": {"a": "\xed\xa0\x80"}}', "tags.a"),
        (ROLE, '{"properties": {"priority": NaN}}', "NaN"),
    ],
)
def test_half_a_character_is_refused_with_its_field(
    server: Running, path: str, body: str | bytes, field: str
) -> None:
    answer = server.ask("PUT", path, data=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "InvalidRequestContent")
    assert field in answer.json()["error"]["message"]
    for listed in ("resourcegroups", "providers/Microsoft.Storage/storageAccounts"):
        assert server.json("GET", f"/subscriptions/{SUBSCRIPTION}/{listed}")["value"] is not None


@pytest.mark.parametrize("path", [f"{GROUP}%ff", "/texts/share/bad%ff", f"{WORKSPACE}/clusters/%ed%a0%80"])
def test_a_path_that_is_no_text_is_refused_and_never_another_path(server: Running, path: str) -> None:
    answer = server.ask("PUT", path, data=b"{}")
    assert answer.status_code == 400
    assert "The path of the request must be percent-encoded UTF-8" in answer.text


def test_a_query_that_is_no_text_is_refused_with_its_parameter(server: Running) -> None:
    url = f"{server.url}{WORKSPACE}/clusters?api-version=2018-05-01&batchaiNames=%ff"
    answer = requests.get(url, headers={"Authorization": "Bearer the-token-of-these-tests"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "InvalidUri")
    assert "batchainames" in answer.json()["error"]["message"]


def test_an_answer_that_cannot_be_encoded_is_a_defect_and_no_dropped_connection() -> None:
    response = to_starlette(ApiResponse(headers={"x-ms-meta-a": "\u20ac"}), None)
    assert response.status_code == 500
    assert b"InternalServerError" in response.body
