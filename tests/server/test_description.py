"""The description of the published operations, and that every answer to them is as it says."""

from __future__ import annotations

import re

import pytest
import requests

from batchai_magics.models.resource_ids import Kind
from batchai_magics.server.api_routes import ROUTES
from batchai_magics.server.http.response_encoder import openapi_document
from tests.server.published_api import METHODS
from tests.server.running import Running


def described() -> set[tuple[str, str]]:
    """The method and the path of each operation, whatever its parameters are called."""
    paths = openapi_document()["paths"].items()
    return {(method.upper(), bare(path)) for path, item in paths for method in METHODS if method in item}


def bare(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def test_description_has_29_operations_which_the_server_routes() -> None:
    assert len(described()) == 29
    assert described() <= {(route.method, bare(route.path)) for route in ROUTES}


def test_every_kind_of_resource_is_described() -> None:
    words = {path.rstrip("}").split("/")[-2] for _, path in described() if path.endswith("{}")}
    assert {kind.value.lower() for kind in Kind} == {word.lower() for word in words}


@pytest.mark.slow
def test_description_is_served_without_a_token(server: Running) -> None:
    assert requests.get(f"{server.url}/openapi.json").json() == openapi_document()
