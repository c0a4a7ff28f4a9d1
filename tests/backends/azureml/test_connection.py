"""The connection survives throttling, faults and expired tokens, and says what it cannot survive."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from batchai_magics import user_ports
from batchai_magics.backends.azure import bounded_transport
from batchai_magics.errors import ServiceError, UnreachableError
from tests.azureml.faults import CUT_REQUEST, refusal
from tests.azureml.workspace import ROOT


@pytest.mark.parametrize("fault", [refusal(429, retry_after="0"), refusal(503), CUT_REQUEST])
def test_a_request_that_fails_twice_is_repeated(connection, azure, fault):
    azure.faults.add(fault, f"{ROOT}$", count=1)
    assert connection.workspace.location == "eastus"
    assert len(azure.faults.happened) == 1


def test_a_service_that_keeps_refusing_is_unreachable(connection, azure):
    azure.faults.add(refusal(503), f"{ROOT}$", count=99)
    with pytest.raises(UnreachableError):
        _ = connection.workspace


def test_a_token_that_expires_is_renewed_unnoticed(connection, azure, start):
    start("one")
    azure.sign_in.expire_all()
    connection._credential._chosen = None  # the library renews by its clock, which does not know
    assert connection.history_json("runs/one/details")["status"] == "Running"


def test_missing_credentials_say_how_to_sign_in(connection, azure, monkeypatch):
    for name in ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")  # nothing else is tried
    with pytest.raises(ServiceError, match="no credentials of Azure") as caught:
        _ = connection.workspace
    assert "az login" in caught.value.hint


FAILURES = [
    ("AZURE_CLIENT_SECRET", "wrong", "Azure refuses the sign-in: .*AADSTS7000215", "AZURE_CLIENT_SECRET"),
    ("HTTPS_PROXY", "http://127.0.0.1:9", "through the proxy: nothing is listening there", "HTTPS_PROXY"),
    ("REQUESTS_CA_BUNDLE", "/nope.pem", "there are no certificates in /nope.pem", "REQUESTS_CA_BUNDLE"),
]


@pytest.mark.parametrize(("name", "value", "reason", "advice"), FAILURES)
@pytest.mark.parametrize("is_interactive", [True, False])
def test_a_sign_in_that_fails_says_why(
    connection, azure, monkeypatch, name, value, reason, advice, is_interactive
):
    prompt = print if is_interactive else None
    monkeypatch.setattr(user_ports.PROMPT, "get", lambda: prompt)  # nobody is asked for a code
    monkeypatch.setenv(name, value)
    with pytest.raises(ServiceError, match=reason) as caught:
        _ = connection.workspace
    assert advice in caught.value.hint
    assert "no credentials" not in str(caught.value)


@pytest.mark.parametrize(("name", "value", "reason", "advice"), FAILURES[1:])
def test_a_request_that_fails_says_why(connection, azure, monkeypatch, name, value, reason, advice):
    connection._credential.get_token("https://management.azure.com/.default")
    monkeypatch.setenv(name, value)
    with pytest.raises(UnreachableError, match=reason) as caught:
        _ = connection.workspace
    assert advice in caught.value.hint


def test_a_list_goes_on_over_its_pages(connection, azure, start):
    azure.jobs.page = 2
    for name in "abcde":
        start(name)
    found = connection.items(connection.request("GET", "jobs", query={"listViewType": "ActiveOnly"}))
    assert [item["name"] for item in found] == ["e", "d", "c", "b", "a"]


def test_a_log_is_read_from_an_offset_without_a_token(connection, azure, start):
    start("one")
    azure.write_log("one", "user_logs/std_log.txt", b"hello\n")
    url = connection.history_json("runs/one/details")["logFiles"]["user_logs/std_log.txt"]
    found = connection.read_blob(url, 2, 3)
    assert (found.data, found.size, found.modified is None) == (b"llo", 6, False)
    assert connection.read_blob(url, 6, 10).data == b""
    assert "Authorization" not in azure.exchanges[-1].request.headers


USE = """
import sys, time
import batchai_magics
from batchai_magics.backends.base.backend_registry import load_settings, open_backend
settings = load_settings()
assert not [name for name in sys.modules if name.split(".")[0] == "azure"], "azure is loaded"
"""


@pytest.mark.slow
def test_no_module_of_azure_is_loaded_before_it_is_used():
    env = {**os.environ, "BATCHAI_BACKEND": "azureml"}
    subprocess.run([sys.executable, "-c", USE], env=env, check=True)


def test_a_response_over_the_limit_is_refused(connection, monkeypatch, start):
    start("one", tags={"note": "x" * 2000})
    monkeypatch.setattr(bounded_transport, "MAX_RESPONSE_BYTES", 2000)
    with pytest.raises(ServiceError, match="sends more than"):
        connection.request_json(connection.request("GET", "jobs/one"))
