"""Operations with a bar."""

import json

import pytest

from batchai_magics.commands.output.command_progress import (
    BYTES,
    CommandExit,
    LogOutput,
    Message,
    Operation,
    json_lines,
    run_operation,
)
from batchai_magics.errors import BatchAIError


def steps(*amounts):
    yield from amounts
    return "done"


@pytest.mark.parametrize("is_shown", [True, False])
def test_operation_returns_its_value(is_shown):
    assert run_operation(Operation("Doing", 3, "job", steps(1, 2), ""), is_shown=is_shown) == "done"


def test_slow_operation_has_a_progress_bar(capsys):
    run_operation(Operation("Uploading", 4096, BYTES, steps(2048, 2048), ""), is_shown=True, delay_s=0)
    told = capsys.readouterr()
    assert "Uploading: 100%" in told.err
    assert "4.10k/4.10k" in told.err
    assert told.out == ""


def test_quick_operation_has_no_progress_bar(capsys):
    run_operation(Operation("Uploading", 1, BYTES, steps(1), ""), is_shown=True)
    assert capsys.readouterr().err == ""


def test_no_bar_where_none_is_wanted(capsys):
    run_operation(Operation("Uploading", 1, BYTES, steps(1), "", is_quiet=True), is_shown=True, delay_s=0)
    run_operation(Operation("Uploading", 1, BYTES, steps(1), ""), is_shown=False)
    assert capsys.readouterr().err == ""


def test_an_interrupt_says_how_to_go_on():
    def interrupted():
        yield 1
        raise KeyboardInterrupt

    with pytest.raises(BatchAIError, match=r"Stopped\. Run it again\.") as caught:
        run_operation(Operation("Doing", 3, "job", interrupted(), "Run it again."), is_shown=False)
    assert caught.value.exit_code == 130


def test_an_interrupt_between_two_steps_ends_the_operation():
    ended = []

    class Interrupted(int):
        """An amount in whose addition to the bar Ctrl-C is pressed."""

        def __lt__(self, other):
            raise KeyboardInterrupt

    def steps():
        try:
            yield Interrupted(1)
        finally:
            ended.append(True)

    pending = Operation("Doing", 3, "job", steps(), "Run it again.")
    with pytest.raises(BatchAIError, match=r"Stopped\. Run it again\."):
        run_operation(pending, is_shown=True)
    assert ended == [True]


def json_of(*parts):
    """The parts as `-o json` prints them, and the exit code."""
    found = list(json_lines(part for part in parts))
    printed = b"".join(part.data for part in found if isinstance(part, LogOutput)).decode()
    return [json.loads(line) for line in printed.splitlines()], [
        p for p in found if isinstance(p, CommandExit)
    ]


def test_a_line_that_comes_in_parts_is_one_object():
    printed, ends = json_of(
        LogOutput(b"a"), Message("m"), LogOutput(b"b\nc\xff"), CommandExit(3, "it failed")
    )
    assert printed == [
        {"message": "m"},
        {"line": "ab"},
        {"line": "c�"},
        {"exitCode": 3, "outcome": "it failed"},
    ]
    assert ends == [CommandExit(3, "it failed")]


def test_lines_of_stdout_and_stderr_are_not_mixed():
    printed, _ = json_of(LogOutput(b"a"), LogOutput(b"no\n", is_error=True), LogOutput(b"b\n"))
    assert printed == [{"line": "no", "stderr": True}, {"line": "ab"}]


def test_fields_of_a_message_are_in_its_json():
    assert json_of(Message("Wrote x.", {"path": "x"}))[0] == [{"message": "Wrote x.", "path": "x"}]
