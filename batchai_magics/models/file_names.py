r"""Names of files as text: any bytes may be a name on Linux, but JSON, XML and terminals take text alone.

A byte that is no UTF-8 is written `\xff`; where a name itself has those four characters, its backslash is
written `\x5c`. So different names have different texts, and the text of every other name is the name.
"""

from __future__ import annotations

import os
import re

_LIKE_AN_ESCAPE = re.compile(rb"\\(?=x[0-9a-f]{2})")
_ESCAPE = re.compile(rb"\\x([89a-f][0-9a-f]|5c(?=x[0-9a-f]{2}))")  # no other: `\x2f` must not become a slash
ESCAPED = re.compile(r"\\x(?:[89a-f][0-9a-f]|5c(?=x[0-9a-f]{2}))")


def text_of(name: str) -> str:
    """The text of a name, or of a path, as Python has it from the file system."""
    if name.isascii() and "\\" not in name:
        return name
    escaped = _LIKE_AN_ESCAPE.sub(rb"\\x5c", os.fsencode(name))
    return escaped.decode("utf-8", "backslashreplace")


def name_of(text: str) -> str:
    """The name, or the path, that has such a text; as Python gives it to the file system.

    UnicodeEncodeError for half of a pair of surrogates.
    """
    if "\\x" not in text:
        return text
    return os.fsdecode(_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), os.fsencode(text)))
