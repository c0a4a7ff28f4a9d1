"""Lines that depend on those above them give the same numbers at once as one by one."""

import pytest

from batchai_magics.metrics import Parser


def test_indented_lines_right_below_a_step_line_are_of_that_step():
    text = (
        b"step 5: loss 0.5\n    acc: 0.25\n    time: 0.1\n    f1: 0.75\n"
        b"saved\nnothing\n    recall: 0.1\n"  # too far below
        b"Epoch 2: loss 0.4\n  acc: 0.35\n"
    )
    read = [(record.epoch, record.step, record.name, record.value) for record in Parser().feed(text)]
    assert read == [
        (None, 5, "loss", 0.5),
        (None, 5, "acc", 0.25),
        (None, 5, "f1", 0.75),
        (2, None, "loss", 0.4),
        (2, None, "acc", 0.35),
    ]


@pytest.mark.parametrize(
    "below",
    [
        "  error: 404\n",
        "    score = 7\n    rate: 5\n",
        "  loss: 0.3\n",
        "config:\n  loss: 0.3\n  optimizer:\n    norm: 5\n",
        "  optimizer:\n    norm: 0.5\n",
        "saved\n  acc: 0.5\n",
    ],
)
def test_indented_settings_below_a_step_line_are_not_of_that_step(below):
    log = f"Epoch 1: loss 1.0\n  f1: 0.0\n{below}".encode()
    assert [(record.name, record.value) for record in Parser().feed(log)] == [("loss", 1.0), ("f1", 0.0)]
    alone = f"Epoch 1: loss 1.0\n{below}".encode()
    assert [record.name for record in Parser().feed(alone)] == ["loss"]


def test_a_block_below_a_step_line_is_read_alike_line_by_line():
    lines = [b"step 5: loss 0.5\n", b"  acc: 0.25\n", b"  time: 0.1\n", b"  f1: 0.75\n"]
    parser = Parser()
    one_by_one = [record for line in lines for record in parser.feed(line)]
    assert one_by_one == Parser().feed(b"".join(lines))
    assert [record.name for record in one_by_one] == ["loss", "acc", "f1"]


def test_indented_lines_below_a_step_line_of_another_process_are_not_of_it():
    text = b"[rank0]: step 5: loss 0.5\n[rank1]:     acc: 0.25\n"
    assert [record.name for record in Parser().feed(text)] == ["loss"]


def test_each_of_many_ranks_keeps_its_epoch():
    lines = [f"[rank{rank}]: Epoch {rank % 9}" for rank in range(2000)]
    lines += [f"[rank{rank}]: step {step} loss=0.5" for step in (1, 2) for rank in range(2000)]
    records = Parser().feed("".join(f"{line}\n" for line in lines).encode())
    assert [record.epoch for record in records] == [rank % 9 for _ in range(2) for rank in range(2000)]


@pytest.mark.parametrize("count", [3, 300])
def test_members_of_a_block_have_the_position_above_it(count):
    names = [f"{chr(97 + n % 26)}{chr(97 + n // 26)}x_loss" for n in range(count)]
    log = "".join(f"step {step}\n" + "".join(f"  {name}: 0.5\n" for name in names) for step in (1, 2))
    records = Parser().feed(log.encode())
    assert [(record.name, record.step) for record in records] == [
        (name, step) for step in (1, 2) for name in names
    ]
