"""What of a log reaches a terminal: its text and its colours, and nothing that steers what shows it."""

from __future__ import annotations

import json
import pickle

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.commands.output.command_result import Result
from batchai_magics.commands.output.terminal_text import TerminalText
from batchai_magics.commands.parsing.command_completion import candidates
from batchai_magics.options.option import Expected

HOSTILE = "\x1b]52;c;aGk=\x07-\x9b31m-\u202egpj.exe\n\r\t-\udcff-\u2066-\x7f-\x1b[2J"
STEERING = ["\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\x7f", "\r", "\udcff"]


def filtered(*pieces: bytes) -> bytes:
    text = TerminalText()
    return b"".join([*map(text.feed, pieces), text.finish()])


@pytest.mark.parametrize(
    "kept",
    [
        b"plain\tline\r\n",
        b"\x1b[31mred\x1b[0m",
        b"\x1b[38;2;1;2;3mx",
        b"\x1b[K",
        b"10%\r20%\r",
        b"\x1b[38;5;8mgrey\x1b[48;2;8;8;8m\x1b[38:5:8m\x1b[1;58;5;8m",
        "雛 ě 😛".encode(),  # with 0x9b among their bytes
        "é 日本 שלום".encode(),
        b"\xff\xa0 no utf-8",
    ],
)
def test_text_and_its_colours_stay(kept: bytes) -> None:
    assert filtered(kept) == kept


@pytest.mark.parametrize(
    "steering",
    [
        b"\x1b]52;c;aGk=\x07",
        b"\x1b]0;title\x1b\\",
        b"\x1b]8;;http://x\x07",
        b"\x1b[2J",
        b"\x1b[10;10H",
        b"\x1bc",
        b"\x1b[?1049h",
        b"\x1b[>4;1m",
        b"\x1bP+q\x1b\\",
        b"\x1b(0",
        b"\x07",
        b"\0",
        b"\x0e",
        b"\x7f",
        b"\xc2\x9b2J"[:2],
        b"\x9b",
        b"\x9d",
        b"\b\b",
        b"\x1b[8m",
        b"\x1b[08m",
        b"\x1b[6n",
        b"\x1b]",
        b"\x1b",
    ],
)
def test_what_steers_a_terminal_is_left_out(steering: bytes) -> None:
    assert filtered(b"a" + steering + b"\n") == b"a\n"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b"\x1b[31;8mx", b"\x1b[31mx"),
        (b"\x1b[8;38;5;8;1mx", b"\x1b[38;5;8;1mx"),
        (b"\x1b[38;2;8;8;8;8mx", b"\x1b[38;2;8;8;8mx"),
        (b"\x1b[28mx", b"\x1b[28mx"),
    ],
)
def test_text_is_never_concealed_and_keeps_its_colour(sent: bytes, kept: bytes) -> None:
    assert filtered(sent) == kept


def test_bytes_that_eight_bit_terminals_obey_are_left_out_wherever_a_chunk_ends() -> None:
    data = "雛".encode() + b"\x9b2J\x9d52;c;aGk=\x07 \xe9 \x9b " + "雛".encode()
    wanted = "雛2J52;c;aGk= ".encode() + b"\xe9  " + "雛".encode()
    for at in range(len(data) + 1):
        assert filtered(data[:at], data[at:]) == wanted


def test_a_sequence_that_never_ends_takes_its_line_along_and_no_more() -> None:
    assert filtered(b"a\x1b]52;c;secret\nnext\n") == b"a\nnext\n"


def test_bidirectional_control_characters_are_escaped() -> None:
    assert filtered("a\u202egpj.exe\u2069\n".encode()) == b"a\\u202egpj.exe\\u2069\n"


@given(
    st.lists(
        st.sampled_from(
            [
                b"\x1b",
                b"[",
                b"]",
                b"3",
                b"m",
                b"K",
                b"J",
                b"\x07",
                b"\\",
                b"\n",
                b"a",
                b"\xc2\x9b",
                b"\xe2",
                b"\x80",
                b"\xae",
                b"P",
                b"?",
                b"\xc3\xa9",
            ]
        ),
        max_size=12,
    ),
    st.data(),
)
def test_any_chunking_shows_the_same_and_nothing_steers(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    at = data.draw(st.integers(0, len(whole)))
    once = filtered(whole)
    assert filtered(whole[:at], whole[at:]) == once
    left = (
        once.replace(b"\x1b[K", b"")
        .replace(b"\x1b[m", b"")
        .replace(b"\x1b[3m", b"")
        .replace(b"\x1b[33m", b"")
    )
    assert b"\x07" not in once
    assert b"\x1b" not in left or b"\x1b[3" in left


def test_a_long_line_that_looks_like_a_sequence_is_not_kept_for_ever() -> None:
    text = TerminalText()
    sizes = [len(text.feed(b"\x1b]" + b"x" * 3000)) + len(pickle.dumps(text)) for _ in range(50)]
    assert max(sizes) < 10_000


@pytest.mark.parametrize("output", ["json", "jsonc", "table", "tsv", "yaml", "csv"])
def test_no_format_lets_a_name_steer_a_terminal(output: str) -> None:
    text = Result({"name": HOSTILE, "list": [HOSTILE]}).to_text(output)
    assert "gpj.exe" in text
    assert not [sign for sign in STEERING if sign in text]
    text.encode()


def test_json_and_yaml_still_tell_the_very_name() -> None:
    name = HOSTILE.replace("\udcff", "")
    assert json.loads(Result({"name": name}).to_text("json")) == {"name": name}
    assert yaml.safe_load(Result({"name": name}).to_text("yaml")) == {"name": name}
    assert "é" in Result({"name": "é"}).to_text("yaml")


@pytest.mark.parametrize("output", ["table", "tsv"])
def test_a_name_is_one_cell_of_one_line(output: str) -> None:
    lines = Result([{"name": "a\nb\tc", "size": 1}]).to_text(output).splitlines()
    assert lines[-1].startswith("a\\nb\\tc")


def test_names_with_control_characters_are_not_completed() -> None:
    assert candidates(Expected(), "", ["good", "bad\x1b[2J", "bad\u202e", "two\nlines"]) == ["good"]
