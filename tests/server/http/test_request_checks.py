"""What is rejected before a body is read and a handler runs, each check alone."""

from __future__ import annotations

from typing import Any

import pytest

from batchai_magics.server.access.access_control import Authenticator, token_digest
from batchai_magics.server.api_call import ApiCall, ApiError, ApiResponse, User
from batchai_magics.server.http.request_bodies import BodySender
from batchai_magics.server.http.request_checks import (
    ApiVersionCheck,
    Authentication,
    HostCheck,
    UrlEncodingCheck,
)
from tests.server.http.scopes import ask, responding, scope_of

GATE = Authenticator("own", ["team"], lambda: {token_digest("hers"): "ann"})
PASSED = ApiResponse(data="passed")


def passed(_: dict[str, Any]) -> ApiResponse:
    return PASSED


def rejected(app: Any, scope: dict[str, Any]) -> tuple[int, str]:
    """Status and code of the error that a check raises."""
    with pytest.raises(ApiError) as caught:
        ask(app, scope)
    return caught.value.status, caught.value.code


@pytest.mark.parametrize("host", ["team", "TEAM:80", "127.0.0.1", "local.file.localhost"])
def test_a_host_of_the_server_is_let_in(host: str) -> None:
    assert ask(HostCheck(responding(passed), GATE), scope_of(host=host)) is PASSED


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {}])
def test_another_host_and_none_is_rejected(headers: dict[str, str]) -> None:
    assert rejected(HostCheck(responding(passed), GATE), scope_of(**headers)) == (421, "MisdirectedRequest")


def test_a_url_that_is_not_utf_8_is_rejected() -> None:
    check = UrlEncodingCheck(responding(passed))
    assert ask(check, scope_of(path="/%C3%A9", query="a=%C3%A9")) is PASSED
    for scope in (scope_of(path="/%FF"), scope_of(query="a=%FF"), scope_of(query="%FF=a")):
        assert rejected(check, scope) == (400, "InvalidUri")


def test_who_has_a_token_is_the_user_the_caller_and_the_sender_of_the_body() -> None:
    scope = scope_of(path="/Some", query="A=b", authorization="Bearer hers")
    scope["path_params"] = {"group": "g"}
    assert ask(Authentication(responding(passed), GATE), scope) is PASSED
    call: ApiCall = scope["call"]
    assert (scope["user"], call.user) == (User("ann"), User("ann"))
    assert (call.method, call.path, call.query, call.parts) == ("GET", "/Some", {"a": "b"}, {"group": "g"})
    assert scope["sender"] == BodySender("ann", "127.0.0.9")


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({}, "AuthenticationFailed"),
        ({"authorization": "Basic hers"}, "AuthenticationFailed"),
        ({"authorization": "Bearer another"}, "InvalidAuthenticationToken"),
    ],
)
def test_who_has_no_token_is_rejected_and_gets_no_further(header: dict[str, str], code: str) -> None:
    scope = scope_of(**header)
    assert rejected(Authentication(responding(passed), GATE), scope) == (401, code)
    assert not {"user", "call", "sender"} & scope.keys()


def of_version(query: str, *, is_batchai: bool) -> tuple[Any, dict[str, Any]]:
    """The check, and the scope of a call with that version."""
    scope = scope_of()
    path = "/subscriptions/s/providers/Microsoft.BatchAI/workspaces/w/Jobs/j"
    scope["call"] = ApiCall("GET", path, {"api-version": query} if query else {})
    return ApiVersionCheck(responding(passed), location="here", is_batchai=is_batchai), scope


@pytest.mark.parametrize(
    ("version", "is_batchai"), [("2018-05-01", True), ("2018-05-01", False), ("2019-06-01-Preview", False)]
)
def test_a_supported_version_passes(version: str, is_batchai: bool) -> None:
    assert ask(*of_version(version, is_batchai=is_batchai)) is PASSED


@pytest.mark.parametrize(
    ("version", "is_batchai", "code"),
    [
        ("", True, "MissingApiVersionParameter"),
        ("", False, "MissingApiVersionParameter"),
        ("2017-09-01-preview", True, "NoRegisteredProviderFound"),
        ("x2018-05-01", False, "InvalidApiVersionParameter"),
        ("2018-05-01x", False, "InvalidApiVersionParameter"),
    ],
)
def test_another_version_is_rejected(version: str, is_batchai: bool, code: str) -> None:
    assert rejected(*of_version(version, is_batchai=is_batchai)) == (400, code)


def test_the_error_of_a_version_names_the_type_and_what_is_supported() -> None:
    with pytest.raises(ApiError, match=r"'here' .*'2017-01-01' for type 'workspaces/jobs'.* '2018-05-01'\."):
        ask(*of_version("2017-01-01", is_batchai=True))
