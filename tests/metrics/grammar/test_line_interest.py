"""The search over many lines at once must find every line that a reader would understand."""

import re

import pytest

from batchai_magics.metrics.grammar.line_grammar import read_line
from batchai_magics.metrics.grammar.line_interest import has_interest, interest_in, may_matter
from batchai_magics.metrics.grammar.metric_tables import MAY_BE_TABLE, may_open_table
from batchai_magics.metrics.grammar.prefix_grammar import row_begin
from batchai_magics.metrics.reading.run_facts import FACT_LITERALS
from batchai_magics.metrics.reading.tf_cnn_benchmarks import LITERALS
from tests.metrics.program_samples import PROGRAMS
from tests.metrics.reading.program_lines import KNOWN_LINES
from tests.metrics.test_program_properties import PREFIXES, any_lines

_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


def is_understood(line: bytes) -> bool:
    is_of_table = MAY_BE_TABLE.search(line) is not None and may_open_table(line[row_begin(line) :])
    return is_of_table or (may_matter(line) and read_line(line) is not None)


def passed_over(lines):
    """The lines that the search leaves out."""
    found = {*interest_in(lines, range(len(lines)), (*LITERALS, *FACT_LITERALS))}
    return [line for number, line in enumerate(lines) if number not in found]


@pytest.mark.parametrize("prefix", ["", *PREFIXES])
def test_no_line_of_a_program_is_passed_over(prefix):
    logs = [_ESCAPE.sub(b"", path.read_bytes()) for path in PROGRAMS.glob("*.log")]
    lines = {prefix.encode() + line for log in logs for line in re.split(rb"[\r\n]", log)}
    assert not [line for line in passed_over([*lines]) if is_understood(line)]


def test_no_form_of_position_and_number_is_passed_over():
    assert not [
        line for line in passed_over([text.encode() for text, _ in any_lines(3000)]) if is_understood(line)
    ]


def test_no_line_of_a_known_kind_is_passed_over():
    assert passed_over([_ESCAPE.sub(b"", line.encode()) for line in KNOWN_LINES]) == []


@pytest.mark.parametrize(
    "line",
    [
        b"The quick brown fox jumps over 13 lazy dogs in 2026, and nobody minds.",
        b"0.25 17.5 3 42.125 7e-05",
        b"Chunk at 0x7f3a20 of size 1024 next 17",
        b"",
    ],
)
def test_prose_and_other_numbers_are_passed_over(line):
    assert passed_over([b"step 1: loss 0.5", line, b"epoch 3"]) == [line]
    assert not has_interest(line, ())
