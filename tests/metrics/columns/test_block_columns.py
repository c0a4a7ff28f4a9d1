"""What is read at once, and what is left to the parser: a line that is left costs fifty times as much."""

from __future__ import annotations

import numpy as np
import pytest

from batchai_magics.metrics.columns.block_columns import BlockColumns, take_apart
from batchai_magics.metrics.columns.form_index import FormIndex
from batchai_magics.metrics.columns.step_columns import MARGIN_BYTES
from batchai_magics.metrics.grammar.line_shapes import LineShapes
from batchai_magics.metrics.grammar.rank_labels import RankLabels
from tests.metrics.log_text import step
from tests.metrics.shapes import SHAPES, dressed

MARGIN = b"\n" * MARGIN_BYTES
FAR = ["noise" * 40] * 40  # places so far from each other are looked at one by one
OTHERS = ["", "noise", "x" * 300, "tab\tand 12 images per second", "1587077440"]


def taken_apart(lines: list[str]) -> BlockColumns:
    text = "".join(f"{line}\n" for line in lines).replace("\r", "\n").encode()
    buffer = bytearray(MARGIN + text + MARGIN)
    lines = FormIndex(LineShapes(), RankLabels()).take_apart(text, offset=100, rank=None, has_bar=False)
    return take_apart(lines, buffer, MARGIN_BYTES, offset=100)


NUMBERS = {
    "the first step": step(1),
    "a step of two digits": step(10),
    "a step of seven digits": step(1234567),
    "a loss of two digits": step(10, loss="12.345"),
    "no loss at all": step(10, loss="nan"),
    "an endless loss": step(10, loss="inf"),
    "a rate of one digit": step(10, rate=1.5),
    "a rate of five digits": step(10, rate=98765.4),
    "accuracies": step(10, accuracies="\t0.125\t0.500"),
    "accuracies behind blanks": step(10, accuracies="  0.125   0.500"),
    "blanks for tabs": step(10).replace("\t", "   "),
    "seven blanks": step(10).replace("\t", " " * 7),
    "a time behind it": f"{step(10)} 1587077440",
    "a time behind accuracies": f"{step(10, accuracies=chr(9) + '0.125' + chr(9) + '0.500')}\t1587077440",
    "two in a line": step(10) + step(20),
    "text behind it": f"{step(10)} and more",
}


@pytest.mark.parametrize("line", NUMBERS.values(), ids=NUMBERS)
def test_a_step_line_as_programs_print_it_is_read_at_once(line: str) -> None:
    lines = [step(1), *OTHERS, line, *OTHERS, step(30)]
    block = taken_apart(lines)
    assert block.hard == []
    assert [block.steps.step[0], block.steps.step[-1]] == [1, 30]
    assert len(block.steps.step) == "".join(lines).count("images/sec: ")


CLEANED = {"ANSI", "ANSI in a tag", "ANSI before a tag", "drawn again"}  # before
RARE = {"exact time behind", "another's end", "glued"}


@pytest.mark.parametrize("between", [[], FAR], ids=["near", "far"])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in CLEANED | RARE])
def test_a_step_line_as_launchers_pass_it_on_is_read_at_once(shape: str, between: list[str]) -> None:
    lines = [*between, *between] + [
        dressed(shape, text, rank) for rank in (0, 7, 9) for text in (*OTHERS, step(10), step(20))
    ]
    block = taken_apart(lines)
    assert block.hard == []
    assert block.steps.step.tolist() == [10, 20] * 3


LEFT = {
    "a step of eight digits": step(12345678),
    "a loss below zero": step(10, loss="-0.125"),
    "a time with a fraction behind it": f"{step(10)} 1587077440.25",
    "a rate without its fraction": step(10).replace("61.9", "619"),
    "no uncertainty": step(10).replace(" +/- ", " -/+ "),
    "an uncertainty without its fraction": step(10).replace("1.8", "180"),
    "no jitter": step(10).replace(" (jitter = ", " (jotter = "),
    "a jitter without its fraction": step(10).replace("8.0", "800"),
    "a jitter without its bracket": step(10).replace("8.0)", "8.0]"),
    "no loss": step(10, loss="none"),
    "no step": f"x{step(10)[2:]}",
    "a number that is too long": step(10, rate=123456789.5),
    "accuracies cut off": step(10, accuracies="\t0.125"),
    "eight blanks": step(10).replace("\t", " " * 8),
    "a control character": f"\x1b[1m{step(10)}",
    "a tag in the middle": f"hello[1,3]<stdout>:{step(10)}",
    "another program": "step=1 loss=0.5",
    "the total": "total images/sec: 12.34",
}


@pytest.mark.parametrize("line", LEFT.values(), ids=LEFT)
def test_what_only_the_parser_understands_is_left_to_it_and_nothing_else(line: str) -> None:
    lines = [step(1), *FAR, line, *FAR, step(30)]  # near lines are left with it
    block = taken_apart(lines)
    text = "".join(f"{each}\n" for each in lines)
    begin = MARGIN_BYTES + text.index(line)
    assert block.hard == [(begin, begin + len(line) + 1)]


def test_a_step_has_the_offset_of_its_lines_end_and_the_rank_of_its_tag() -> None:
    lines = [f"[1,{rank}]<stdout>:{step(10 * rank + 10)}" for rank in (0, 3, 12)]
    block = taken_apart(lines)
    assert block.steps.rank.tolist() == [0, 3, 12]
    assert block.steps.offset.tolist() == (100 + np.cumsum([len(line) + 1 for line in lines])).tolist()
