"""Numbers in front of lines that are ranks."""

import pytest

from batchai_magics.metrics.grammar.prefix_grammar import NUMBER_IN_FRONT
from batchai_magics.metrics.reading.plan_cache import PlanCache


@pytest.mark.parametrize(
    "label", ["3: ", "   3: ", "[3] ", " [123456] ", "123456: ", "3:", "[3]: ", "1234567: ", "x3: "]
)
def test_lines_are_searched_for_every_form_of_a_number_in_front(label):
    line = f"{label}Epoch 2: loss 0.5".encode()
    place = PlanCache().first_rank_label(b"Using 4 devices\n" + line + b"\n")
    assert (place is not None) == (NUMBER_IN_FRONT.match(line) is not None)
