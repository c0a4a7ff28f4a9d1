"""Finds what looks like a secret, and masks it in texts that are shown, stored or sent beside a job.

Tables list the names of secrets, the formats of keys and tokens, and the encodings in which a known value may
be printed. The formats are those that detect-secrets documents, and those of services that it lacks.
Standard library only, since nodes use it too; patterns are compiled when they are first used.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import translate
from functools import cache, lru_cache
from typing import Any

MASK = "***"
MIN_LENGTH = 4  # of a known secret that is masked: shorter ones occur in any text
MIN_ENCODED = 6  # bytes of an encoded value that is searched for: shorter ones match by chance

# --- names: of variables, options, keys, columns; in lower case with underscores

_NAMES = (
    # wherever a name ends with them: MYPASSWORD
    r"password|passwd|passphrase|secret|(?:api|access|account|private|secret|auth|client|shared_access)_?key",
    r"(?:access|auth|api|bearer|refresh|id|hf|github|gitlab|secret)_?token|connection_?string",
    # as a word
    r"(?:^|_)(?:token|pwd|passw|credentials?|authorization|auth|apikey|jwt|dsn)",
    r"(?:^|_)(?:master|storage|encryption|signing|subscription|deploy|license|ssh|session|function|host)_?key",
    r"(?:^|_)(?:db|database|my|user|admin|root|mysql|postgres|pg|redis|smtp|mail|ftp|proxy|login)_?(?:pass|pw)",
)
_OTHER_TOKENS = (  # of language models, not of services
    r"(?:^|_)(?:bos|eos|pad|unk|sep|cls|mask|stop|special|image|audio|video|start|end|next|last|first|new|max|min"
    r"|num|per|prefix|suffix|decoder_start)_token"
)
_SHORT_NAMES = r"(?:^|_)PASS$"  # `pass` in lower case is of an epoch
_IN_URLS = frozenset(
    ("sig", "signature", "key", "code", "x_amz_signature", "x_amz_credential", "x_goog_signature")
)
_CAMEL_CASE = r"(?<=[a-z0-9])(?=[A-Z])"

# --- formats: of keys and tokens that are recognized without a name

WORD_FORMATS: Mapping[str, str] = {  # at the beginning of a word
    "Artifactory": r"AKC[a-zA-Z0-9]{10,}|AP[0-9A-F][a-zA-Z0-9]{30,}\b",
    "AWS access key": r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}\b",
    "Databricks": r"dapi[a-f0-9]{32}(?:-\d)?\b",
    "Discord": r"[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\.[a-zA-Z\d_-]{27,}",
    "GitHub": r"(?:ghp|gho|ghu|ghs|ghr)_\w{16,}|github_pat_\w{16,}",
    "GitLab": r"(?:glpat|gldt|glft|glsoat|glrt|glcbt|glptt|glimt|GR1348941)[_-][\w-]{16,}",
    "Google": r"AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{16,}",
    "Hugging Face": r"hf_\w{16,}",
    "JSON web token": r"eyJ[\w-]{5,}(?:\.[\w-]+){0,2}",
    "Mailchimp": r"[0-9a-z]{32}-us[0-9]{1,2}\b",
    "npm": r"npm_[A-Za-z0-9]{36}",
    "OpenAI and Anthropic": r"sk_\w{16,}|sk-(?:\w{16,}|(?:proj|ant|svcacct|admin)-[\w-]{16,})",
    "PyPI": r"pypi-[\w-]{16,}",
    "SendGrid": r"SG\.[\w-]{22}\.[\w-]{43}",
    "Slack": r"xox[abposre]-[\w-]{10,}|xox[abp]_\w{16,}",
    "Square": r"sq0(?:csp|atp)-[\w-]{22,}",
    "Stripe": r"[rs]k_(?:live|test)_[0-9a-zA-Z]{16,}",
    "Telegram": r"\d{8,10}:[0-9A-Za-z_-]{35}\b",
    "Twilio": r"(?:AC|SK)[a-f0-9]{32}\b",
}
OTHER_FORMATS: Mapping[str, str] = {
    "Azure storage key": r"(?<![\w+/-])[a-zA-Z0-9+/]{86}==",
    "npm": r"(?<=:_authToken=)\S+",
    "Slack": r"hooks\.slack\.com/services/\S+",
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
}
_BEGINNING = r"\S{8}|(?<=:_authToken=)"  # of each format: a quick test that most positions in a text fail

# --- where a text assigns a value to a name; the group `value` is the secret, if `name` is one's
# Patterns begin with letters, and look back from there: `re` finds letters much faster than a boundary.

_ASSIGNMENT = (  # name = value, "name": "value", \"name\": \"value\", e["NAME"] = "value", name: str = …
    r"(?P<name>[A-Za-z_](?<![\w.-].)[\w.-]{0,80})(?=[\\\"'\] \t:=])"
    r"(?P<sign>\\?[\"']?\]?[ \t]{0,8}(?::[ \t]*(?:str|bytes|Final|Any)[\w |\[\]]{0,20}=|:=|=>|[:=])(?!=)"
    r"[ \t]{0,8}(?:[bfru]{1,2}(?=[\"']))?)"
    r"(?:(?P<quote>\\?[\"'])(?P<value>(?:(?!(?P=quote))[^\n]){1,2000})(?P=quote)|(?P<bare>[^\s\"'\\,;&)\]}]{1,300})(?=(?P<after>.?)))"
)
_PATTERNS = (
    # a variable of a job file: {"name": "API_TOKEN", "value": "…"}
    r"name(?<=\bname)\\?[\"']?:\s*\\?[\"']?(?P<name>[\w.-]{1,80})\\?[\"']?\s*,?\s*\\?[\"']?value\\?[\"']?:\s*"
    r"(?:(?P<quote>\\?[\"'])(?P<value>(?:(?!(?P=quote))[^\n]){1,2000})(?P=quote)|(?P<plain>[^\s\"',}]+))",
    # a variable in quotes: --env "DB_PASS=a b"
    r"(?P<quote>[\"'])(?P<name>[A-Za-z_]\w{0,80})=(?P<value>[^\"'\n]+)(?P=quote)",
    # a parameter of an address: ?private_token=…&sig=…
    r"(?<=[?&;])(?P<name>[\w.\[\]-]{1,60})=(?P<value>[^&\s\"'<>;#]+)",
)
_ALWAYS = (
    # the login of an address, which may hold @ and /; a port is not a secret
    r"(?<=://)(?P<value>(?![\w.-]+:\d+(?:/|\s|$))[^\s/:@'\"]{0,300}:[^\s'\"<>?]{0,300}(?=@)"
    r"|[^\s/:@'\"]{1,300}(?=@))",
    r"Authorization(?<=\bAuthorization)\\?[\"']?\s*[:=]\s*\\?[\"']?(?:[A-Za-z-]+[ ]+)?"
    r"(?P<value>[^\s\"'\\,]+)",
    r"[Bb]earer(?<=\b.earer)\s+(?P<value>(?=\S*\d)[\w.~+/=-]{6,})",
    r"[Bb]asic(?<=\b.asic)\s+(?P<value>(?=\S*[\d=])[A-Za-z0-9+/]{8,}={0,2})",
    r"sig=(?<=\bsig=)(?P<value>[\w%+/=-]{20,})",
    r"login(?<=\blogin)\s+\S+\s+password\s+(?P<value>\S+)",
)
_OPTION = (  # of a command line: --api-key …
    r"(?<![\w-])--?(?P<name>[A-Za-z][\w-]{0,80})(?:[ \t]+|=)"
    r"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|(?!--)[^\s\"']+)"
)
_CODE = r"[A-Za-z_][\w.]*"
_NO_VALUE = (
    r"(?i)[$<{%*]|.*[(\[]"
    r"|(?:str|bytes|int|float|bool|Any|None|null|true|false|Optional|Union|SecretStr|string|object)\b"
)
_MAX_BARE = 300  # characters of a value without quotes that its pattern matches
_NUMBER = r"[\d.]+"
_PLAIN_IN_URLS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_HEX = ("%%%02X", "%%%02x")
_LINE_WIDTHS = (76, 64)  # columns of MIME and of PEM
Cover = Callable[[str], str]
_SECRET_FILES = (  # of a file, or of a folder that it is in
    *(".env*", ".netrc", ".pypirc", ".npmrc", ".git-credentials", "kaggle.json", "credentials*"),
    *("id_*", "*.pem", "*.key", "*.p12"),
    *(".aws", ".ssh", ".kube"),
)
_HARMLESS_FILES = (".env.example",)
_SECRET_FOLDER = ".config/gcloud/"


@lru_cache  # a text has the same names again and again
def is_secret_name(name: str) -> bool:
    """Whether a variable, option, key or column of that name holds a secret."""
    if _compiled(_SHORT_NAMES).search(name):
        return True
    words = (
        _compiled(_CAMEL_CASE).sub("_", name).replace("-", "_").replace(".", "_").replace(" ", "_").lower()
    )
    return _compiled(f"(?:{'|'.join(_NAMES)})$").search(words) is not None and not _compiled(
        f"(?:{_OTHER_TOKENS})$"
    ).search(words)


def is_secret_text(text: str) -> bool:
    """Whether a text contains what looks like a key or token."""
    return _formats().search(text) is not None


def encodings(value: str) -> list[bytes]:
    """A value as it is, and as JSON, Python, URLs and base64 encode it, also inside longer strings."""
    data = os.fsencode(value)
    texts = [json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value)]
    texts += [text.replace("/", "\\/") for text in texts[:2]]
    quoted = ["".join(chr(byte) if byte in _PLAIN_IN_URLS else form % byte for byte in data) for form in _HEX]
    quoted += [text.replace("%2F", "/").replace("%2f", "/") for text in quoted]  # like `urllib.parse.quote`
    base64 = [_base64(data), _base64(data + b"\n")]  # the second like `echo $TOKEN | base64`
    wrapped = [
        text[start : start + width]
        for text in base64
        for width in _LINE_WIDTHS
        for start in range(0, len(text), width)
    ]
    base64 += [*wrapped, *(_base64_inside(data, offset) for offset in range(3))]
    in_urls = [form.translate(bytes.maketrans(b"+/", b"-_")) for form in base64]
    return [
        data,
        *(os.fsencode(text[1:-1]) for text in texts),
        *(text.encode() for text in quoted),
        *base64,
        *in_urls,
    ]


def _base64(data: bytes) -> bytes:
    import binascii  # loaded from a file of its own: jobs without secrets start without

    return binascii.b2a_base64(data, newline=False).rstrip(b"=")


def _base64_inside(data: bytes, offset: int) -> bytes:
    """The base64 encoding of the data within something longer, like `user:secret` in HTTP Basic.

    `offset` is its position in a group of three bytes. Characters that encode bits of neighbours are left
    out.
    """
    encoded = _base64(bytes(offset) + data)
    return encoded[(8 * offset + 5) // 6 : 8 * (offset + len(data)) // 6]


class SecretMask:
    """Replaces secrets in texts: the known values in any encoding, and whatever looks like one."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms: set[bytes] = set()
        for value in values:
            if len(value) >= MIN_LENGTH:
                forms.add(value.encode(errors="surrogateescape"))
                forms |= {form for form in encodings(value) if len(form) >= MIN_ENCODED}
        longest = sorted(forms, key=lambda form: (-len(form), form))
        in_latin, texts = (
            "|".join(re.escape(form.decode(code, "surrogateescape")) for form in longest)
            for code in ("latin-1", "utf-8")
        )
        self._known_bytes = re.compile(in_latin) if longest else None
        self._known = re.compile(texts) if longest else None

    def __call__(self, text: str) -> str:
        """The text of any language, without secrets."""
        return _replaced(text, self._known, _constant)

    def line(self, text: str) -> str:
        """A command line without secrets: also the values of options such as `--api-key`."""
        return _named_replaced(_OPTION, self(text), _option_group, _constant)

    def blank(self, data: bytes) -> bytes:
        """Bytes of a log without secrets, of the same length: an asterisk for each byte of one."""
        text = _replaced(data.decode("latin-1"), self._known_bytes, _asterisks)
        return _named_replaced(_OPTION, text, _option_group, _asterisks).encode("latin-1")

    def named(self, name: str, value: Any) -> Any:
        """A value that has a name, as JSON; hidden if the name is a secret's."""
        if (
            is_secret_name(name)
            and value not in (None, "")
            and not isinstance(value, (bool, dict, list, tuple))
        ):
            return MASK
        return self.data(value)

    def data(self, value: Any) -> Any:
        """JSON without secrets: in texts, under names of secrets, in pairs of name and value."""
        if isinstance(value, str):
            return self.line(value)
        if isinstance(value, Mapping):
            masked = {key: self.named(str(key), item) for key, item in value.items()}
            if isinstance(name := value.get("name"), str) and "value" in value:
                masked["value"] = self.named(name, value["value"])
            return masked
        return [self.data(item) for item in value] if isinstance(value, (list, tuple)) else value


