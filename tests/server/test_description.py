"""The description of the published operations, and that every answer to them is as it says."""

from __future__ import annotations

import json
import re

import pytest
import requests

from batchai_magics.models.resource_ids import Kind
from batchai_magics.server.api_routes import ROUTES
from batchai_magics.server.http.response_encoder import openapi_document
from tests.server.published_api import METHODS, deviations, operation_at
from tests.server.running import Running

JOB = "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/w/experiments/e/jobs/j"
SHOWN = {
    "id": JOB,
    "name": "j",
    "type": "Microsoft.BatchAI/workspaces/experiments/jobs",
    "properties": {"executionState": "queued", "creationTime": "2018-06-06T20:59:38.12Z"},
}


def described() -> set[tuple[str, str]]:
    """The method and the path of each operation, whatever its parameters are called."""
    paths = openapi_document()["paths"].items()
    return {(method.upper(), bare(path)) for path, item in paths for method in METHODS if method in item}


def bare(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def test_it_has_the_29_operations_and_the_server_a_route_for_each() -> None:
    assert len(described()) == 29
    assert described() <= {(route.method, bare(route.path)) for route in ROUTES}


def test_every_kind_of_resource_is_described() -> None:
    words = {path.rstrip("}").split("/")[-2] for _, path in described() if path.endswith("{}")}
    assert {kind.value.lower() for kind in Kind} == {word.lower() for word in words}


@pytest.mark.slow
def test_it_is_given_to_anybody(server: Running) -> None:
    assert requests.get(f"{server.url}/openapi.json").json() == openapi_document()


@pytest.mark.slow  # the library that validates takes two seconds to load
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"name": None}, "None is not of type"),
        ({"tags": {}}, "'tags'"),
        ({"properties": {"executionState": "done"}}, "'done' is not one of"),
        ({"properties": {"creationTime": "2018-06-06 20:59"}}, "does not match"),
        ({"properties": {"nodeCount": "2"}}, "'2' is not of type"),
        ({"properties": {"nodeCuont": 2}}, "'nodeCuont'"),
    ],
)
def test_an_answer_that_is_not_as_described_is_found(change: dict, word: str) -> None:
    operation = operation_at("GET", JOB)
    assert deviations(operation, 200, json.dumps(SHOWN).encode()) == []
    assert word in "".join(deviations(operation, 200, json.dumps({**SHOWN, **change}).encode()))


@pytest.mark.slow  # as above
def test_a_status_and_a_body_that_are_not_described_are_found() -> None:
    operation = operation_at("DELETE", JOB)
    assert deviations(operation, 202, b"") == []
    assert deviations(operation, 201, b"") == ["the operation has no such status"]
    assert deviations(operation, 202, b"{}") == ["the operation has no such body"]
    assert deviations(operation, 400, b'{"error": {"code": "A"}}') == [
        "$.error: 'message' is a required property"
    ]
