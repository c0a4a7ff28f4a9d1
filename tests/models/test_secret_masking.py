"""Texts without secrets: known values, keys and tokens, and the values of what is named like a secret."""

import base64
import json
import textwrap
import time
import urllib.parse

import pytest

from batchai_magics.models.secret_masking import SecretMask, encodings, is_secret_name, is_secret_text

TOKEN = "hf_" + "a1B2" * 6


@pytest.mark.parametrize(
    "name",
    [
        *("password", "HF_TOKEN", "api_key", "db-password", "AWS_SECRET_ACCESS_KEY", "MYPASSWORD", "DB_PASS"),
        *(
            "AccountKey",
            "accessToken",
            "clientSecret",
            "GITHUBTOKEN",
            "SharedAccessKey",
            "passphrase",
            "PGPASS",
        ),
    ],
)
def test_a_name_tells_a_secret(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("tokens", "key", "passwords_file", "keyboard", "epochs", "eos_token", "max_token", "tokenizer"),
        *("single_pass", "compass", "monkey", "secretary", "author"),
    ],
)
def test_names_like_those_of_secrets_are_not_secret(name):
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


# A text of each kind, with the secret between « and ».
WRITTEN = {
    "shared access signature": "https://acc.blob.core.windows.net/c?sv=2019-02-02&sig=«aB3%2FcD4%2BeF5gH6%3D»&se=2030",
    "signature alone": "sig=«aB3%2FcD4%2BeF5gH6iJ7kL8%3D»",
    "bearer token": "Authorization: Bearer «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln»",
    "opaque bearer token": "curl -H 'Authorization: Bearer «a1b2c3d4e5»' https://host",
    "connection string": "AccountName=a;AccountKey=«Zm9v+YmFy/cXV4==»;EndpointSuffix=b",
    "glued name": "MYPASSWORD=«correcthorse»",
    "short name": "export DB_PASS=«correcthorse»",
    "variable": "API_TOKEN=«correcthorse»",
    "yaml": "password: «correcthorse»",
    "yaml in quotes": "  db_password: '«correct horse»'",
    "login of a URL": "https://user:«p@ss/word»@host/path",
    "token of a URL": "git clone https://«a1b2c3d4e5f6»@github.com/me/it",
    "parameter of a URL": "https://host/x?private_token=«correcthorse»&page=2",
    "json": '{"token": "«correcthorse»", "x": 1}',
    "json in json": '{"body": "{\\"token\\": \\"«correcthorse»\\"}"}',
    "ini": "aws_secret_access_key = «wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»",
    "python": 'api_key: str = "«correcthorse»"',
    "environ": "os.environ['HF_TOKEN'] = '«correcthorse»'",
    "job file": '{"name": "DB_PASSWORD", "value": "«correcthorse»"}',
    "netrc": "machine host login me password «correcthorse»",
    "AWS": "«AKIAIOSFODNN7EXAMPLE»",
    "GitHub": "«ghp_0123456789abcdefghijABCDEFGHIJ012345»",
    "GitLab": "«glpat-0123456789abcdefghij»",
    "Google": "«AIzaSyA0123456789abcdefghijklmnopqrstuv»",
    "Hugging Face": "«hf_0123456789abcdefghij»",
    "npm": "//npm.example.org/:_authToken=«0123456789abcdef»",
    "OpenAI": "«sk-proj-0123456789abcdefghij»",
    "PyPI": "«pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAw»",
    "Slack": "«xoxb-0123456789-abcdefghij»",
    "Stripe": "«sk_live_0123456789abcdefghij»",
    "private key": "«-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----»",
}
MASK_OF = SecretMask()
PLACES = {
    "a script": lambda text: MASK_OF(f"# before\n{text}\n# after\n"),
    "a diff": lambda text: MASK_OF("@@ -1 +1 @@\n" + textwrap.indent(text, "+")),
    "a command line": lambda text: MASK_OF.line(text),
    "a log": lambda text: MASK_OF.blank(f"before\n{text}\nafter\n".encode()).decode(),
    "a record": lambda text: json.dumps(MASK_OF.data({"lines": [{"text": text}]})),
    "a parameter": lambda text: str(MASK_OF.named("note", text)),
}


