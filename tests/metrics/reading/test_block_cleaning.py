"""Terminal commands in big blocks: what is taken out at once is what the parser takes out of each line."""

from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser
from batchai_magics.metrics.reading import block_cleaning
from batchai_magics.metrics.reading.block_cleaning import cleaned
from batchai_magics.metrics.reading.line_prefixes import TagShapes
from batchai_magics.metrics.reading.line_splitter import strip_escapes
from batchai_magics.metrics.reading.log_reader import read_columns

STEP = b"10\timages/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000"
USUAL = (b"\x1b[33m", b"\x1b[0m", b"\x1b[38;5;196m", b"\x1b[m", b"\x1b[?25l", b"\0", b"\b")
OTHER = (b"\x1b", b"\x1b[", b"\x1b[31", b"\x1b[1 q", b"\x1b]0;title\x07", b"\x1b]8;;x\x1b\\", b"\x1b[\xc3m")
FAR = b"nothing to take out\n" * 2000

usual_lines = st.lists(st.sampled_from([*USUAL, STEP, b"x", b"\n", FAR])).map(b"".join)
any_lines = st.lists(
    st.sampled_from([*USUAL, *OTHER, STEP, b"x", b"[1,3]<stdout>:", b"<std", b"\n", FAR])
).map(b"".join)


@given(usual_lines)
def test_usual_commands_are_taken_out_and_nothing_else(lines):
    lines += b"\n"
    assert cleaned(lines, TagShapes()) == strip_escapes(lines)


def test_the_colours_of_many_lines_are_taken_out_at_once(monkeypatch):
    monkeypatch.setattr(block_cleaning, "clean_lines", None)  # what goes piece by piece
    for command in USUAL:
        lines = (command + STEP + b"\x1b[0m\n") * 100
        assert cleaned(lines, TagShapes()) == (STEP + b"\n") * 100


@given(any_lines)
def test_any_commands_give_the_parsers_records(lines):
    parser = Parser()
    expected = [*parser.feed(lines), *parser.finish()]
    assert list(read_columns([lines]).records()) == expected


def test_lines_between_far_commands_are_left_as_they_are():
    tagged = b"[1,3]<stdout>:" + STEP + b"[1,3]<stdout>:\n"
    lines = b"\x1b[1mone\x1b[0m\n" + tagged * 1000 + b"\x1b[1mtwo\n"
    assert cleaned(lines, TagShapes()) == b"one\n" + tagged * 1000 + b"two\n"
