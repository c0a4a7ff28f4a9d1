"""Requests made from the description, right and wrong ones: each is answered as it says, none by a surprise.

Every run makes the same ones.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from batchai_magics.server.http.response_encoder import openapi_document
from tests.server.running import GROUP, SUBSCRIPTION, TOKEN, Running
from tests.wire_bodies import plain_cluster, plain_job

pytestmark = pytest.mark.slow
SEED = 2018
EXAMPLES = {"get": 4, "delete": 4, "put": 10, "patch": 10, "post": 10}  # most where bodies vary
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
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
THERE = {"clusters/c": plain_cluster(0), "experiments/e/jobs/j": plain_job(f"{WORKSPACE}/clusters/c")}

OPERATIONS = [
    (path, method)
    for path, operations in openapi_document()["paths"].items()
    for method in operations
    if method in EXAMPLES
]


@pytest.fixture(scope="module")
def published() -> Any:
    """The description, as the library that makes requests reads it: it takes seconds to load."""
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is of the extra `test`")
    return schemathesis.openapi.from_dict(dict(openapi_document()))


@pytest.fixture(autouse=True)
def something_there(server: Running) -> None:
    """What requests that are right are about; the job waits for a node, as there is none."""
    server.json("PUT", WORKSPACE, json={"location": "eastus"})
    server.json("PUT", f"{WORKSPACE}/experiments/e")
    for path, body in THERE.items():
        answer = server.ask("PUT", f"{WORKSPACE}/{path}", json=body)
        assert answer.ok or answer.status_code == 409, answer.text  # another description is there


@pytest.mark.parametrize(
    ("path", "method"), OPERATIONS, ids=[f"{method} {path}" for path, method in OPERATIONS]
)
def test_every_request_is_answered_as_described(
    published: Any, server: Running, path: str, method: str
) -> None:
    from schemathesis import GenerationMode
    from schemathesis.checks import CHECKS as checks

    operation = published[path][method]
    right, wrong = (operation.as_strategy(generation_mode=mode) for mode in GenerationMode)

    @seed(SEED)
    @settings(max_examples=EXAMPLES[method], deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.one_of(right.map(_about_what_is_there), wrong))
    def answered(case: Any) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        held = checks.get_by_names(CHECKS)
        case.call_and_validate(base_url=server.url, headers=headers, checks=held)

    answered()


def _about_what_is_there(case: Any) -> Any:
    case.path_parameters.update({name: PLACES[name] for name in case.path_parameters if name in PLACES})
    return case
