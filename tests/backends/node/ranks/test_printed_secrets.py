"""Values of secrets are found in what a process prints, however it writes them; short ones are not sought."""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.node.ranks.output_streams import (
    MIN_LENGTH,
    find_spans,
    partial_match_length,
    search_patterns,
)

TOKEN = 'pa/ss "wörd"+1'


def redacted(data: bytes, *values: str) -> bytes:
    shown = bytearray(data)
    for start, end in find_spans(data, search_patterns(values)):
        shown[start:end] = b"*" * (end - start)
    return bytes(shown)


@pytest.mark.parametrize(
    "written",
    [
        TOKEN,
        json.dumps(TOKEN)[1:-1],
        json.dumps(TOKEN, ensure_ascii=False)[1:-1],
        repr(TOKEN)[1:-1],
        urllib.parse.quote(TOKEN, safe=""),
        urllib.parse.quote(TOKEN),
        re.sub("%..", lambda match: match[0].lower(), urllib.parse.quote(TOKEN, safe="")),
        json.dumps(TOKEN)[1:-1].replace("/", "\\/"),
        base64.b64encode(TOKEN.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("="),
        base64.b64encode(f"{TOKEN}\n".encode()).decode().rstrip("="),
    ],
)
def test_a_value_is_found_however_it_is_written(written: str) -> None:
    data = written.encode()
    assert redacted(b"token: " + data + b".\n", TOKEN) == b"token: " + b"*" * len(data) + b".\n"


def test_a_value_is_found_in_base64_of_several_lines() -> None:
    value = "correct horse battery staple " * 5
    shown = redacted(base64.encodebytes(value.encode()), value)
    assert [len(line.strip(b"*=")) for line in shown.splitlines()] == [0] * 3


@pytest.mark.parametrize("user", ["", "u", "me", "you", "someone@example.org"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_value_is_found_in_the_credentials_of_http_basic(
    user: str, encode: Callable[[bytes], bytes]
) -> None:
    value = "hunter2-in-the-open"
    said = b"Authorization: Basic " + encode(f"{user}:{value}/more".encode())
    shown = redacted(said, value).rpartition(b" ")[2].rstrip(b"=")
    stars = shown.count(b"*")
    assert b"*" * stars in shown
    assert stars >= len(value) * 8 // 6 - 2  # at both ends a character may hold bits of something else


def test_each_line_of_a_value_is_found_by_itself() -> None:
    assert redacted(b"-----\nfirst-part\n", "BEGIN KEY\r\nfirst-part\n}\n") == b"-----\n**********\n"


@pytest.mark.parametrize("value", ["", "x", "0", "true", "12345"])
def test_a_short_value_is_not_sought(value: str) -> None:
    assert redacted(b"true 12345 x 0\n", value) == b"true 12345 x 0\n"
    assert len(value) < MIN_LENGTH


def test_values_that_overlap_are_hidden_wholly() -> None:
    assert redacted(b"abcdefghij", "abcdefg", "efghij") == b"*" * 10
    assert redacted(b"xaaaaaaay", "aaaaaa") == b"x*******y"


def test_a_value_that_is_no_utf8_is_found() -> None:
    assert redacted(b"\xff\xfe1234.", b"\xff\xfe1234".decode("utf-8", "surrogateescape")) == b"******."


@pytest.mark.parametrize(("data", "count"), [(b"say hun", 3), (b"hunter", 6), (b"hunter2", 0), (b"x", 0)])
def test_what_may_begin_a_value_is_counted(data: bytes, count: int) -> None:
    assert partial_match_length(data, [b"hunter2"]) == count


@given(st.text("ab", min_size=MIN_LENGTH, max_size=9), st.text("ab\n"), st.text("ab\n"))
def test_nothing_of_a_value_is_left(value: str, before: str, after: str) -> None:
    data = f"{before}{value}{after}".encode()
    shown = redacted(data, value)
    assert value.encode() not in shown
    assert len(shown) == len(data)
    assert all(was == now or now == ord("*") for was, now in zip(data, shown, strict=True))
