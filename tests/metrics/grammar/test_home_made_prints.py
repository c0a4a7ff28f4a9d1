"""Prints of scripts that name their numbers in other ways than most: each line with what it says."""

import pytest

from batchai_magics.metrics import Parser, read_metrics
from batchai_magics.metrics.measurement import lines_of
from batchai_magics.metrics.runs.log_metrics import read_log


def rows_of(text):
    """The numbers of each line with their position."""
    rows = read_metrics(text.encode()).to_dict()["records"]
    return [
        {name: value for name, value in row.items() if value is not None and name != "rank"} for row in rows
    ]


LINES = {
    "(7/63) LR: 0.125 Batch: 1.5s | TOTAL: 0min | ETA: 1min | Loss: 0.25": {
        "step": 7,
        "lr": 0.125,
        "batch": 1.5,
        "loss": 0.25,
    },
    "epoch 3, total_step 5340, total loss is 0.5, training accuracy is 0.25": {
        "epoch": 3,
        "step": 5340,
        "total_loss": 0.5,
        "training_accuracy": 0.25,
    },
    "Training Epoch 3 L1: 7.25, EPE: 0.5:  80%|8| 105/131.0 [01:03<00:19,  1.3it/s]": {
        "epoch": 3,
        "step": 105,
        "l1": 7.25,
        "epe": 0.5,
    },
    '{"valid": {"metrics": {"f1": 0.5}, "epochs_done": 3, "batches_seen": 40, "impatience": 0}}': {
        "epoch": 3,
        "step": 40,
        "val_f1": 0.5,
    },
    "Ep   3 | tr_loss 0.5 | vl_loss 0.25 | vl_f1 0.75": {
        "epoch": 3,
        "tr_loss": 0.5,
        "val_loss": 0.25,
        "val_f1": 0.75,
    },
    "Epoch 3 | loss 0.5 (val 0.25) | acc 0.75 (val 0.625)": {
        "epoch": 3,
        "loss": 0.5,
        "val_loss": 0.25,
        "acc": 0.75,
        "val_acc": 0.625,
    },
    "Accuracy at epoch 3 is 0.75 and loss is 0.5": {"epoch": 3, "accuracy": 0.75, "loss": 0.5},
    "step 100: 2.25 loss (12.5% acc)": {"step": 100, "loss": 2.25, "acc": 12.5},
    "Validation 2 at epoch 3 [time: 1.5s, loss: 0.5]": {"epoch": 3, "val_time": 1.5, "val_loss": 0.5},
    "{'accuracy': '0.75', 'loss': '0.5', 'epoch': 3, 'train': False}": {
        "epoch": 3,
        "val_accuracy": 0.75,
        "val_loss": 0.5,
    },
    "{'accuracy': '0.75', 'loss': '0.5', 'epoch': 3, 'train': True}": {
        "epoch": 3,
        "accuracy": 0.75,
        "loss": 0.5,
    },
    "Epoch is [3/9], mini-batch is [7/9], time consumption is 1.5, batch_loss is 0.25": {
        "epoch": 3,
        "step": 7,
        "time_consumption": 1.5,
        "batch_loss": 0.25,
    },
    "=>Epoches 3, learning rate = 0.25,       previous best = 0.5": {"epoch": 3, "learning_rate": 0.25},
    "Iteration   50, KL divergence 4.5, 50 iterations in 0.25 sec": {"step": 50, "kl_divergence": 4.5},
    "ep 3 train, step 10, error 0.5, exp. remaining 0:01:02, complete 7.25%": {
        "epoch": 3,
        "step": 10,
        "error": 0.5,
        "complete": 7.25,
    },
    "2026-01-05 12:00:30,123 train.py[line:363] DEBUG: Train step_40: loss : 0.5,loss xy : 0.25": {
        "step": 40,
        "loss": 0.5,
        "loss_xy": 0.25,
    },
    "Epoch 3: F1(k=20): 0.5 - NDCG(k=20): 0.25": {"epoch": 3, "f1(k=20)": 0.5, "ndcg(k=20)": 0.25},
    "[INFO] SASRec-SASRec-github: epoch 3 training [time: 1.5s, train loss: 0.25]": {
        "epoch": 3,
        "time": 1.5,
        "train_loss": 0.25,
    },
    "Total rewards in episode 3 is 21.5 total number of steps are 3626": {"step": 3, "total_rewards": 21.5},
    "[3/20] loss (train/val): 0.5/0.25  acc (train/val): 0.75/0.625": {
        "step": 3,
        "loss": 0.5,
        "val_loss": 0.25,
        "acc": 0.75,
        "val_acc": 0.625,
    },
    "epoch: 3 | loss: 0.5 | dev-clean-loss: 0.25": {"epoch": 3, "loss": 0.5, "val_clean-loss": 0.25},
    "Epoch 3 finished. Train loss = 1.25 (acc = 45.5%), Val loss = 1.5 (acc = 41.25%)": {
        "epoch": 3,
        "train_loss": 1.25,
        "acc": 45.5,
        "val_loss": 1.5,
        "val_acc": 41.25,
    },
    "iteration 100: total loss 0.75 (ce 0.5, kd 0.25)": {
        "step": 100,
        "total_loss": 0.75,
        "ce": 0.5,
        "kd": 0.25,
    },
    "Epoch 3/9, 12.3s - train: 0.25 (acc 0.75) - val: 0.375 (acc 0.625)": {
        "epoch": 3,
        "metric": 0.25,
        "acc": 0.75,
        "val_metric": 0.375,
        "val_acc": 0.625,
    },
    "Epoch 3: train loss 0.25 (val loss 0.5)": {"epoch": 3, "train_loss": 0.25, "val_loss": 0.5},
    "Epoch 3 dice: 0.75 (threshold: 0.5)": {"epoch": 3, "dice": 0.75},
    "Epoch 3 loss: 0.5 (avg: 0.75)": {"epoch": 3, "loss": 0.5},
    "Epoch 3 (train) loss=0.75 acc=0.5 (valid) loss=0.625 acc=0.25": {
        "epoch": 3,
        "loss": 0.75,
        "acc": 0.5,
        "val_loss": 0.625,
        "val_acc": 0.25,
    },
    "[Epoch 3/9] [Batch 7/9] [G - gan1: 6.5, rec: 0.25, kld: 0.5] [D - real: 0.75, fake: 0.125]": {
        "epoch": 3,
        "step": 7,
        "g/gan1": 6.5,
        "g/rec": 0.25,
        "g/kld": 0.5,
        "d/real": 0.75,
        "d/fake": 0.125,
    },
    "VALIDATION: Epoch: 3 / 9; losses: [total: 0.25 (0.5); ] bench: [iou: 0.75 (0.5); ]": {
        "epoch": 3,
        "val_losses/total": 0.25,
        "val_bench/iou": 0.75,
    },
    "[3/9] train_loss => 0.25  valid_loss => 0.5": {"step": 3, "train_loss": 0.25, "val_loss": 0.5},
    "('Epoch:', 3, 'Loss:', 0.25, 'Accuracy:', 0.5)": {"epoch": 3, "loss": 0.25, "accuracy": 0.5},
    "Epoch\t3\tLoss\t0.25\tAcc\t0.5": {"epoch": 3, "loss": 0.25, "acc": 0.5},
    "Training loss for epoch 3 : 0.25": {"epoch": 3, "training_loss": 0.25},
    "Validation loss (epoch 3): 0.25": {"epoch": 3, "val_loss": 0.25},
    "After epoch 3 training loss is 0.25, validation accuracy is 61.5%": {
        "epoch": 3,
        "training_loss": 0.25,
        "val_accuracy": 61.5,
    },
    "Epoch 3, val loss 0.5. Patience 1/5": {"epoch": 3, "val_loss": 0.5},
    "Epoch 3: Loss: train=0.5, val=0.25; logMAE: train=-0.5, val=-0.25": {
        "epoch": 3,
        "loss": 0.5,
        "val_loss": 0.25,
        "logmae": -0.5,
        "val_logmae": -0.25,
    },
    "epoch 3 | accuracy: train 0.5 val 0.6": {"epoch": 3, "accuracy": 0.5, "val_accuracy": 0.6},
    "epoch 3, mean accuracy valid : 0.5, loss_validation: 0.25": {
        "epoch": 3,
        "val_mean_accuracy": 0.5,
        "val_loss": 0.25,
    },
    "Step 3   Fraction valid SMILES: 90.5   Score: 0.25": {
        "step": 3,
        "fraction_valid_smiles": 90.5,
        "score": 0.25,
    },
    "Epoch 3 of 10 completed with a loss of 0.5 and validation accuracy of 82.5%.": {
        "epoch": 3,
        "loss": 0.5,
        "val_accuracy": 82.5,
    },
    "Training at Epoch 3 iteration 7 with loss 12.5. Total time 0.001 hours": {
        "epoch": 3,
        "step": 7,
        "loss": 12.5,
    },
    "Epoch: 3  mAP@0.5: 0.75  mAP@0.5:0.95: 0.25": {"epoch": 3, "map@0.5": 0.75, "map@0.5:0.95": 0.25},
    "Epoch 3 mAP@.5 0.75 mAP@.5:.95 0.25": {"epoch": 3, "map@.5": 0.75, "map@.5:.95": 0.25},
    "Epoch 3: mAP_0.5: 0.75, mAP_0.5:0.95: 0.25": {"epoch": 3, "map_0.5": 0.75, "map_0.5:0.95": 0.25},
    "Epoch 3 AP@[.5:.95]=0.25 AP@.5=0.75": {"epoch": 3, "ap@[.5:.95]": 0.25, "ap@.5": 0.75},
    "Epoch 3 mAP@0.5:0.75": {"epoch": 3, "map@0.5": 0.75},
    "Episode 3, reward sum 1.5": {"step": 3, "reward_sum": 1.5},
    "At iteration 7/90/91, Mean rms=7.5%, BCER train=3.5%,  wrote checkpoint.": {
        "step": 7,
        "mean_rms": 7.5,
        "bcer_train": 3.5,
    },
    "Epoch 3 | val acc 0.5 | * model saved *": {"epoch": 3, "val_acc": 0.5},
    "INFO acme 2026-01-02 03:04:05,678 | app.py:148 | epoch 3 loss 0.5": {"epoch": 3, "loss": 0.5},
    "[train] Step 7 out of 90 | Loss --> 0.5 | Grad_l2 --> 0.25 |": {"step": 7, "loss": 0.5, "grad_l2": 0.25},
    "Synced meters: [phase: test] [epoch: 3] [loss: 0.5]": {"epoch": 3, "test_loss": 0.5},
    "[phase: valid] [epoch: 3] [loss: 0.5]": {"epoch": 3, "val_loss": 0.5},
    "epoch: 3 loss: 0.5 mode=eval": {"epoch": 3, "val_loss": 0.5},
    "Epoch 3 Result <val>: [val_time: 9.5 (s), val_MAE: 0.5]": {"epoch": 3, "val_time": 9.5, "val_mae": 0.5},
    "Time 00h 02m 11s, num steps 90, FPS 50, episode reward -1.5, episode length 81": {
        "step": 90,
        "fps": 50.0,
        "episode_reward": -1.5,
        "episode_length": 81.0,
    },
    "INFO logger.py(52): iter: 7/90, loss: 0.5, loss_aux0: 0.25": {"step": 7, "loss": 0.5, "loss_aux0": 0.25},
    "2026-01-02 03:04:05,678 - my-model - INFO - Epoch 3 loss: 0.5": {"epoch": 3, "loss": 0.5},
    "Test Epoch: 3\tAccuracy: 8869/11005 (81%)": {"epoch": 3, "test_accuracy": 81.0},
    "Epoch 3 | Loss 0.25 | Correct 4512/10000 (45.12%)": {"epoch": 3, "loss": 0.25, "correct": 45.12},
    "Train: [ 3/10] 45% (450/1000) loss=0.25": {"epoch": 3, "step": 450, "loss": 0.25},
    "[#000123] Loss A: 0.25, Loss B: 0.5": {"step": 123, "loss_a": 0.25, "loss_b": 0.5},
    "epoch:3, Train: Absolute_Depth_loss= 0.25, Contrastive_Depth_loss= 0.5 ": {
        "epoch": 3,
        "absolute_depth_loss": 0.25,
        "contrastive_depth_loss": 0.5,
    },
    "Epoch  3,   550/  725; acc:  10.5; ppl:  11.5; 5187 src tok/s; 5634 tgt tok/s;     55 s elapsed": {
        "epoch": 3,
        "step": 550,
        "acc": 10.5,
        "ppl": 11.5,
        "tok/s": 5187.0,
    },
    "Episode: 10 | Total reward: -120.5 | Steps: 87 | Loss: 0.25": {
        "step": 10,
        "total_reward": -120.5,
        "loss": 0.25,
    },
    "Episode 12 finished after 200 timesteps, total reward: 21.5": {"step": 12, "total_reward": 21.5},
    "Frame 10000: mean reward over last 100 episodes = -19.5": {"step": 10000, "mean_reward": -19.5},
    "Epoch: 3, global epoch: 13, lr: 0.5, tok/s: 120": {"epoch": 3, "lr": 0.5, "tok/s": 120.0},
    "Step 300, average loss over 100 steps: 0.25": {"step": 300, "average_loss": 0.25},
    "Epoch 3 | val_loss 0.25 *best*": {"epoch": 3, "val_loss": 0.25},
    "iter 300/1000 eta 0:12:34 loss 0.25 | 12:34:56": {"step": 300, "loss": 0.25},
    "epoch:3,训练集损失为0.25,测试集准确率为91.5%": {"epoch": 3, "train_loss": 0.25, "test_accuracy": 91.5},
    "迭代次数：100，当前损失值：0.25": {"step": 100, "loss": 0.25},
    "【验证】第 3 轮，平均损失：0.25，准确率：51.5%": {
        "epoch": 3,
        "val_avg_loss": 0.25,
        "val_accuracy": 51.5,
    },
    "Fin de l'époque 3 : perte=0.25": {"epoch": 3, "loss": 0.25},
    "Después de la época 3: pérdida = 0.25": {"epoch": 3, "loss": 0.25},
    "epoch 3: train loss, train acc, val loss = 0.25, 0.75, 0.5": {
        "epoch": 3,
        "train_loss": 0.25,
        "train_acc": 0.75,
        "val_loss": 0.5,
    },
    "val, round, loss, acc  ===> 003, 0.25, 0.75,": {"step": 3, "val_loss": 0.25, "val_acc": 0.75},
    "Epoch 3 (train_loss, val_loss): (0.25, 0.5)": {"epoch": 3, "train_loss": 0.25, "val_loss": 0.5},
    "epoch 3: alpha, beta, loss = 0.125, 0.5, 0.25": {"epoch": 3, "loss": 0.25},
    "epoch - 3 loss - 0.25 val_loss - 0.5": {"epoch": 3, "loss": 0.25, "val_loss": 0.5},
    "Epoch 3/9 - loss - 0.25 - acc - 0.75": {"epoch": 3, "loss": 0.25, "acc": 0.75},
    "[Epoch 3] train loss - 0.25, val loss - 0.5": {"epoch": 3, "train_loss": 0.25, "val_loss": 0.5},
    "Epoch 3: 0.25 (train loss), 0.5 (val loss)": {"epoch": 3, "train_loss": 0.25, "val_loss": 0.5},
    "Finished epoch 3, mean loss was 0.25, accuracy 75.5 %": {
        "epoch": 3,
        "mean_loss": 0.25,
        "accuracy": 75.5,
    },
    "In epoch 3 the training loss was 0.25 and the validation loss was 0.5.": {
        "epoch": 3,
        "training_loss": 0.25,
        "val_loss": 0.5,
    },
    "epoch 3: (loss, acc) = (0.25, 0.75); (val_loss, val_acc) = (0.5, 0.625)": {
        "epoch": 3,
        "loss": 0.25,
        "acc": 0.75,
        "val_loss": 0.5,
        "val_acc": 0.625,
    },
    "batch 300 of 600 (50%) with 32 samples, loss 0.25": {"step": 300, "loss": 0.25},
    "Batch 300: loss was 0.25": {"step": 300, "loss": 0.25},
    "iter    3  loss = 0.25D+02  |g| = 0.125D-01": {"step": 3, "loss": 25.0},
    "Epoch 3 | loss 0.25 | val 0.5 | best 0.125 | patience 1/5": {
        "epoch": 3,
        "loss": 0.25,
        "val_metric": 0.5,
    },
    "step 300 loss 0.25 EarlyStopping counter: 3 out of 10": {"step": 300, "loss": 0.25},
    "Episode 3 → reward: 21.5 | ε: 0.912 | α=0.5": {"step": 3, "reward": 21.5},
    "Training loss (for one batch) at step 300: 0.25": {"step": 300, "training_loss": 0.25},
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_gives_the_numbers_that_it_names(line):
    assert rows_of(line + "\n") == [LINES[line]]


@pytest.mark.parametrize("line", LINES)
def test_the_digits_of_the_first_line_do_not_decide_how_others_are_read(line):
    other = line.replace("3", "4").replace("5", "6")
    alone = rows_of(line + "\n")
    assert rows_of(f"{other}\n{line}\n")[-len(alone) :] == alone


def test_a_replica_of_torchx_is_a_rank():
    (row,) = read_metrics(b"[trainer0|3]:step 10 loss 0.25\n").to_dict()["records"]
    assert (row["rank"], row["step"], row["loss"]) == (3, 10, 0.25)


def test_the_name_of_an_object_may_be_its_phase():
    text = "".join(
        f'{{"name": "{phase}", "epoch": 3, "cer": 0.25, "average loss": 2.5}}\n'
        for phase in ("train", "validation", "run 7")
    )
    assert rows_of(text) == [
        {"epoch": 3, "cer": 0.25, "average loss": 2.5},
        {"epoch": 3, "val_cer": 0.25, "val_average loss": 2.5},
        {"epoch": 3, "cer": 0.25, "average loss": 2.5},
    ]


@pytest.mark.parametrize("mark", ['"', "'"])
def test_a_mode_beside_a_name_is_the_phase(mark):
    members = ["'mode': 'train'", "'name': 'test'", "'step': 3", "'loss': 0.5"]
    for first, second in ((0, 1), (1, 0)):
        line = "{" + ", ".join([members[first], members[second], *members[2:]]) + "}\n"
        assert rows_of(line.replace("'", mark)) == [{"step": 3, "loss": 0.5}]


def test_numbers_of_a_numbered_set_are_those_of_its_epoch():
    text = "(Epoch 20) TRAIN LOSS:0.25 CER:6.5%\nVALID\nVALID SET 0 LOSS:0.5 CER:5.5%\n"
    assert rows_of(text) == [
        {"epoch": 20, "train_loss": 0.25, "cer": 6.5},
        {"epoch": 20, "val_loss": 0.5, "val_cer": 5.5},
    ]


def test_an_evaluation_that_begins_is_a_heading():
    text = "Epoch 3 loss 0.25\nEvaluation started...\nloss: 0.5\n"
    assert rows_of(text) == [{"epoch": 3, "loss": 0.25}, {"epoch": 3, "val_loss": 0.5}]


@pytest.mark.parametrize(
    "text",
    [
        "train:\n  epoch: 100\n  lr: 0.001\n  warmup_steps: 500\nmodel:\n  dropout: 0.1\n",
        "scheduler: epoch 10 -> lr 0.01, epoch 20 -> lr 0.001\n",
    ],
)
def test_settings_that_name_an_epoch_are_no_metrics(text):
    assert rows_of(text) == []


def test_upper_case_and_arrows_do_not_make_settings_of_measurements():
    text = "EPOCH=3 STEP=10 LOSS=0.5\nstep 11 -> speed: 120.5 it/s\nEPOCH=4\nval loss: 0.25\n"
    whole = "EPOCH=2 STEP=10 LOSS=5 LR=0.1\nEPOCH=2 VAL_ACC=95\n"
    assert rows_of(whole + text) == [
        {"epoch": 2, "step": 10, "loss": 5.0, "lr": 0.1},
        {"epoch": 2, "val_acc": 95.0},
        {"epoch": 3, "step": 10, "loss": 0.5},
        {"epoch": 3, "step": 11, "speed": 120.5},
        {"epoch": 4, "val_loss": 0.25},
    ]


def test_training_goes_on_below_an_evaluation_without_a_bar():
    bar = " 5{0}%|##  | 5{0}/100 [00:05<00:05,  9.5it/s, loss=0.{0}]\n"
    text = bar.format(1) + "Evaluating...\n" + bar.format(2)
    assert [row.get("loss") for row in rows_of(text)] == [0.1, 0.2]


@pytest.mark.parametrize("result", ["", "val_loss: 0.25\n"])
def test_a_bar_of_the_next_epoch_below_an_evaluation_is_of_training(result):
    bar = "Epoch {0}:  {1}0%|##  | {1}0/100 [00:05<00:05,  9.5it/s, loss=0.{1}]\n"
    text = bar.format(1, 9) + "Evaluating...\n" + result + bar.format(2, 1) + bar.format(2, 2)
    rows = [(row["epoch"], row["step"], row["loss"]) for row in rows_of(text) if "loss" in row]
    assert rows == [(1, 90, 0.9), (2, 10, 0.1), (2, 20, 0.2)]


def test_a_time_behind_brackets_is_no_stack_frame():
    text = "step 10 loss 0.5 (saved) at 10:32\nstep 20 loss 0.4 (new best) at node1:32\n"
    assert [(row["step"], row["loss"]) for row in rows_of(text)] == [(10, 0.5), (20, 0.4)]


def test_numbers_below_a_counter_are_read_from_the_first_loss_on():
    block = "Epoch: {0}\n  loss: 0.{0}\n  lr: 0.0{0}\n"
    assert rows_of(block.format(1) + block.format(2)) == [
        {"epoch": 1, "loss": 0.1},
        {"epoch": 1, "lr": 0.01},
        {"epoch": 2, "loss": 0.2},
        {"epoch": 2, "lr": 0.02},
    ]


@pytest.mark.parametrize(
    "line",
    [
        "step 3: weights for loss, acc, kl: 0.5, 0.3, 0.2",
        "epoch 3: train, val, test = 0.8, 0.1, 0.1",
        "epoch 3: 0.53 loss - 0.81 acc - 0.7 f1",
        "epoch 3, previous loss was 0.6",
        "epoch 3, the best loss was 0.4",
        "epoch 3: the loss was 0.5 before",
        "epoch 3 commit 3D-10 loss",
    ],
)
def test_other_lists_dashes_and_sentences_give_no_numbers(line):
    assert rows_of(line + "\n") == []


def test_an_abbreviated_phase_within_a_name_is_that_of_its_number():
    (row,) = lines_of(Parser().feed(b"Epoch 3 of 9, avg. train loss 0.25, avg. val. loss 0.5\n"))
    assert [(each.value, each.phase) for each in row] == [(0.25, "train"), (0.5, "val")]


def test_the_mean_over_an_epoch_stands_below_its_steps():
    text = "Start of epoch 3\nTraining loss (for 1 batch) at step 0: 0.5\nTraining acc over epoch: 0.75\n"
    assert rows_of(text)[1:] == [{"epoch": 3, "training_acc_over_epoch": 0.75}]


TRAIN_AND_VAL = {
    "indented": "Epoch 3:\n  val:\n    loss: 0.5\n  train:\n    loss: 0.25\n",
    "as JSON": 'Epoch 3\n{\n  "val": {\n    "loss": 0.5\n  },\n  "loss": 0.25\n}\n',
    "by split": "Epoch 3\n| split | loss |\n|-------|------|\n| val | 0.5 |\n| train | 0.25 |\n| old | 1 |\n",
    "in blanks": "  Epoch 3\n  Split    Loss\n  -----  ------\n  val     0.5\n  train   0.25\n  old   1\n",
    "with a phase": "| Epoch | Phase | Loss |\n|---|---|---|\n| 3 | val | 0.5 |\n| 3 | train | 0.25 |\n",
}


@pytest.mark.parametrize("form", TRAIN_AND_VAL)
def test_the_losses_of_two_phases_stand_on_lines_of_their_own(form):
    assert rows_of(TRAIN_AND_VAL[form]) == [{"epoch": 3, "val_loss": 0.5}, {"epoch": 3, "loss": 0.25}]


ONE_TABLE = (
    "Epoch 3\nTrain Loss | Val Loss\n0.25 | 0.5\nmemory\n3.5 | 4.5\n",
    "Epoch 3\n| Metric | Train | Val |\n|--------|-------|-----|\n| loss   | 0.25  | 0.5 |\n",
)


@pytest.mark.parametrize("text", ONE_TABLE)
def test_a_table_below_its_position_may_have_measures_alone(text):
    assert rows_of(text) == [{"epoch": 3, "loss": 0.25, "val_loss": 0.5}]


@pytest.mark.parametrize("text", ONE_TABLE)
def test_such_a_table_without_a_position_gives_nothing(text):
    assert rows_of(text.removeprefix("Epoch 3\n")) == []


@pytest.mark.filterwarnings("ignore::batchai_magics.metrics.MetricsWarning")  # a notice may name them
def test_assigned_measures_below_a_phase_are_read_and_settings_are_not():
    settings = "  iou_threshold = 0.5\n  iou = 0.5\n"
    assert rows_of(f"eval:\n  accuracy = 0.93\n{settings}") == [{"val_accuracy": 0.93}]
    assert rows_of("epoch: 100\nval:\n  loss: 1.5\n  iou: 0.5\n") == []
    assert rows_of("train:\n  lr: 0.1\n  loss: 1.5\n") == []
    assert rows_of("Training:\nepoch 3 loss 0.5\nTraining:\n  loss: 0.7\n") == [{"epoch": 3, "loss": 0.5}]


@pytest.mark.parametrize("bar", ["9.5it/s", "2.5s/it", "9.5it/s, loss=0.75"])
def test_text_right_after_a_bar_is_read(bar):
    rows = rows_of(f"100%|####| 10/10 [00:01<00:00,  {bar}]Epoch 3: val loss 0.5 acc 0.25\n")
    assert rows[-1] == {"epoch": 3, "val_loss": 0.5, "val_acc": 0.25}


@pytest.mark.parametrize("left", ["", " ETA is  7:57:00.49", " ETA: 7:57:00", ", ETA 12 min"])
def test_a_loss_below_its_position_may_have_the_time_left_behind_it(left):
    rows = rows_of(f"Epoch 3/9, Batch 16/29\nTotal loss is  236.5{left}\n")
    assert rows == [{"epoch": 3, "step": 16, "total_loss": 236.5}]


def test_episodes_of_a_test_are_counted_beside_its_reward():
    rows = rows_of("Episode: 3, reward: 1.5\n----\nTest Episodes: 10, Avg. Reward: 2.5\n")
    assert rows[-1] == {"step": 3, "test_episodes": 10.0, "test_avg._reward": 2.5}


def test_a_table_of_several_columns_of_numbers_names_none_after_a_number():
    rule, row = "+------+-----+-----+-----+", "| loss | 0.5 | 0.6 | 0.7 |"
    text = f"---- [Epoch 0/9, Batch 11/50] ----\n{rule}\n{row}\n{rule}\n"
    assert all(name in ("step", "epoch", "loss") for row in rows_of(text) for name in row)


def test_the_last_line_of_a_test_that_counts_epochs_is_of_it():
    rows = rows_of(" | Epoch: [1][1/9]  Err 0.5  top1  50.0\n * Finished epoch # 1     top1:  40.0\n")
    assert rows[-1] == {"epoch": 1, "val_top1": 40.0}


@pytest.mark.parametrize("event", ["Best model:", "Loaded checkpoint of", "Saved model at", "Resuming from"])
def test_an_event_with_a_loss_gives_no_number(event):
    assert not rows_of(f"{event} epoch 3 with a loss of 0.5\n")


def test_a_bar_right_below_the_heading_of_an_epoch_and_a_phase_is_of_that_phase():
    bar = "100%|####| {0}/{0} [00:30<00:00,  3.31it/s, acc={1}]\n"
    text = "=== Epoch 3 train ===\n" + bar.format(100, 0.5) + "=== Epoch 3 val ===\n" + bar.format(20, 0.75)
    result = "Evaluation result: {'acc': 0.625, 'micro_p': 0.25, 'micro_f1': 0.125}\n"
    assert rows_of(text + result) == [
        {"epoch": 3, "step": 100, "acc": 0.5},
        {"epoch": 3, "val_acc": 0.75},
        {"epoch": 3, "val_acc": 0.625, "val_micro_p": 0.25, "val_micro_f1": 0.125},
    ]


def test_a_learning_rate_of_the_next_epoch_ends_the_evaluation_above():
    text = "[Epoch {0}]\tLearning rate: 1e-4\n[16/160]\t[L1: {0}.5]\nEvaluation:\nPSNR: 3{0}.5\n"
    rows = rows_of(text.format(1) + text.format(2))
    assert [(row["epoch"], row["l1"]) for row in rows if "l1" in row] == [(1, 1.5), (2, 2.5)]
    assert [(row["epoch"], row["val_psnr"]) for row in rows if "val_psnr" in row] == [(1, 31.5), (2, 32.5)]


def test_a_batch_between_rules_holds_for_the_lines_below():
    text = "**** EPOCH 003 ****\n ---- batch: 010 ----\nmean box_loss: 0.5\nmean loss: 0.25\n"
    assert rows_of(text) == [
        {"epoch": 3, "step": 10, "mean_box_loss": 0.5},
        {"epoch": 3, "step": 10, "mean_loss": 0.25},
    ]


def test_numbers_of_validation_alone_belong_to_the_step_above():
    text = (
        "step: 20, cost: 0.5\nbest_valid_cost: 0.25, valid_cost: 0.25, valid_recon: 0.125, valid_kl: 0.75\n"
    )
    assert rows_of(text)[1] == {"step": 20, "val_cost": 0.25, "val_recon": 0.125, "val_kl": 0.75}


def test_a_mean_over_some_batches_of_a_test_is_of_its_epoch():
    assert rows_of("Eval epoch: 3\n\tMean test loss of 258 batches: 1.5.\n") == [
        {"epoch": 3, "mean_test_loss": 1.5}
    ]


def test_an_object_over_several_lines_is_read_at_its_own_position():
    flat = '{\n  "epoch": 3,\n  "loss": 0.5,\n  "val_loss": 0.25\n}\n'
    split = '"train": {\n    "loss": 0.5\n  },\n  "val": {\n    "loss": 0.25\n  },'
    nested = f'{{\n  {split}\n  "epoch": 3\n}}\n'
    for text in (flat, nested):
        assert rows_of(text) == [{"epoch": 3, "loss": 0.5, "val_loss": 0.25}]


@pytest.mark.parametrize(
    "members",
    [
        '"epochs": 3, "loss_scale": 0.5',
        '"epoch": 3, "seed": 1, "loss": 0.5',
        '"model": "a", "loss": 0.5',
        '"epoch": 3, "loss": 0.5, "data": {"batch_size": 32}',
    ],
)
def test_an_object_of_settings_over_several_lines_gives_nothing(members):
    lines = ",\n  ".join(members.split(", "))
    assert rows_of(f"{{\n  {lines}\n}}\n") == []


@pytest.mark.parametrize("begin", ["{\n", '{\n  "epoch": 3,\n', "{\n  [\n"])
def test_an_object_that_does_not_end_hides_no_line_that_begins_with_a_number(begin):
    line = "10/10 [=====] - 3s 3ms/step - loss: 0.5\n"
    assert rows_of(begin + line) == rows_of(line)


def test_a_printed_dict_over_several_lines_keeps_training_apart_from_validation():
    text = "{'epoch': 3,\n 'loss': 0.5,\n 'val_loss': 0.25}\n"
    assert rows_of(text) == [{"epoch": 3, "loss": 0.5, "val_loss": 0.25}]


def test_a_count_in_brackets_before_a_bar_is_the_epoch():
    line = "[{0}/9] Loss_D: 0.{0}: 100%|####| 25/25 [01:12<00:00,  3.45it/s]\n"
    assert rows_of(line.format(1) + line.format(2)) == [
        {"epoch": 1, "step": 25, "loss_d": 0.1},
        {"epoch": 2, "step": 25, "loss_d": 0.2},
    ]


def test_a_count_in_the_words_gives_no_name_to_the_value():
    text = "Time steps: {0}000\nEvaluation over 10 episodes: 1{0}.5, D4RL score: 3{0}.5\n"
    assert rows_of(text.format(1) + text.format(2)) == [
        {"step": 1000, "val_episode_return": 11.5, "val_d4rl_score": 31.5},
        {"step": 2000, "val_episode_return": 12.5, "val_d4rl_score": 32.5},
    ]
    assert rows_of("Step 7: loss: 0.5\nEval on 10 episodes: 2.5, score: 0.25\n")[1:] == [
        {"step": 7, "val_score": 0.25}
    ]


def test_a_flag_in_a_column_tells_the_phase():
    text = "accuracy | loss | epoch | train\n-- | -- | -- | --\n"
    text += "0.75 | 0.5 | 3 | True\n0.25 | 0.125 | 3 | False\n"
    assert rows_of(text) == [
        {"epoch": 3, "accuracy": 0.75, "loss": 0.5},
        {"epoch": 3, "val_accuracy": 0.25, "val_loss": 0.125},
    ]


def test_a_current_accuracy_below_losses_of_both_phases_is_of_validation():
    text = "[100/300] Train loss: 0.5, Valid loss: 0.25\nCurrent_accuracy : 0.75, Current_norm_ED  : 0.125\n"
    assert rows_of(text)[1] == {"step": 100, "val_current_accuracy": 0.75, "val_current_norm_ed": 0.125}


def test_parts_of_a_loss_below_its_step_are_of_that_step():
    prefix = "[INFO] [2026-01-05 12:00:00,123] "
    text = f"{prefix}step: 100, loss: 0.5, lr: 0.25\n{prefix}bce_loss: 0.125\n{prefix}thresh_loss: 0.75\n"
    assert [(row["step"], *list(row.values())[-1:]) for row in rows_of(text)] == [
        (100, 0.25),
        (100, 0.125),
        (100, 0.75),
    ]


@pytest.mark.parametrize("line", ["final_loss: 0.125", "best_loss: 0.125", "error: 404", "mem_error: 0.125"])
def test_a_number_alone_below_a_step_that_is_no_part_of_its_loss_is_not_read(line):
    metrics = read_log(f"INFO step: 100, loss: 0.5\nINFO {line}\n".encode(), {})
    assert [record.name for record in metrics.records] == ["loss"]


def test_losses_below_timers_below_a_step_are_of_that_step():
    text = "Epoch: [1][20/99] lr: 0.5\n\tbatch_time: 0.35 (0.4)\tdata_time: 0.01 (0.05)\n"
    text += "\ttotal_loss: 0.25 (0.5)\tcls_loss: 0.125 (0.5)\n\tloc_loss: 0.75 (0.5)\n"
    assert rows_of(text)[1:] == [
        {"epoch": 1, "step": 20, "total_loss": 0.25, "cls_loss": 0.125},
        {"epoch": 1, "step": 20, "loc_loss": 0.75},
    ]


def test_a_block_of_metrics_holds_only_what_its_members_do_not_name():
    text = "Epoch 3\n=======\n\ttest_metrics:\n\ttrain_loss: 0.5\n\tval_loss: 0.25\n"
    text += "\tval_metrics:\n\t\tmean_MAE: 0.75\n"
    assert rows_of(text) == [
        {"epoch": 3, "train_loss": 0.5},
        {"epoch": 3, "val_loss": 0.25},
        {"epoch": 3, "val_mean_mae": 0.75},
    ]


def test_a_loss_of_the_epoch_alone_on_its_line_is_read():
    text = "Epoch is [3/9], mini-batch is [7/9], time consumption is 1.5, batch_loss is 0.25\n"
    assert {"epoch": 3, "epoch_loss": 0.5, "epoch_time": 1.5} in rows_of(
        text + "epoch_loss is 0.5, epoch_time is 1.5\n"
    )


def test_a_loss_below_a_step_without_one_is_of_that_step():
    text = "global step 1600; learning rate 0.25; step-time 0.5;\nperp -1.5\nloss 6.5\nD-loss 1.25\n"
    assert rows_of(text)[1:] == [{"step": 1600, "loss": 6.5}, {"step": 1600, "d-loss": 1.25}]
