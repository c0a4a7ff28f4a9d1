"""Azure Resource Manager: errors, also of storage, are translated, and pages are asked for one by one."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from batchai_magics.backends.azure import arm_protocol
from batchai_magics.backends.azure.arm_client import list_items, list_pages
from batchai_magics.backends.azure.arm_protocol import ArmRequest
from batchai_magics.backends.service import extension_wire
from batchai_magics.errors import (
    CapabilityError,
    ConflictError,
    FileChangedError,
    NotFoundError,
    Problem,
    ServiceError,
    SpecError,
    StorageError,
    UnreachableError,
    UsageError,
)
from tests.backends.arm.scripted_connection import ScriptedConnection

URL = "https://jobs.example.org"
ERRORS = [
    NotFoundError("gone", code="JobNotFound", hint="list them"),
    ConflictError("taken", code="JobAlreadyExists"),
    CapabilityError("no", code="NotSupported"),
    StorageError("it leads out"),
    FileChangedError("cut", code="X"),
    SpecError([Problem("a.b", "is wrong", "mend it"), Problem("", "is empty")], what="the job description"),
    UsageError("no", hint="yes"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_our_own_server_arrives_as_it_was(error) -> None:
    told = json.dumps({"error": extension_wire.error_to_wire(error)})
    arrived = arm_protocol.arm_error(400, told, URL)
    assert (type(arrived), str(arrived)) == (type(error), str(error))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, NotFoundError),
        (409, ConflictError),
        (429, UnreachableError),
        (503, UnreachableError),
        (400, ServiceError),
    ],
)
def test_azures_own_errors_are_told_apart_by_their_status(status: int, kind: type) -> None:
    error = arm_protocol.arm_error(status, '{"error": {"code": "Boom", "message": "it failed"}}', URL)
    assert (type(error), error.code, error.message) == (kind, "Boom", "it failed")


def test_a_wrong_token_says_where_the_right_one_is() -> None:
    error = arm_protocol.arm_error(
        401, '{"error": {"code": "InvalidAuthenticationToken", "message": "no"}}', URL
    )
    assert "BATCHAI_TOKEN" in error.hint


@pytest.mark.parametrize("text", ["<html>hello</html>", "", "[]", '{"error": "no"}', "{"])
def test_what_is_no_such_service_is_said_to_be_none(text: str) -> None:
    error = arm_protocol.arm_error(404, text, URL)
    assert (type(error), error.code) == (ServiceError, "WrongEndpoint")
    assert URL in error.message


def test_a_good_answer_that_is_no_json_is_a_wrong_endpoint_too() -> None:
    with pytest.raises(ServiceError, match="does not speak"):
        arm_protocol.parse_object("<html>", URL)
    assert arm_protocol.parse_object("", URL) == {}


def test_an_error_of_storage_is_read_from_its_xml() -> None:
    hint = "<batchaiHint>wait</batchaiHint>"
    text = f"\ufeff<Error><Code>ShareInUse</Code><Message>busy\nRequestId:1</Message>{hint}</Error>"
    error = arm_protocol.storage_error(409, text, "")
    assert (type(error), error.code, error.message, error.hint) == (
        ConflictError,
        "ShareInUse",
        "busy",
        "wait",
    )


@pytest.mark.parametrize("text", ["", "<", "<!DOCTYPE x [<!ENTITY a 'b'>]><Error>&a;</Error>"])
def test_an_error_of_storage_without_a_body_has_its_code_from_the_header(text: str) -> None:
    assert arm_protocol.storage_error(404, text, "ShareNotFound").code == "ShareNotFound"


NOTHING = """DefaultAzureCredential failed to retrieve a token from the included credentials.
Attempted credentials:
\tEnvironmentCredential: EnvironmentCredential authentication unavailable. Environment variables are not set.
\tAzureCliCredential: Azure CLI not found on path"""
EXPIRED = NOTHING.replace(
    "Azure CLI not found on path", "ERROR: AADSTS700082: The refresh token has expired."
)


@pytest.mark.parametrize(
    ("message", "code", "said"),
    [
        (NOTHING, "NoCredentials", "no credentials of Azure"),
        (EXPIRED, "SignInRefused", "AADSTS700082: The refresh token has expired."),
        ("Authentication failed: Unable to get authority", "SignInRefused", "Unable to get authority"),
        ("Authentication failed: Connection timed out", "EndpointUnreachable", "Connection timed out"),
    ],
)
def test_a_sign_in_that_fails_says_why(message, code, said):
    error = arm_protocol.sign_in_error(message)
    assert (error.code, said in error.message) == (code, True)


# -- pages


LIST = ArmRequest("GET", "/list", {"$filter": "x"})


def page(*names: str, next: str = "") -> dict:
    link = {"nextLink": f"https://elsewhere.example/list?api-version=1&{next}"} if next else {}
    return {"value": [{"name": name} for name in names], **link}


def test_all_items_come_whatever_the_spelling_of_the_token() -> None:
    connection = ScriptedConnection(
        page("a", "b", next="%24skiptoken=2"), page("c", next="$SkipToken=3%2B"), page(), page("never")
    )
    assert [item["name"] for item in list_items(connection, LIST)] == ["a", "b", "c"]
    assert [request.query for request in connection.requests] == [
        {"$filter": "x"},
        {"$filter": "x", "$skiptoken": "2"},
        {"$filter": "x", "$skiptoken": "3+"},
    ]
    assert {request.path for request in connection.requests} == {"/list"}  # never to the link's host


def test_next_page_is_requested_only_when_it_is_read() -> None:
    connection = ScriptedConnection(page("a", next="$skiptoken=2"))
    (first,) = islice(list_pages(connection, LIST, "1", 7), 1)
    assert ([item["name"] for item in first.items], first.next) == (["a"], "2")
    assert connection.requests[0].query == {"$filter": "x", "maxresults": "7", "$skiptoken": "1"}


def test_a_list_that_leads_to_itself_ends() -> None:
    connection = ScriptedConnection(page("a", next="$skiptoken=2"), page("b", next="$skiptoken=2"))
    assert [item["name"] for item in list_items(connection, LIST)] == ["a", "b"]


def test_what_is_no_item_is_left_out_and_a_list_of_nothing_is_empty() -> None:
    odd = {"value": [{"name": "a"}, None, "b", 3], "nextLink": None}
    assert list(list_items(ScriptedConnection(odd), LIST)) == [{"name": "a"}]
    for nothing in ({}, {"value": None}, {"value": [], "nextLink": "https://host/list"}):
        assert list(list_items(ScriptedConnection(nothing), LIST)) == []
