"""Finds the values of a job's secrets in the output of its processes.

Ranks have the secrets in their environment: they record the spans in which their output contains one, so that
readers can redact it without knowing any secret. Standard library only: copied to nodes with `run_ranks.py`.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterable, Sequence

SECRET = struct.Struct("<QQ")  # a record of a `hidden` file: start, end
MIN_LENGTH = 6  # bytes; shorter values would match too much harmless output

_LINE_END = re.compile(rb"[\r\n]+")
_PLAIN_IN_URLS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def search_patterns(values: Iterable[str]) -> tuple[bytes, ...]:
    """What to search for: each line of each value, also as encoded by JSON, Python, URLs and base64."""
    lines = [line.strip() for value in values for form in _encodings(value) for line in _LINE_END.split(form)]
    return tuple(sorted({line for line in lines if len(line) >= MIN_LENGTH}))


def _encodings(value: str) -> list[bytes]:
    data = os.fsencode(value)
    texts = (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value))
    quoted = "".join(chr(byte) if byte in _PLAIN_IN_URLS else f"%{byte:02X}" for byte in data)
    paths = quoted.replace("%2F", "/")  # like `urllib.parse.quote`
    base64 = [_base64(data), _base64(data + b"\n")]  # the second like `echo $TOKEN | base64`
    base64 += [_base64_inside(data, offset) for offset in range(3)]
    in_urls = [form.translate(bytes.maketrans(b"+/", b"-_")) for form in base64]
    return [
        data,
        *(os.fsencode(text[1:-1]) for text in texts),
        quoted.encode(),
        paths.encode(),
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


def find_spans(data: bytes, patterns: Sequence[bytes]) -> list[tuple[int, int]]:
    """The spans (start, end) of all matches in `data`, sorted; adjacent ones are merged."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(span for form in patterns for span in _matches(form, data)):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _matches(form: bytes, data: bytes) -> Iterable[tuple[int, int]]:
    at = data.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = data.find(form, at + 1)


def partial_match_length(data: bytes, patterns: Sequence[bytes]) -> int:
    """How many bytes at the end of `data` may be the start of a match."""
    return max((_partial_length(data, form) for form in patterns), default=0)


def _partial_length(data: bytes, form: bytes) -> int:
    longest = min(len(form) - 1, len(data))
    return next((size for size in range(longest, 0, -1) if data.endswith(form[:size])), 0)
