"""Requests made from the description, right and wrong ones: each is answered as it says, none by a surprise.

Every run makes the same ones.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, seed, settings

from batchai_magics.server.http.response_encoder import openapi_document
from tests.server.running import GROUP, SUBSCRIPTION, TOKEN, Running

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is of the extra `test`")

from schemathesis import checks  # noqa: E402  as above
from schemathesis.specs.openapi import checks as openapi_checks  # noqa: E402  as above

pytestmark = pytest.mark.slow
SEED, EXAMPLES = 2018, 8  # of each operation
HELD = (
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
)
WORKSPACE = f"{GROUP}/providers/Microsoft.BatchAI/workspaces/described"
PLACES = {
    "subscriptionId": SUBSCRIPTION,
    "resourceGroupName": "batchai",
    "workspaceName": "described",
    "experimentName": "e",
    "clusterName": "c",
    "fileServerName": "f",
    "jobName": "j",
}
CLUSTER = {
    "vmSize": "STANDARD_D1",
    "userAccountSettings": {"adminUserName": "a"},
    "scaleSettings": {"manual": {"targetNodeCount": 0}},
}
JOB = {
    "cluster": {"id": f"{WORKSPACE}/clusters/c"},
    "nodeCount": 1,
    "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/afs",
    "customToolkitSettings": {"commandLine": "true"},
}

published = schemathesis.openapi.from_dict(dict(openapi_document()))


@pytest.fixture(autouse=True)
def something_there(server: Running) -> None:
    """What requests that are right are about; the job waits for a node, as there is none."""
    server.json("PUT", WORKSPACE, json={"location": "eastus"})
    server.json("PUT", f"{WORKSPACE}/experiments/e")
    for path, properties in (("clusters/c", CLUSTER), ("experiments/e/jobs/j", JOB)):
        answer = server.ask("PUT", f"{WORKSPACE}/{path}", json={"properties": properties})
        assert answer.ok or answer.status_code == 409, answer.text  # another description is there


@published.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@seed(SEED)
def test_every_request_is_answered_as_described(case: schemathesis.Case, server: Running) -> None:
    if case.meta is None or case.meta.generation.mode.is_positive:
        case.path_parameters.update({name: PLACES[name] for name in case.path_parameters if name in PLACES})
    case.call_and_validate(base_url=server.url, headers={"Authorization": f"Bearer {TOKEN}"}, checks=HELD)
