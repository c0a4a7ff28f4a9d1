"""What is rejected before a body is read and a handler runs, each check alone."""

from __future__ import annotations

import pytest

from batchai_magics.server.api_call import ApiCall, ApiError
from batchai_magics.server.http.request_checks import check_api_version, parse_head
from tests.server.http.scopes import request_of


def test_a_call_has_the_head_of_its_request() -> None:
    call = parse_head(request_of("PUT", "/Some/%C3%A9", "A=%C3%A9", X_More="1", host="here"))
    assert (call.method, call.path, call.query) == ("PUT", "/Some/%C3%A9", {"a": "é"})
    assert (call.headers["x-more"], call.origin, call.user.is_admin) == ("1", "http://here", False)


@pytest.mark.parametrize(("path", "query"), [("/%FF", ""), ("/", "a=%FF"), ("/", "%FF=a")])
def test_a_url_that_is_not_utf_8_is_rejected(path: str, query: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_head(request_of(path=path, query=query))
    assert (caught.value.status, caught.value.code) == (400, "InvalidUri")


JOB = "/subscriptions/s/providers/Microsoft.BatchAI/workspaces/w/Jobs/j"
GROUP = "/subscriptions/s/resourceGroups/g"


def check(version: str, path: str = JOB) -> None:
    call = ApiCall("GET", path, {"api-version": version} if version else {})
    check_api_version(call, "here", is_batchai=path == JOB)


def test_a_supported_version_passes() -> None:
    check("2018-05-01", JOB)
    check("2018-05-01", GROUP)
    check("2019-06-01-Preview", GROUP)


@pytest.mark.parametrize(
    ("version", "path", "code"),
    [
        ("", JOB, "MissingApiVersionParameter"),
        ("", GROUP, "MissingApiVersionParameter"),
        ("2017-09-01-preview", JOB, "NoRegisteredProviderFound"),
        ("x2018-05-01", GROUP, "InvalidApiVersionParameter"),
        ("2018-05-01x", GROUP, "InvalidApiVersionParameter"),
    ],
)
def test_another_version_is_rejected(version: str, path: str, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        check(version, path)
    assert (caught.value.status, caught.value.code) == (400, code)


def test_the_error_of_a_version_names_the_type_and_what_is_supported() -> None:
    with pytest.raises(ApiError, match=r"'here' .*'2017-01-01' for type 'workspaces/jobs'.* '2018-05-01'\."):
        check("2017-01-01")
