"""Numbers in front of lines that are ranks."""

import pytest

from batchai_magics.metrics import read_metrics


@pytest.mark.parametrize(
    ("label", "is_rank"),
    [
        ("3: ", True), ("   3: ", True), ("[3] ", True), (" [123456] ", True), ("123456: ", True),
        ("3:", False), ("[3]: ", False), ("1234567: ", False), ("x3: ", False),
    ],
)  # fmt: skip
def test_a_number_in_front_is_a_rank_below_one_that_stands_beside_a_position(label, is_rank):
    text = f"Using 4 devices\n5: loss 0.75 acc 0.5\n{label}Epoch 2: loss 0.5\n6: loss 0.25 acc 0.6\n"
    steps = [record.step for record in read_metrics(text.encode()).records if record.name == "acc"]
    assert steps == ([5] if is_rank else [5, 6])
