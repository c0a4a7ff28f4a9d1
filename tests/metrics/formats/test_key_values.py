"""What people print themselves: numbers with their names, behind the place where they are."""

import math

import pytest

from batchai_magics.metrics import Parser
from tests.metrics.log_text import measurements

LINES = {
    "step 0: loss = 2.000, accuracy = 0.00": (None, 0, {"loss": 2.0, "accuracy": 0.0}),
    "Epoch 0: loss: 1.0 acc: 0.5": (0, None, {"loss": 1.0, "acc": 0.5}),
    "Epoch 00003: loss: 0.5": (3, None, {"loss": 0.5}),
    "Epoch: 001, Loss: 0.7, Train: 0.51, Val: 0.5": (
        1,
        None,
        {"loss": 0.7, "metric": 0.51, "val_metric": 0.5},
    ),
    "Epoch 1/10 - loss: 0.5 - accuracy: 0.9": (1, None, {"loss": 0.5, "accuracy": 0.9}),
    "Epoch   1: loss 0.5": (1, None, {"loss": 0.5}),
    "[Epoch 1/10] loss=0.5": (1, None, {"loss": 0.5}),
    "EPOCH 2 | loss 0.5 | acc 93.1%": (2, None, {"loss": 0.5, "acc": 93.1}),
    "epoch 3 of 10: loss=inf": (3, None, {"loss": math.inf}),
    "Epoch 5 (50%): loss 0.3": (5, None, {"loss": 0.3}),
    "Epoch [1/5], Step [100/600], Loss: 0.1547": (1, 100, {"loss": 0.1547}),
    "[Epoch 1/9] [Batch 10/100] [D loss: 0.5] [G loss: 0.4]": (1, 10, {"d_loss": 0.5, "g_loss": 0.4}),
    "Epoch 1, Step 7, Loss: 0.5 (avg 0.6), LR: 1e-3, ETA: 0:10:01": (1, 7, {"loss": 0.5, "lr": 0.001}),
    "Validation Epoch 3: loss: 0.5": (3, None, {"val_loss": 0.5}),
    "Test epoch 3: loss: 0.5": (3, None, {"test_loss": 0.5}),
    "Train Epoch 3: loss: 0.5": (3, None, {"loss": 0.5}),
    "step 0: train loss 4.2326, val loss 4.2333": (None, 0, {"train_loss": 4.2326, "val_loss": 4.2333}),
    "iter 20: loss 2.3117, time 210.33ms, mfu 3.20%": (
        None,
        20,
        {"loss": 2.3117, "time": 210.33, "mfu": 3.2},
    ),
    "Step #130 Loss: 0.412031": (None, 130, {"loss": 0.412031}),
    "step 50/50, iter_time(ms)=4.7, images/sec=211": (
        None,
        50,
        {"iter_time(ms)": 4.7, "images_per_sec": 211},
    ),
    "step 9 | loss 0.5 | speed 300 img/s": (None, 9, {"loss": 0.5, "images_per_sec": 300}),
    "step 9 | loss 0.5 | 12.5 samples/s: no": (None, 9, {"loss": 0.5}),
    "Train Epoch: 1 [640/60000 (1%)] Loss: 2.310000": (1, 640, {"loss": 2.31}),
    "{'step': 100, 'loss': 0.25}": (None, 100, {"loss": 0.25}),
    "step 10, loss = 4.66 (123.4 examples/sec; 0.104 sec/batch)": (None, 10, {"loss": 4.66}),
    "Iteration 5, loss = 0.44": (None, 5, {"loss": 0.44}),
    "Episode 10: reward = 200, length = 35": (None, 10, {"reward": 200, "length": 35}),
    "step 3: temperature = 3.5, energy = -12": (None, 3, {"temperature": 3.5, "energy": -12}),
    "{'loss': '2.1', 'grad_norm': '1.5', 'epoch': '0.08'}": (0.08, None, {"loss": 2.1, "grad_norm": 1.5}),
    "{'loss': 2.1, 'step': 10, 'epoch': 2}": (2, 10, {"loss": 2.1}),
}


def read(text):
    parser = Parser()
    return parser.feed(text.encode()) + parser.finish()


@pytest.mark.parametrize("line", LINES)
def test_a_line_gives_its_numbers_and_where_they_belong(line):
    epoch, step, numbers = LINES[line]
    records = measurements(read(f"{line}\n"))
    assert {record.name: record.value for record in records} == (numbers or {})
    assert {(record.epoch, record.step) for record in records} <= {(epoch, step)}


def test_a_time_and_a_share_have_their_units():
    assert [record.unit for record in read("iter 20: loss 2.3, time 210.33ms, mfu 3.20%\n")] == [
        "",
        "ms",
        "%",
    ]
