"""Any prefix, any position and any form of a number give the same record, however the bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Parser
from tests.metrics.log_text import measurements
from tests.metrics.program_samples import read_rows

PREFIXES = (
    "",
    "2026-11-21 10:00:00,123 - root - INFO - ",
    "[2026-11-21 10:00:00] ",
    "2026-11-21 10:00:00 | INFO | trainer | ",
    "2026-11-21 10:00:00.123 | INFO     | __main__:train:12 - ",
    "I1121 10:00:00.123456 140 loop.py:12] ",
    "10:00:00 ",
    "1795255200.25 ",
    "INFO:root:",
    "[INFO] ",
    "[rank0]:",
    "[rank0]:[titan] 2026-11-21 10:00:00,123 - root - INFO - ",
    "[Rank 0] ",
    "[default0]:",
    "(RayTrainWorker pid=123, ip=10.0.0.1) ",
    "[gpu01:0/2] ",
    "2026-11-21T10:00:00.123456789Z ",
    "[2026-11-21, 10:00:00 UTC] {pod_manager.py:235} INFO - ",
    "[1,0]<stdout>:",
    "[0] ",
    "0: ",
    "[11/21 10:00:00] trainer.engine INFO: ",
    "\x1b[32mINFO\x1b[0m ",
    "INFO:my-model:",
    "24 Apr 05:00    INFO  ",
    "2026-05-22T21:34:07 - 0 - acme.train - train.py:145 - INFO :: ",
    "[2026-03-13 09:06:10,661][       train.py][line: 833][    INFO] ",
    "[2026-04-08 05:21:17.183][ INFO](ignite.engine.Trainer) - ",
    "2026-02-22 03:56:54,944 - log\\train.log - INFO - ",
    "[pod/train-worker-0/pytorch] ",
    "worker-1  | ",
)
RANKS = ("[rank0]:", "[Rank 0]", "[default0]:", "[gpu01:0/2]", "[1,0]<stdout>:", " - 0 - acme")
POSITIONS = {
    "step 14": (None, 14),
    "Step 14/500": (None, 14),
    "step: 14": (None, 14),
    "step=14": (None, 14),
    "iter 14": (None, 14),
    "iteration       14/  500000": (None, 14),
    "[Iter 14/500]": (None, 14),
    "global_step: 14": (None, 14),
    "completed step: 14": (None, 14),
    "Step: [14/100]": (None, 14),
    "batch 14/100": (None, 14),
    "update 14": (None, 14),
    "it 14": (None, 14),
    "step 00014/21400 (0.05%)": (None, 14),
    "Epoch 3, step 14": (3, 14),
    "epoch=3 step=14": (3, 14),
    "Epoch [3][14/100]": (3, 14),
    "epoch 3 | 14/100 batches": (3, 14),
    "Epoch [3/5], Step [14/600]": (3, 14),
    "Epoch: [3][  14/5005]": (3, 14),
    "Epoch 3 [14/60000 (1%)]": (3, 14),
    "| epoch   3 |    14/ 2983 batches": (3, 14),
    "epoch 003:     14 / 1000": (3, 14),
    "Epoch(train) [3][  14/7330]": (3, 14),
    "Epoch 3": (3, None),
    "epoch: 0.25": (0.25, None),
    "epoch: [3/500]": (3, None),
}
NUMBERS = {
    "0.25": 0.25,
    "2.5e-01": 0.25,
    "-1.5": -1.5,
    "1,234.5": 1234.5,
    "nan": None,
    "12.5 (13.0)": 12.5,
    "0.25(0.31)": 0.25,
    "0.25 +/- 0.02": 0.25,
    "0.250000 (+1.20z)": 0.25,
    "3.0%": 3.0,
}
SIGNS = (": ", "=", " = ", " ", ":")
GAPS = (" | ", ", ", "  ", "\t", " - ", "; ")


def read(text, *, cuts=()):
    parser, data = Parser(), text.encode()
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    pieces = [data[begin:end] for begin, end in pairwise(edges)]
    return [record for piece in pieces for record in parser.feed(piece)] + parser.finish()


def numbers_of(records):
    return {
        record.name: None if record.value != record.value else record.value
        for record in measurements(records)
    }


@given(
    prefix=st.sampled_from(PREFIXES),
    position=st.sampled_from(sorted(POSITIONS)),
    first=st.sampled_from(sorted(NUMBERS)),
    second=st.sampled_from(sorted(NUMBERS)),
    sign=st.sampled_from(SIGNS),
    gap=st.sampled_from(GAPS),
    cuts=st.lists(st.integers(1, 200), max_size=4),
)
def test_any_prefix_position_and_number_give_the_same_record(
    prefix, position, first, second, sign, gap, cuts
):
    text = f"{prefix}{position}{gap}loss{sign}{first}{gap}grad_norm{sign}{second}\n"
    records = measurements(read(text, cuts=cuts))
    assert numbers_of(records) == {"loss": NUMBERS[first], "grad_norm": NUMBERS[second]}, text
    assert {(record.epoch, record.step) for record in records} == {POSITIONS[position]}, text


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_is_passed_and_tells_the_rank_where_it_has_one(prefix):
    rank = 0 if any(label in prefix for label in RANKS) or prefix in ("[0] ", "0: ") else None
    records = read("".join(f"{prefix}step = {n}, loss = 0.{n}\n" for n in (1, 2)))
    assert [(each.step, each.value, each.rank) for each in records] == [(1, 0.1, rank), (2, 0.2, rank)]


@pytest.mark.parametrize(
    "label", ["GPU 1,", "GPU: 1 |", "gpu1", "cuda:1", "worker 1", "Worker 1:", "local_rank=1", "Device 1 -"]
)
def test_a_label_right_before_the_position_tells_the_rank(label):
    records = read(f"{label} step 14 loss 0.25\n")
    assert [(record.name, record.rank, record.step) for record in records] == [("loss", 1, 14)]


def test_a_gpus_number_elsewhere_is_no_rank():
    assert [record.rank for record in read("step 14 gpu 45 loss 0.25\n")] == [None, None]


@pytest.mark.parametrize(
    "name", ["resnet50", "SFT", "CNN |", "My model:", "student -", "Fold 2,", "vit_b/16", "[INFO] Teacher |"]
)
def test_the_name_of_what_is_trained_may_stand_before_the_position(name):
    assert [(record.name, record.epoch) for record in read(f"{name} epoch 3 loss 0.25\n")] == [("loss", 3)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("epoch 3 done. loss 0.25", "loss"),
        ("epoch 3 Val. Loss: 0.25", "val_loss"),
        ("The loss after epoch 3 is 0.25", "loss"),
    ],
)
def test_a_name_begins_behind_a_sentence_and_an_article(text, name):
    assert [(record.name, record.epoch, record.value) for record in read(f"{text}\n")] == [(name, 3, 0.25)]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ("loss 2.0 tok/s 100", {"loss": (2, ""), "tok/s": (100, "")}),
        ("loss 2.0 it/s 3.5 gpu 40 %", {"loss": (2, ""), "it/s": (3.5, ""), "gpu": (40, "%")}),
        ("loss 2.0 100 tok/s", {"loss": (2, ""), "tok/s": (100, "tok/s")}),
        ("speed 100 tok/s loss 2.0", {"speed": (100, "tok/s"), "loss": (2, "")}),
        ("speed 100 tok/s 5 ms", {"speed": (100, "tok/s"), "ms": (5, "ms")}),
        ("speed: 100 tok/s 5", {"speed": (100, "tok/s")}),
    ],
)
def test_a_rate_between_blanks_names_the_number_behind_it_if_that_has_no_unit(numbers, expected):
    found = {record.name: (record.value, record.unit) for record in read(f"step 10 {numbers}\n")}
    assert found == expected


def test_numbers_may_precede_their_names_between_bars():
    assert numbers_of(read("Epoch 1 | 10/100 | 1.25 loss | 0.5 acc\n")) == {"loss": 1.25, "acc": 0.5}


def test_lines_of_several_ranks_without_a_newline_between_are_all_read():
    line = "step 10 loss: 0.5 lr: 0.001"
    text = f"{line}\n{line.replace('10', '20')}{line.replace('10', '20')}\n"
    assert [record.step for record in read(text) if record.name == "loss"] == [10, 20, 20]


def test_a_bar_tells_each_value_once_at_its_count():
    frames = [(0, 0.9), (1, 0.9), (1, 0.7), (2, 0.7), (2, 0.6)]
    text = "".join(f"\r{n * 10}%|#  | {n}/10 [00:0{n}<00:09,  1.00it/s, loss={value}]" for n, value in frames)
    read_values = [(record.step, record.value) for record in measurements(read(text + "\n"))]
    assert read_values == [(0, 0.9), (1, 0.7), (2, 0.6)]


def test_settings_after_the_numbers_of_a_validation_are_not_read():
    log = (
        b"Epoch 1 loss 0.5\nValidation...\nLoss: 0.41\nAcc: 81.2%\n\nconfig:\n  loss_weight: 0.5\n  lr: 0.1\n"
    )
    assert sorted(row[3:5] for row in read_rows(log)) == [("train", "loss"), ("val", "acc"), ("val", "loss")]


def test_settings_right_below_the_heading_of_a_phase_are_not_read():
    log = b"Epoch 1 loss 0.5\nEvaluation:\n    lr: 0.001\n    batch_size: 8\n"
    assert [row[4] for row in read_rows(log)] == ["loss"]


def test_a_thousand_pairs_on_a_line_are_all_read():
    names = [f"loss_{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}q" for n in range(1000)]
    line = "step 7 " + " ".join(f"{name}=0.5" for name in names)
    records = Parser().feed(f"{line}\n".encode())
    assert [(record.name, record.step) for record in records] == [(name, 7) for name in names]
