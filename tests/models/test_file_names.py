"""Names of files as text and back."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.models.file_names import name_of, text_of

PIECES = st.sampled_from([b"\\", b"x", b"5", b"c", b"f", b"\xff", b"\xc3", b"\xa9", b"a", b"/", b"."])


@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_every_name_has_a_text_of_its_own(name: bytes) -> None:
    text = text_of(os.fsdecode(name))
    assert text.encode().decode() == text
    assert os.fsencode(name_of(text)) == name


@pytest.mark.parametrize(
    ("name", "text"),
    [(b"bad\xff", r"bad\xff"), (rb"bad\xff", r"bad\x5cxff"), ("bäd".encode(), "bäd"), (rb"a\b", r"a\b")],
)
def test_undecodable_bytes_and_text_like_escapes_are_escaped(name: bytes, text: str) -> None:
    assert text_of(os.fsdecode(name)) == text


@pytest.mark.parametrize("text", [r"\x2e\x2e", r"\x2fetc", r"\x00", r"\x5c"])
def test_escaped_ascii_in_a_file_name_is_not_decoded(text: str) -> None:
    assert name_of(text) == text
