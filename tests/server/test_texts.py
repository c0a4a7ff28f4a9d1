"""Text that cannot be encoded: refused with its field wherever it enters, and harmless where it is stored."""

from __future__ import annotations

import pytest
import requests

from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.http.response_encoder import to_starlette
from tests.server.running import GROUP, SUBSCRIPTION, WORKSPACE, Running

pytestmark = pytest.mark.slow
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
