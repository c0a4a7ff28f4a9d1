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
    "eta: 0:17:54  epoch/iter: 3/{}  loss: 0.5  accuracy: 0.25\n": "step",
    "Epochs: 1/60 || Iters: {}/123 || loss: 0.5 || accuracy: 0.25\n": "step",
    "Epochs: {}/60 || loss: 0.5 || accuracy: 0.25\n": "epoch",
    "{} / 1000 eps 0.9 |  loss 0.5 | accuracy 0.25\n": "step",
    "Batch {}/100 it, Epoch 2/200, loss 0.5, accuracy 0.25\n": "step",
    " {}/50000: episode: 588, loss: 0.5, accuracy: 0.25\n": "step",
    "Epoch 2 / 50, i = {} / 973, loss = 0.5, accuracy = 0.25\n": "step",
    "Pass 4, Batch {}, loss 0.5, accuracy 0.25\n": "step",
    "Pass {}, Batch 4, loss 0.5, accuracy 0.25\n": "epoch",
    "Pass {}/9 | Batch 4 | loss 0.5 accuracy 0.25\n": "epoch",
    "Epoch[4] Batch [0-{}]\tloss=0.5\taccuracy=0.25\n": "step",
    "[epoch]: 4, [batch]: {}, [loss]: 0.5, [accuracy]: 0.25\n": "step",
    "In step {}:\n [MICRO] loss: 0.5, accuracy: 0.25\n": "step",
    "Round {}\n\tTrain metrics: loss=0.5, accuracy=0.25\n": "step",
    "{{'Role': 'Server', 'Round': {}, 'Results': {{'loss': 0.5, 'accuracy': 0.25}}}}\n": "step",
    "[Epoch: {}, numImages:  1600]\nloss: 0.5, accuracy: 0.25\n": "epoch",
    "[Epoch: {}, num_batches: 40, samples: 1600]\nloss: 0.5, accuracy: 0.25\n": "epoch",
    "[Epoch: {}, num_images: 1600, time: 12]\nloss: 0.5, accuracy: 0.25\n": "epoch",
    "[Epoch: {}, clients: 10]\nloss: 0.5, accuracy: 0.25\n": "epoch",
    "Updates {}, FPS 1234\nloss: 0.5, accuracy: 0.25\n": "step",
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
    "[2026-03-13 09:06:10,661][       train.py][line: 833][    INFO] ",
    "[2026-04-08 05:21:17.183][ INFO](ignite.engine.Trainer) - ",
    "2026-02-22 03:56:54,944 - log\\train.log - INFO - ",
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
    "Epoch 1 - tr_loss: 0.5 - va_loss: 0.6\n": {"epoch": 1, "tr_loss": 0.5, "val_loss": 0.6},
    "epoch 1 | trainloss 0.5 | validloss 0.6 | testloss 0.7\n": {
        "epoch": 1,
        "trainloss": 0.5,
        "val_loss": 0.6,
        "test_loss": 0.7,
    },
    "epoch 1, loss 0.5, accuracy on test set: 0.25\n": {"epoch": 1, "loss": 0.5, "test_accuracy": 0.25},
    "Test reward: 21.5. Training step: 10/50. Loss: 0.5\n": {"step": 10, "test_reward": 21.5, "loss": 0.5},
    "step 10: mean/median reward 21.5/20.5, min/max reward 9.5/42.5\n": {
        "step": 10,
        "mean_reward": 21.5,
        "median_reward": 20.5,
        "min_reward": 9.5,
        "max_reward": 42.5,
    },
    "Val result at epoch [1/9]: mIoU/mAcc/allAcc 0.5/0.6/0.7.\n": {
        "epoch": 1,
        "val_miou": 0.5,
        "val_macc": 0.6,
        "val_allacc": 0.7,
    },
}


@pytest.mark.parametrize("line", PHASES)
def test_the_numbers_of_two_phases_stand_on_one_line(line):
    assert rows_of(line) == [PHASES[line]]


SETS = {
    "Epoch 3: done\n[dev set] F1: 0.5\n[test set] F1: 0.6\n": [
        {"epoch": 3, "val_f1": 0.5},
        {"epoch": 3, "test_f1": 0.6},
    ],
    "[Epoch: 3, images: 16]\nLoss: 0.9\nValidation:\n[Epoch: 3, images: 4]\nmIoU: 0.5\nLoss: 0.6\n": [
        {"epoch": 3, "loss": 0.9},
        {"epoch": 3, "val_miou": 0.5},
        {"epoch": 3, "val_loss": 0.6},
    ],
    "Epoch 3\nEval on valid:\nprecision: 4.5%; recall: 0.5%\n\tLOC: precision: 2.5%; recall: 0.25%\n": [
        {"epoch": 3, "val_precision": 4.5, "val_recall": 0.5},
        {"epoch": 3, "val_loc/precision": 2.5, "val_loc/recall": 0.25},
    ],
}


@pytest.mark.parametrize("text", SETS)
def test_numbers_are_of_the_set_that_is_named_before_them(text):
    assert rows_of(text) == SETS[text]


