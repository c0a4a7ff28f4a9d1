"""What looks like a secret, and texts without them: for what is shown, stored or sent beside a job."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "***"
MIN_LENGTH = 4  # of a known secret that is masked: shorter ones occur in any text
_NAME = (
    r"(?:password|passwd|passphrase|pwd|secret|token|credentials?"
    r"|(?:api|account|access|private|secret)[_-]?key)"
)
_SECRET_NAME = re.compile(rf"(?:^|[_-]){_NAME}$", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|(?:ghp|gho|github_pat|glpat|sk|hf|xox[abp])[_-]\w{16,}"
    r"|sk-(?:proj|ant|svcacct)-[\w-]{16,}|AKIA[0-9A-Z]{16}"
)
_KEY_BLOCK = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
_NOT_LINE_END = re.compile(r"[^\n]")
_URL_LOGIN = re.compile(r"(?<=://)[^\s/@'\"]+(?=@)")
_IN_QUOTES = re.compile(  # api_key = "…", "password": "…"
    rf"(\b[\w-]*{_NAME}[\"']?\s*(?:=|:)\s*[bfr]?)([\"'])(?!{re.escape(MASK)})[^\"'\n]+\2", re.IGNORECASE
)
_OF_OPTION = re.compile(  # --token …, TOKEN=…; numbers are counts, and --secret takes a name
    rf"((?<![\w-])(?!--secret[ =])(?:-{{1,2}}[\w-]*?{_NAME}[= ]+|\w*?{_NAME}=))"
    rf"(?![\d.]+(?:\s|$))(?!{re.escape(MASK)})(\"[^\"]*\"|'[^']*'|[^\s\"']+)",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether a variable or option of that name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def is_secret_text(text: str) -> bool:
    """Whether a text contains what looks like a key or token."""
    return _SECRET_VALUE.search(text) is not None


class SecretMask:
    """Replaces secrets in texts: the known values, and whatever looks like one."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = sorted({value for value in values if len(value) >= MIN_LENGTH}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None
        coded = [value.encode(errors="surrogateescape").decode("latin-1") for value in known]
        self._known_bytes = re.compile("|".join(map(re.escape, coded))) if coded else None

    def __call__(self, text: str) -> str:
        """The text of any language, without secrets."""
        text = self._known.sub(MASK, text) if self._known else text
        text = _KEY_BLOCK.sub(MASK, text)
        text = _SECRET_VALUE.sub(MASK, text)
        text = _URL_LOGIN.sub(MASK, text)
        return _IN_QUOTES.sub(rf"\1\2{MASK}\2", text)

    def line(self, text: str) -> str:
        """A command line without secrets: also the values of options such as `--api-key`."""
        return _OF_OPTION.sub(rf"\1{MASK}", self(text))

    def blank(self, data: bytes) -> bytes:
        """Bytes of a log without secrets, of the same length: an asterisk for each byte of one."""
        text = data.decode("latin-1")
        for pattern in filter(None, (self._known_bytes, _KEY_BLOCK, _SECRET_VALUE, _URL_LOGIN)):
            text = pattern.sub(lambda match: _NOT_LINE_END.sub("*", match[0]), text)
        text = _IN_QUOTES.sub(lambda match: _starred(match, len(match[1]) + 1, 1), text)
        return _OF_OPTION.sub(lambda match: _starred(match, len(match[1]), 0), text).encode("latin-1")


def _starred(match: re.Match[str], before: int, after: int) -> str:
    """A match with asterisks between its first and last characters."""
    end = len(match[0]) - after
    return match[0][:before] + "*" * (end - before) + match[0][end:]
