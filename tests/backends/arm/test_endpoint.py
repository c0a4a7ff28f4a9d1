"""Where a token may go is checked before anything is sent."""

from __future__ import annotations

import pytest

from batchai_magics.backends.arm.connection import Endpoint
from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.base.backend_registry import load_settings, open_backend
from batchai_magics.errors import UsageError


def endpoint(url: str, **more: str) -> Endpoint:
    return Endpoint.of(ArmSettings(endpoint=url, **more))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:10000",
        "http://localhost:10000/",
        "http://[::1]:10000",
        "https://jobs.example.org",
        "https://management.azure.com",
    ],
)
def test_loopback_may_be_plain_and_others_are_encrypted(url: str) -> None:
    assert endpoint(url).url == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    ["http://jobs.example.org", "http://10.0.0.1:10000", "http://127.0.0.1.example.org", "http://0.0.0.0"],
)
def test_plain_http_elsewhere_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="plain http") as caught:
        endpoint(url)
    assert "https" in caught.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "jobs.example.org",
        "ftp://x",
        "https://",
        "https://a:b@c",
        "https://x/?a=b",
        "https://x:0",
        "https://x:y",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not an endpoint"):
        endpoint(url)


def test_without_an_endpoint_it_says_how_to_give_one() -> None:
    with pytest.raises(UsageError, match="has no endpoint") as caught:
        endpoint("")
    assert "BATCHAI_ENDPOINT" in caught.value.hint


def test_a_missing_authority_is_named() -> None:
    with pytest.raises(UsageError, match=r"arm\.authority: /nowhere"):
        endpoint("https://x", authority="/nowhere")


def test_the_lines_that_a_server_prints_choose_it(tmp_path) -> None:
    env = {"BATCHAI_BACKEND": "arm", "BATCHAI_ENDPOINT": "http://127.0.0.1:1", "BATCHAI_TOKEN": "hush"}
    settings = load_settings(env, path=tmp_path / "none")
    own = settings.for_backend(ArmSettings)
    assert (own.endpoint, own.token) == ("http://127.0.0.1:1", "hush")
    backend = open_backend(settings)
    assert "hush" not in repr(settings) + repr(own) + repr(vars(backend))
    backend.close()


def test_no_proxy_leads_to_this_machine() -> None:
    assert endpoint("http://127.0.0.1:1").transport()["use_env_settings"] is False
    assert endpoint("https://jobs.example.org").transport()["use_env_settings"] is True


def test_the_authority_of_a_server_is_trusted(tmp_path, monkeypatch) -> None:
    file = tmp_path / "ca.pem"
    file.touch()
    assert endpoint("https://x", authority=str(file)).transport()["connection_verify"] == str(file)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/there")
    assert endpoint("https://x").transport()["connection_verify"] == "/there"
