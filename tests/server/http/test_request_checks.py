"""What is rejected before a body is read and a handler runs, each check alone."""

from __future__ import annotations

import pytest

from batchai_magics.server.api_call import ApiCall, ApiError
from batchai_magics.server.http.request_checks import check_api_version

JOB = "/subscriptions/s/providers/Microsoft.BatchAI/workspaces/w/Jobs/j"
GROUP = "/subscriptions/s/resourceGroups/g"


def check(version: str, path: str = JOB) -> None:
    call = ApiCall("GET", path, {"api-version": version} if version else {})
    check_api_version(call, "here", is_batchai=path == JOB)


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
