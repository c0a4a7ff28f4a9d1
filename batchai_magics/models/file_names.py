r"""Text for file names: on Linux a name may be any bytes, but JSON, XML and terminals take text only.

A byte that is not UTF-8 is written `\xff`; where a name itself has those four characters, its backslash is
written `\x5c`. So different names have different texts, and any other name is its own text.
"""

from __future__ import annotations

import os
import re

_LIKE_AN_ESCAPE = re.compile(rb"\\(?=x[0-9a-f]{2})")
_ESCAPE = re.compile(rb"\\x([89a-f][0-9a-f]|5c(?=x[0-9a-f]{2}))")  # no other: `\x2f` must not become a slash
ESCAPED = re.compile(r"\\x(?:[89a-f][0-9a-f]|5c(?=x[0-9a-f]{2}))")


def text_of(name: str) -> str:
    """The text of a name or path, given as `os.fsdecode` returns it."""
    if name.isascii() and "\\" not in name:
        return name
    escaped = _LIKE_AN_ESCAPE.sub(rb"\\x5c", os.fsencode(name))
    return escaped.decode("utf-8", "backslashreplace")


def name_of(text: str) -> str:
    """The name or path with that text, as `os.fsencode` takes it.

    Raises:
        UnicodeEncodeError: The text has a lone surrogate.
    """
    if "\\x" not in text:
        return text
    return os.fsdecode(_ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), os.fsencode(text)))