def split_up(written):
    """A text and its secret."""
    before, _, rest = written.partition("«")
    secret, _, after = rest.partition("»")
    return f"{before}{secret}{after}", secret


@pytest.mark.parametrize("place", PLACES)
def test_no_place_shows_a_secret(place):
    for kind, written in WRITTEN.items():
        text, secret = split_up(written)
        shown = PLACES[place](text)
        assert not [piece for piece in secret.split("\n") if piece in shown], kind
        assert "***" in shown, kind


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_log_keeps_its_length_and_lines(kind):
    data = split_up(WRITTEN[kind])[0].encode()
    blanked = MASK_OF.blank(data)
    assert [len(line) for line in blanked.split(b"\n")] == [len(line) for line in data.split(b"\n")]


@pytest.mark.parametrize(
    "text",
    [
        "token = get_token()",
        "login(token=token, password=args.password)",
        "def f(password: str, token: str | None = None):",
        "export HF_TOKEN=$OTHER",
        "https://medium.com/@user/a-post and https://host:8080/@scope/x",
        "tokens: 512, token: 3, eos_token = '</s>'",
        "see the Basic functionality; loss = 0.5; accuracy: 0.9",
        "step 10/100 sig=0.5 key=value",
        "design=0123456789abcdefghijklmn, a forbearer 0a1b2c3d, asbasic 0123456789",
        '"integrity": "sha512-' + "a" * 86 + '=="',
    ],
)
def test_code_numbers_and_words_stay_as_they_are(text):
    assert MASK_OF.line(text) == text
    assert not is_secret_text(text)


def test_even_a_short_token_of_npm_looks_like_a_secret():
    assert is_secret_text("//npm.example.org/:_authToken=a1")


SECRET = "cörrect/horse+battery staple" * 4


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: json.dumps(text),
        lambda text: json.dumps(text).replace("/", "\\/"),
        lambda text: urllib.parse.quote(text),
        lambda text: urllib.parse.quote(text, safe="").lower(),
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.encodebytes(text.encode()).decode(),
        lambda text: "\n".join(textwrap.wrap(base64.b64encode(f"{text}\n".encode()).decode(), 64)),
        lambda text: base64.b64encode(f"user:{text}".encode()).decode(),
    ],
)
def test_a_known_value_is_found_in_every_encoding(encode):
    shown = SecretMask([SECRET])(f"it is {encode(SECRET)} here").removeprefix("it is ").removesuffix(" here")
    rest = shown.replace("***", "").strip('"\n =')
    assert len(rest) < 12, rest
    assert any(form.decode() in encode(SECRET) for form in encodings(SECRET))


@pytest.mark.parametrize("text", ["a", "a-", "x=", '"', "token: ", "://", "https://a:", "name: a value "])
def test_the_time_is_linear_in_the_text(text):
    def steps(size):
        times = []
        for _ in range(3):
            began = time.process_time()
            MASK_OF.line(text * size)
            times.append(time.process_time() - began)
        return min(times)

    assert steps(5_000) < 40 * max(steps(500), 1e-3)


def test_a_long_value_is_masked_to_its_end():
    text = f"API_TOKEN={'x' * 5000} y"
    assert MASK_OF.line(text) == "API_TOKEN=*** y"
    assert MASK_OF.blank(text.encode()) == text.replace("x", "*").encode()


def test_pairs_and_names_in_json_are_masked():
    data = {
        "environmentVariables": [{"name": "DB_PASS", "value": "x y"}],
        "apiKey": 5,
        "ok": None,
    }
    assert MASK_OF.data(data) == {
        "environmentVariables": [{"name": "DB_PASS", "value": "***"}],
        "apiKey": "***",
        "ok": None,
    }