def without_secrets(values: Mapping[str, Any], mask: SecretMask | None = None) -> dict[str, Any]:
    """Values by name, such as parameters, without secrets."""
    mask = mask or SecretMask()
    return {name: mask.named(name, value) for name, value in values.items()}


def _constant(secret: str) -> str:
    return MASK


def _asterisks(secret: str) -> str:
    return _compiled(r"[^\n]").sub("*", secret)


def _replaced(text: str, known: re.Pattern[str] | None, cover: Cover) -> str:
    """The text with secrets covered; known values first, since they may contain delimiters of a pattern."""
    if known:
        text = known.sub(lambda match: cover(match[0]), text)
    text = _formats().sub(lambda match: cover(match[0]), text)
    for pattern in _ALWAYS:
        text = _compiled(pattern).sub(lambda match: _covered(match, "value", cover), text)
    for pattern in _PATTERNS:
        text = _named_replaced(pattern, text, _named_group, cover)
    return _named_replaced(_ASSIGNMENT, text, _assigned_group, cover)


def _named_replaced(
    pattern: str, text: str, secret_group: Callable[[re.Match[str]], str], cover: Cover
) -> str:
    """The text with the secrets of its matches covered; the search continues after the name of a match.

    `secret_group` returns the group of a match that is a secret; empty if none is.
    """
    parts, position, copied = list[str](), 0, 0
    search = _compiled(pattern).search
    while match := search(text, position):
        group = secret_group(match)
        replaced = _covered(match, group, cover) if group else match[0]
        position = match.end("name")
        if replaced != match[0]:
            parts += [text[copied : match.start()], replaced]
            position = copied = match.end()
            if len(match[0]) > _MAX_BARE:
                rest = _compiled(r"[^\s\"',;&)\]}]*").match(text, copied)
                position = copied = rest.end() if rest else copied
                is_blanked = len(replaced) == len(match[0])
                parts.append(_asterisks(text[match.end() : copied]) if is_blanked else "")
    return "".join([*parts, text[copied:]])


