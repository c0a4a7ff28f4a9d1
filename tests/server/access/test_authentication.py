"""Who is let in by which token, and by which names of the server."""

from __future__ import annotations

import pytest

from batchai_magics.errors import BatchAIError
from batchai_magics.server.access.access_control import Authenticator, token_digest
from batchai_magics.server.api_call import User

GATE = Authenticator(
    "the-own",
    ["Jobs.Example.org"],
    lambda: {token_digest("the-first's"): "first", token_digest("b"): "second"},
)


@pytest.mark.parametrize(
    ("header", "user"),
    [
        ("Bearer the-own", User("admin", is_admin=True)),
        ("bearer  the-own ", User("admin", is_admin=True)),
        ("Bearer the-first's", User("first")),
        ("BEARER b", User("second")),
    ],
)
def test_a_token_says_who_calls_and_only_the_servers_own_is_the_administrators(
    header: str, user: User
) -> None:
    assert GATE.authenticate(header) == user


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("", "AuthenticationFailed"),
        ("Bearer", "AuthenticationFailed"),
        ("Bearer  ", "AuthenticationFailed"),
        ("Basic the-own", "AuthenticationFailed"),
        ("the-own", "AuthenticationFailed"),
        ("Bearer the-ow", "InvalidAuthenticationToken"),
        ("Bearer first", "InvalidAuthenticationToken"),
        (f"Bearer {token_digest('the-own')}", "InvalidAuthenticationToken"),
    ],
)
def test_other_authorization_headers_are_refused(header: str, code: str) -> None:
    with pytest.raises(BatchAIError) as caught:
        GATE.authenticate(header)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("127.0.0.1", True),
        ("LocalHost:8000", True),
        ("[::1]:8000", True),
        ("jobs.example.org:443", True),
        ("JOBS.example.org", True),
        ("acct.file.localhost", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_the_server_answers_to_its_own_names_alone(host: str, is_known: bool) -> None:
    assert GATE.accepts_host(host) is is_known
