"""The stand-in answers Azure's own libraries as Azure does."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
import requests
from azure.core.exceptions import HttpResponseError
from azure.core.rest import HttpRequest
from azure.identity import EnvironmentCredential
from azure.mgmt.resource.resources import ResourceManagementClient

from tests.azureml.faults import CUT_BODY, CUT_REQUEST, SLOW_BODY, refusal
from tests.azureml.stand_in import AzureStandIn
from tests.azureml.workspace import API, LOCATIONS, PLACE, ROOT

VERSION = {"api-version": "2025-12-01"}
COMMAND = {
    "jobType": "Command",
    "command": "echo hello",
    "environmentId": "azureml:image:1",
    "resources": {"instanceCount": 1, "instanceType": "Standard_DS3_v2"},
}


@pytest.fixture
def client(azure: AzureStandIn):
    with ResourceManagementClient(
        EnvironmentCredential(), azure.place[0], polling_interval=0, retry_total=0
    ) as made:
        yield made


def send(client, method, path, body=None):
    response = client.send_request(HttpRequest(method, path, params=VERSION, json=body))
    response.raise_for_status()
    return response.json() if response.content else None


def test_a_program_signs_in_and_sees_the_workspace(client):
    assert send(client, "GET", ROOT)["properties"]["discoveryUrl"] == f"{API}/discovery"


def test_a_request_without_a_token_is_refused(azure):
    assert requests.get(f"https://management.azure.com{ROOT}", timeout=9).status_code == 401


def test_an_expired_token_is_refused(azure, client):
    send(client, "GET", ROOT)
    azure.sign_in.expire_all()
    with pytest.raises(HttpResponseError, match="ExpiredAuthenticationToken"):
        send(client, "GET", ROOT)


def test_a_cluster_is_made_shown_and_deleted(client):
    scale = {"minNodeCount": 1, "maxNodeCount": 2, "nodeIdleTimeBeforeScaleDown": "PT2M"}
    own = {"vmSize": "STANDARD_DS3_V2", "scaleSettings": scale}
    made = client.resources.begin_create_or_update_by_id(
        resource_id=f"{ROOT}/computes/cpu",
        parameters={"location": "eastus", "properties": {"computeType": "AmlCompute", "properties": own}},
        **{"api_version": "2025-12-01"},
    ).result()
    assert made.properties["properties"]["currentNodeCount"] == 1
    assert len(send(client, "POST", f"{ROOT}/computes/cpu/listNodes")["nodes"]) == 1
    in_use = {
        item["name"]["value"]: item["currentValue"]
        for item in send(client, "GET", f"{PLACE}/usages")["value"]
    }
    assert in_use["standardDSv2Family"] == 4
    client.resources.begin_delete_by_id(resource_id=f"{ROOT}/computes/cpu", api_version="2025-12-01").result()
    assert send(client, "GET", f"{ROOT}/computes") == {"value": []}


def test_a_name_of_a_job_is_used_once(client):
    send(client, "PUT", f"{ROOT}/jobs/one", {"properties": COMMAND})
    with pytest.raises(HttpResponseError, match="already exists"):
        send(client, "PUT", f"{ROOT}/jobs/one", {"properties": {**COMMAND, "command": "other"}})


def test_jobs_are_listed_by_pages_without_archived_ones(azure, client):
    azure.jobs.page = 2
    for name in "abc":
        send(client, "PUT", f"{ROOT}/jobs/{name}", {"properties": {**COMMAND, "isArchived": name == "b"}})
    assert [job["name"] for job in send(client, "GET", f"{ROOT}/jobs")["value"]] == ["c", "a"]


REFUSED_JOBS = {
    "a size of yesterday": {"resources": {"instanceCount": 1, "instanceType": "Standard_NC6s_v3"}},
    "a tier of other computes": {"queueSettings": {"jobTier": "Premium"}},
    "more time than low-priority nodes have": {
        "queueSettings": {"jobTier": "Spot"},
        "limits": {"jobLimitsType": "Command", "timeout": "P7DT2M"},
    },
    "more nodes than the quota allows": {
        "resources": {"instanceCount": 26, "instanceType": "Standard_DS3_v2"}
    },
}


@pytest.mark.parametrize("changed", REFUSED_JOBS.values(), ids=REFUSED_JOBS)
def test_a_job_is_refused_that_the_service_refuses(azure, client, changed):
    with pytest.raises(HttpResponseError):
        send(client, "PUT", f"{ROOT}/jobs/one", {"properties": {**COMMAND, **changed}})
    assert azure.jobs.jobs == {}


@pytest.mark.parametrize(
    ("name", "size", "most"),
    [
        ("ab", "Standard_D1", 1),
        ("a_b", "Standard_D1", 1),
        ("cpu", "Standard_D1", 0),
        ("cpu", "Standard_NC6", 1),
    ],
)
def test_a_cluster_is_refused_that_the_service_refuses(azure, client, name, size, most):
    own = {"vmSize": size, "scaleSettings": {"minNodeCount": 0, "maxNodeCount": most}}
    body = {"location": "eastus", "properties": {"computeType": "AmlCompute", "properties": own}}
    with pytest.raises(HttpResponseError):
        send(client, "PUT", f"{ROOT}/computes/{name}", body)
    assert azure.computes.clusters == {}


def test_the_clock_of_the_service_goes_on(client):
    def times():
        return send(client, "GET", f"{ROOT}/jobs/one")["systemData"]

    before = datetime.now(timezone.utc)
    send(client, "PUT", f"{ROOT}/jobs/one", {"properties": COMMAND})
    made = times()
    assert datetime.fromisoformat(made["createdAt"]) >= before
    send(client, "PUT", f"{ROOT}/jobs/one", {"properties": {**COMMAND, "isArchived": True}})
    assert times()["createdAt"] == made["createdAt"] < times()["lastModifiedAt"]


def test_other_locations_have_no_quotas_here(client):
    with pytest.raises(HttpResponseError, match="NoRegisteredProviderFound"):
        send(client, "GET", f"{LOCATIONS}/mars/usages")


def details(azure, job):
    token = azure.sign_in.issue("https://management.azure.com/.default").token
    url = f"{API}/history/v1.0{ROOT}/runs/{job}/details"
    return requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=9).json()


def test_run_history_links_to_logs_that_are_read_from_an_offset(azure, client):
    send(client, "PUT", f"{ROOT}/jobs/one", {"properties": COMMAND})
    azure.write_log("one", "user_logs/std_log.txt", b"hello\n")
    link = details(azure, "one")["logFiles"]["user_logs/std_log.txt"]
    assert requests.get(link, headers={"Range": "bytes=2-"}, timeout=9).content == b"llo\n"
    assert requests.get(link, headers={"Range": "bytes=6-"}, timeout=9).status_code == 416


def test_a_link_expires(azure, client):
    send(client, "PUT", f"{ROOT}/jobs/one", {"properties": COMMAND})
    azure.write_log("one", "user_logs/std_log.txt", b"hello\n")
    azure.history.link_life_s = -1.0
    link = details(azure, "one")["logFiles"]["user_logs/std_log.txt"]
    assert requests.get(link, timeout=9).status_code == 403


def test_a_link_to_one_log_opens_no_other(azure, client):
    send(client, "PUT", f"{ROOT}/jobs/one", {"properties": COMMAND})
    azure.write_log("one", "user_logs/a.txt", b"a")
    azure.write_log("one", "user_logs/b.txt", b"b")
    link = details(azure, "one")["logFiles"]["user_logs/a.txt"]
    assert requests.get(link.replace("a.txt", "b.txt"), timeout=9).status_code == 403


def test_a_failed_job_says_why_in_run_history(azure, client):
    send(client, "PUT", f"{ROOT}/jobs/one", {"properties": COMMAND})
    azure.set_status("one", "Failed", error={"code": "UserError", "message": "it broke"})
    shown = details(azure, "one")
    assert (shown["status"], shown["error"]["error"]["message"]) == ("Failed", "it broke")


def test_faults_happen_to_the_requests_they_are_for(azure, client):
    azure.faults.add(refusal(429, retry_after="3"), "/jobs")
    url = f"https://management.azure.com{ROOT}/jobs"
    first = requests.get(url, timeout=9)
    assert (first.status_code, first.headers["Retry-After"]) == (429, "3")
    azure.faults.add(CUT_REQUEST, "/jobs")
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=9)
    azure.faults.add(CUT_BODY, "/discovery")
    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        requests.get(f"{API}/discovery", timeout=9)
    azure.faults.add(SLOW_BODY, "/discovery")
    assert requests.get(f"{API}/discovery", timeout=9).json()["api"] == API