def _option_group(match: re.Match[str]) -> str:
    is_name = match["name"] == "secret"  # `--secret` takes the name of a variable
    is_plain = is_name or _compiled(_NUMBER).fullmatch(match["value"]) or not is_secret_name(match["name"])
    return "" if is_plain else "value"


def _named_group(match: re.Match[str]) -> str:
    name = match["name"]
    is_in_url = "quote" not in match.re.groupindex and name.lower().replace("-", "_") in _IN_URLS
    if not (is_in_url or is_secret_name(name)):
        return ""
    return "plain" if match["value"] is None else "value"


def _assigned_group(match: re.Match[str]) -> str:
    if not is_secret_name(match["name"]):
        return ""
    if match["bare"] is None:
        return "value"
    return "" if _is_code(match) else "bare"


def _is_code(match: re.Match[str]) -> bool:
    """Whether an unquoted value is code, a type, a reference or a count instead of a secret."""
    bare, sign, after = match["bare"], match["sign"], match["after"]
    if _compiled(_NO_VALUE).match(bare) or after == "(":
        return True
    if _compiled(_NUMBER).fullmatch(bare):
        return match["name"].lower().endswith("token")
    if ":" in sign or not _compiled(_CODE).fullmatch(bare):
        return False
    is_spaced = sign != sign.strip()
    return after in (",", ")", "[", ".") or (is_spaced and not any(char.isdigit() for char in bare))


def _covered(match: re.Match[str], group: str, cover: Cover) -> str:
    if match[group].strip("*") == "":  # it is covered already
        return match[0]
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return match[0][:start] + cover(match[group]) + match[0][end:]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _formats() -> re.Pattern[str]:
    formats = "|".join((*OTHER_FORMATS.values(), rf"\b(?:{'|'.join(WORD_FORMATS.values())})"))
    return re.compile(rf"(?={_BEGINNING})(?:{formats})")


@cache
def _secret_files() -> re.Pattern[str]:
    return re.compile("|".join(map(translate, _SECRET_FILES)))


def is_secret_file(path: str) -> bool:
    """Whether a path with `/` names a file that holds secrets, or lies in a folder of such files."""
    lowered = path.lower()
    parts = [part for part in lowered.split("/") if part not in _HARMLESS_FILES]
    is_secret = any(map(_secret_files().match, parts))
    return is_secret or f"/{_SECRET_FOLDER}" in f"/{lowered}/"
