import pytest

from batchai_magics.metrics.reading.line_splitter import strip_controls, strip_escapes

COMMANDS = [
    "\x1b[0m",
    "\x1b[38;5;196m",
    "\x1b[38:2::1:2:3m",
    "\x1b[?25l",
    "\x1b[2K",
    "\x1b[1 q",
    "\x1b",
    "\0",
    "\b",
]
TITLES = ["\x1b]0;title\x07", "\x1b]8;;https://example.org\x1b\\"]


@pytest.mark.parametrize("command", [*COMMANDS, *TITLES])
def test_a_command_is_taken_out_and_nothing_else(command):
    assert strip_escapes(f"X lo{command}ss\té".encode()) == "X loss\té".encode()
    assert strip_controls(f"lo{command}ss\té\n") == "loss\té\n"


def test_a_command_without_its_end_loses_only_its_escape():
    assert strip_escapes(b"\x1b]0;loss 1") == b"]0;loss 1"
    assert strip_escapes(b"\x1b[31") == b"[31"


def test_other_control_characters_are_taken_out_of_text_for_people():
    assert strip_controls("a\x07b\x7fc\rd") == "abcd"