NAMES = {
    "Iter 5: loss 0.5, total rewards mean 0.25, grouped rewards mean 0.75\n": {
        "loss": 0.5,
        "total_rewards_mean": 0.25,
        "grouped_rewards_mean": 0.75,
    },
    "Epoch: 5 loss= 0.5 time per batch= 0.25\n": {"loss": 0.5, "time_per_batch": 0.25},
    "step 5 loss: 0.5, R²: 0.25\n": {"loss": 0.5, "r2": 0.25},
    "step 5 loss: 0.5, R^2: 0.25\n": {"loss": 0.5, "r2": 0.25},
    "iter 5: loss = 0.5, w = [0.25 0.75], bias = 0.125\n": {"loss": 0.5, "bias": 0.125},
    "step 5: 'loss'=0.5, 'accuracy'=0.25\n": {"loss": 0.5, "accuracy": 0.25},
    "iter 5 || ARM_L: 2.5 ARM_C: 3.5 TRM_L: 1.5\n": {"arm_l": 2.5, "arm_c": 3.5, "trm_l": 1.5},
    "Training: 10% 5/50 loss 0.5 accuracy 0.25\n": {"loss": 0.5, "accuracy": 0.25},
    "Epoch[5] Metrics -- left lung_mean_dice: 0.5 right lung_mean_dice: 0.25 left time: 79.5s\n": {
        "left_lung_mean_dice": 0.5,
        "right_lung_mean_dice": 0.25,
    },
    "Test: [5/80]\tTime 0.5 (0.5)\tEPE 5.25 (5.25)\n": {"val_time": 0.5, "val_epe": 5.25},
    "At step 5 the loss is 0.5\n": {"loss": 0.5},
    "Epoch 5. The mean loss is 0.5.\n": {"mean_loss": 0.5},
    "Generation 5: best fitness = 9.5, mean fitness = 7.5\n": {"mean_fitness": 7.5},
    "Epoch 1/3: loss 0.5 acc 95.5% 3/4 batches\n": {"loss": 0.5, "acc": 95.5},
    "Epoch 5: Loss: 0.5 | Acc: 95.5% 9550/10000\n": {"loss": 0.5, "acc": 95.5},
    "Step 5 validation: Accuracy: 98% 98/100\n": {"val_accuracy": 98},
    "Epoch 5 WARNING: loss: 0.5\n": {"loss": 0.5},
    "Epoch 5 trainer ERROR: loss: 0.5\n": {"loss": 0.5},
    "Epoch 5 lr 0.25 warning: loss: 0.5\n": {"lr": 0.25, "loss": 0.5},
    "Epoch 5 user@host: loss: 0.5\n": {"loss": 0.5},
    "Epoch 5 train.py: loss: 0.5\n": {"loss": 0.5},
    "Epoch 5 LOC: recall: 0.5\n": {"loc/recall": 0.5},
}


@pytest.mark.parametrize("line", NAMES)
def test_a_number_has_the_name_before_it(line):
    (row,) = rows_of(line)
    assert {name: value for name, value in row.items() if name not in ("step", "epoch")} == NAMES[line]


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
    "   epoch  train_loss  val_loss\n0      1         0.5      0.75\n": {
        "epoch": 1,
        "loss": 0.5,
        "val_loss": 0.75,
    },
    "step,loss\n7,0.5\n": {"step": 7, "loss": 0.5},
    "epoch   loss\n    1    0.5\n": {"epoch": 1, "loss": 0.5},
    "epoch;loss;acc\n1;0.5;0.75\n": {"epoch": 1, "loss": 0.5, "acc": 0.75},
    "Epoch,Train loss,Validation loss,MAE\n1,0.5,0.75,0.25\n": {"epoch": 1, "loss": 0.5, "val_loss": 0.75},
    "             timestamp    duration  number_of_trees  training_rmse  training_auc\n"
    "0  2026-01-01 10:00:00   0.010 sec              4.0       0.500000      0.750000\n": {
        "step": 4,
        "rmse": 0.5,
        "auc": 0.75,
    },
    "-------------------------  -------------\ntrainer/QF1 Loss                   12.5\n"
    "evaluation/Average Returns        -12.25\nEpoch                                  3\n"
    "-------------------------  -------------\n": {"epoch": 3, "trainer/qf1_loss": 12.5},
    "Iter   TrainDeviance   ValidDeviance   StepSize\n     7        1.5             nan     0.1000\n": {
        "step": 7,
        "deviance": 1.5,
    },
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
    "epoch: 100, hidden: 256, heads: 8\nloss: 0.5\n",
    "epoch 100 warmup 5 hidden 256\nloss: 0.5\n",
    "max_epoch: 100, epoch: 100, hidden: 3\nloss: 0.5\n",
    "epoch: 100 | bs: 32 | workers: 4\nloss: 0.5\n",
    "epoch: 100, batch_size: 32\nloss: 0.5\n",
    "epoch: 100, num_layers: 4\nloss: 0.5\n",
    "epoch: 100, n_train_samples: 30, n_val_samples: 2, n_steps: 4\nloss: 0.5\n",
    "------------  -----\nepochs        10\nlabel loss    0.5\n------------  -----\n",
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


def test_a_sentence_with_a_comma_is_no_header():
    assert rows_of("Epoch, loss and acc\n1, 2\n") == []
