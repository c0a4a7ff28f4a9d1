"""Positions, prefixes, phases and tables in the forms in which people print them."""

import json

import pytest

from batchai_magics.metrics import read_metrics
from tests.metrics.grammar.test_plain_lines import rows_of

PLACES = {
    "Iteration: {}\nLoss: 0.5\nAccuracy: 0.25\n": "step",
    "Iteration:\t {}\nTrajectories:\t 200\nTimesteps:\t 3200\nLoss:\t 0.5\nAccuracy:\t 0.25\n": "step",
    "Epoch = {}\nLoss: 0.5\nAccuracy: 0.25\n": "epoch",
    "Episode {}\nLoss: 0.5\nAccuracy: 0.25\n": "step",
    "After {} epochs: loss=0.5 accuracy=0.25\n": "epoch",
    "After {} steps: loss 0.5, accuracy 0.25\n": "step",
    "----[Agent Step 1_00{}]----\nloss 0.5 / accuracy 0.25\n": "step",
    "rollout {}: {{'rollout/loss': 0.5, 'rollout/accuracy': 0.25}}\n": "step",
    "ppo epoch:  2/ 4 | iter:    {}/  5000 | loss: 0.5 | accuracy: 0.25\n": "step",
    "data_epochs  0/10 | inner iter:   1/  8 | global iter:   {}/ 5000| loss: 0.5 | accuracy: 0.25\n": "step",
}


@pytest.mark.parametrize("form", PLACES)
def test_a_position_is_read_in_any_form(form):
    log = read_metrics("".join(form.format(n) for n in (1, 2, 3)).encode())
    rows = log.to_dict()["records"]
    assert [[value for value in row.values() if value in (0.5, 0.25)] for row in rows] in (
        [[0.5, 0.25]] * 3,
        [[0.5], [0.25]] * 3,
    )
    places = dict.fromkeys(row[PLACES[form]] for row in rows)
    assert [*places] in ([1, 2, 3], [1001, 1002, 1003])


PREFIXES = (
    "INFO:my-model:",
    "24 Apr 05:00    INFO  ",
    "2026-05-22T21:34:07 - 0 - acme.train - train.py:145 - INFO :: ",
    "I1121 10:00:00.123456 140 train.py:88] ",
)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_is_passed(prefix):
    rows = rows_of("".join(f"{prefix}step = {n}, loss = 0.{n}\n" for n in (1, 2)))
    assert rows == [{"step": 1, "loss": 0.1}, {"step": 2, "loss": 0.2}]


PHASES = {
    "Epoch 1, train/val loss: 0.5/0.6\n": {"epoch": 1, "loss": 0.5, "val_loss": 0.6},
    "Epoch 1: train_loss 0.5 (val 0.6)\n": {"epoch": 1, "train_loss": 0.5, "val_loss": 0.6},
    "[10]\tcv_agg's train l2: 0.5 + 0.01\tcv_agg's valid l2: 0.6 + 0.01\n": {
        "step": 10,
        "train_l2": 0.5,
        "val_l2": 0.6,
    },
}


@pytest.mark.parametrize("line", PHASES)
def test_the_numbers_of_two_phases_stand_on_one_line(line):
    assert rows_of(line) == [PHASES[line]]


def test_a_line_below_the_heading_of_an_evaluation_is_of_its_phase():
    text = "loss: 0.9, epoch: 0.01, step: 10\nEvaluating on val.\nloss: 1.8, epoch: 0.03\n"
    text += "loss: 0.8, epoch: 0.04, step: 20\n"
    assert rows_of(text) == [
        {"epoch": 0.01, "step": 10, "loss": 0.9},
        {"epoch": 0.03, "step": 10, "val_loss": 1.8},
        {"epoch": 0.04, "step": 20, "loss": 0.8},
    ]


TABLES = {
    "gen\tnevals\tavg    \tstd  \tmin\tmax\n1  \t300   \t50.125 \t5.5  \t38 \t63 \n": {
        "step": 1,
        "avg": 50.125,
    },
    "Epoch ,Finished       ,LR    ,RMSE_Train ,RMSE_Val\n    1 ,04.29_01:45:54 ,0.001 , 1434.5   ,1103.5\n": {
        "epoch": 1,
        "rmse": 1434.5,
        "val_rmse": 1103.5,
    },
    "|===================|\n|  Epoch  |  Iteration  |  Mini-batch  |  Mini-batch  |\n"
    "|         |             |   Accuracy   |     Loss     |\n|===================|\n"
    "|       1 |          50 |      21.25%  |       2.5    |\n": {"step": 50, "mini-batch_loss": 2.5},
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_read_by_its_header(table):
    (row,) = rows_of(table)
    assert TABLES[table].items() <= row.items()


HYPERPARAMETERS = (
    "{'epoch': 100, 'batch_size': 64, 'lr': 0.001}\n",
    "╭────────────────┬─────────╮\n│ hyperparameter │ value   │\n├────────────────┼─────────┤\n"
    "│ epochs         │ 10      │\n│ loss_weight    │ 0.5     │\n╰────────────────┴─────────╯\n",
    "iterations: 5000\nloss_weight: 0.5\n",
)


@pytest.mark.parametrize("text", HYPERPARAMETERS)
def test_hyperparameters_are_no_metrics(text):
    assert rows_of(text) == []


def test_a_message_within_a_cloud_log_is_read():
    line = {
        "insertId": "a",
        "jsonPayload": {"level": "INFO", "message": "step 10: loss 2.5"},
        "labels": {"a": "b"},
    }
    assert rows_of(json.dumps(line) + "\n") == [{"step": 10, "loss": 2.5}]


def test_a_log_in_utf_16_is_read():
    text = "step 10: loss 2.5\r\nstep 20: loss 1.5\r\n"
    for data in (text.encode("utf-16"), b"\xfe\xff" + text.encode("utf-16-be")):
        assert [record.value for record in read_metrics(data).records] == [2.5, 1.5]
