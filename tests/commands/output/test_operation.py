"""Operations with a bar."""

import pytest

from batchai_magics.commands.output import operation
from batchai_magics.commands.output.operation import BYTES, Operation, carry_out
from batchai_magics.errors import BatchAIError


def steps(*amounts):
    yield from amounts
    return "done"


@pytest.mark.parametrize("is_shown", [True, False])
def test_an_operation_comes_to_its_value(is_shown):
    assert carry_out(Operation("Doing", 3, "job", steps(1, 2), ""), is_shown=is_shown) == "done"


def test_what_takes_a_while_has_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(operation, "_DELAY_S", 0)
    carry_out(Operation("Uploading", 4096, BYTES, steps(2048, 2048), ""), is_shown=True)
    told = capsys.readouterr()
    assert "Uploading: 100%" in told.err
    assert "4.10k/4.10k" in told.err
    assert told.out == ""


def test_a_quick_operation_has_none(capsys):
    carry_out(Operation("Uploading", 1, BYTES, steps(1), ""), is_shown=True)
    assert capsys.readouterr().err == ""


def test_no_bar_where_none_is_wanted(capsys, monkeypatch):
    monkeypatch.setattr(operation, "_DELAY_S", 0)
    carry_out(Operation("Uploading", 1, BYTES, steps(1), "", is_quiet=True), is_shown=True)
    carry_out(Operation("Uploading", 1, BYTES, steps(1), ""), is_shown=False)
    assert capsys.readouterr().err == ""


def test_an_interrupt_says_how_to_go_on():
    def interrupted():
        yield 1
        raise KeyboardInterrupt

    with pytest.raises(BatchAIError, match=r"Stopped\. Run it again\.") as caught:
        carry_out(Operation("Doing", 3, "job", interrupted(), "Run it again."), is_shown=False)
    assert caught.value.exit_code == 130


def test_an_interrupt_between_two_steps_ends_the_operation(monkeypatch):
    ended = []

    def steps():
        try:
            yield 1
        finally:
            ended.append(True)

    def interrupted(bar, amount):
        raise KeyboardInterrupt

    monkeypatch.setattr("tqdm.tqdm.update", interrupted)
    pending = Operation("Doing", 3, "job", steps(), "Run it again.")
    with pytest.raises(BatchAIError, match=r"Stopped\. Run it again\."):
        carry_out(pending, is_shown=False)
    assert ended == [True]
