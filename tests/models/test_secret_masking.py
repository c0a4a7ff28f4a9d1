"""Texts without secrets: known values, keys and tokens, and the values of what is named like a secret."""

import pytest

from batchai_magics.models.secret_masking import SecretMask, is_secret_name

TOKEN = "hf_" + "a1B2" * 6


@pytest.mark.parametrize("name", ["password", "HF_TOKEN", "api_key", "db-password", "AWS_SECRET_ACCESS_KEY"])
def test_a_name_tells_a_secret(name):
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["tokens", "key", "passwords_file", "keyboard", "epochs"])
def test_other_names_are_no_secrets(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("x = 'correct horse'", "x = '***'"),
        (f"login({TOKEN!r})", "login('***')"),
        ("git clone https://me:pw@host/x", "git clone https://***@host/x"),
        ('api_key = "abcdef"', 'api_key = "***"'),
        ('+  "password": "pw",', '+  "password": "***",'),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n", "***\n"),
        ("token = get_token()", "token = get_token()"),
        ("model = 'resnet50'", "model = 'resnet50'"),
    ],
)
def test_secrets_in_code_are_masked(text, masked):
    assert SecretMask(["correct horse", "ab"])(text) == masked


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("--lr 0.1 --hf-token abc --x", "--lr 0.1 --hf-token *** --x"),
        ("--api-key=abcd e", "--api-key=*** e"),
        ("API_KEY=foo python a.py", "API_KEY=*** python a.py"),
        ("--password 'a b' x", "--password *** x"),
        ("--secret HF_TOKEN --max-token 512", "--secret HF_TOKEN --max-token 512"),
    ],
)
def test_secrets_on_a_command_line_are_masked(line, masked):
    assert SecretMask().line(line) == masked


def test_a_longer_secret_is_masked_whole_where_another_is_its_beginning():
    assert SecretMask(["hush", "hush-hush"])("say hush-hush") == "say ***"
