# ruff: noqa: E501 - lines as programs print them
"""Positions, prefixes, phases, names and tables in the forms in which people print them, in any language."""

import json

import pytest

from batchai_magics.metrics import read_metrics
from batchai_magics.metrics.measurement import FIT, Fact
from tests.metrics.program_samples import read


def rows_of(text):
    """The rows of a log, each with its position and numbers, without its rank."""
    rows = read_metrics(text.encode()).to_dict()["records"]
    return [
        {name: value for name, value in row.items() if value is not None and name != "rank"} for row in rows
    ]


def told(rows):
    """Rows that are written as `step=1 loss=0.5; step=2 loss=0.25`."""
    pairs = [[pair.split("=") for pair in row.split()] for row in rows.split(";")]
    return [{name: float(value) for name, value in row} for row in pairs]


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
    "Epoch 4, step/total_step: {}/60 8.33% loss:0.5 accuracy:0.25\n": "step",
    "Mon Nov 16 01:53:58 2026 Epoch: 4 Sample {}/76 loss: 0.5 accuracy: 0.25\n": "step",
    "iters:  1,00{} | loss: 0.5 | accuracy: 0.25 | 3,000 images seen\n": "step",
    "│   epoch = {}\n│   loss = 0.5\n└   accuracy = 0.25\n": "epoch",
    "train\tRun it\t2026-03-01T10:00:00.1234567Z Epoch {}/9, loss: 0.5, accuracy: 0.25\n": "epoch",
    'INFO - 07/14/26 19:43:11 - __log__:{{"epoch": {}, "loss": 0.5, "accuracy": 0.25}}\n': "epoch",
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


PHASES = {
    "Epoch 1, train/val loss: 0.5/0.6\n": "epoch=1 loss=0.5 val_loss=0.6",
    "Epoch 1: train_loss 0.5 (val 0.6)\n": "epoch=1 train_loss=0.5 val_loss=0.6",
    "[10]\tcv_agg's train l2: 0.5 + 0.01\tcv_agg's valid l2: 0.6 + 0.01\n": "step=10 train_l2=0.5 val_l2=0.6",
    "Epoch 1 - tr_loss: 0.5 - va_loss: 0.6\n": "epoch=1 tr_loss=0.5 val_loss=0.6",
    "epoch 1 | trainloss 0.5 | validloss 0.6 | testloss 0.7\n": "epoch=1 trainloss=0.5 val_loss=0.6 test_loss=0.7",
    "epoch 1, loss 0.5, accuracy on test set: 0.25\n": "epoch=1 loss=0.5 test_accuracy=0.25",
    "Test reward: 21.5. Training step: 10/50. Loss: 0.5\n": "step=10 test_reward=21.5 loss=0.5",
    "step 10: mean/median reward 21.5/20.5, min/max reward 9.5/42.5\n": "step=10 mean_reward=21.5 median_reward=20.5 min_reward=9.5 max_reward=42.5",
    "Val result at epoch [1/9]: mIoU/mAcc/allAcc 0.5/0.6/0.7.\n": "epoch=1 val_miou=0.5 val_macc=0.6 val_allacc=0.7",
}


@pytest.mark.parametrize("line", PHASES)
def test_the_numbers_of_two_phases_stand_on_one_line(line):
    assert rows_of(line) == told(PHASES[line])


SETS = {
    "Epoch 3: done\n[dev set] F1: 0.5\n[test set] F1: 0.6\n": "epoch=3 val_f1=0.5; epoch=3 test_f1=0.6",
    "[Epoch: 3, images: 16]\nLoss: 0.9\nValidation:\n[Epoch: 3, images: 4]\nmIoU: 0.5\nLoss: 0.6\n": "epoch=3 loss=0.9; epoch=3 val_miou=0.5; epoch=3 val_loss=0.6",
    "Epoch 3\nEval on valid:\nprecision: 4.5%; recall: 0.5%\n\tLOC: precision: 2.5%; recall: 0.25%\n": "epoch=3 val_precision=4.5 val_recall=0.5; epoch=3 val_loc/precision=2.5 val_loc/recall=0.25",
}


@pytest.mark.parametrize("text", SETS)
def test_numbers_are_of_the_set_that_is_named_before_them(text):
    assert rows_of(text) == told(SETS[text])


NAMES = {
    "Iter 5: loss 0.5, total rewards mean 0.25, grouped rewards mean 0.75\n": "loss=0.5 total_rewards_mean=0.25 grouped_rewards_mean=0.75",
    "Epoch: 5 loss= 0.5 time per batch= 0.25\n": "loss=0.5 time_per_batch=0.25",
    "step 5 loss: 0.5, R²: 0.25\n": "loss=0.5 r2=0.25",
    "step 5 loss: 0.5, R^2: 0.25\n": "loss=0.5 r2=0.25",
    "iter 5: loss = 0.5, w = [0.25 0.75], bias = 0.125\n": "loss=0.5 bias=0.125",
    "step 5: 'loss'=0.5, 'accuracy'=0.25\n": "loss=0.5 accuracy=0.25",
    "iter 5 || ARM_L: 2.5 ARM_C: 3.5 TRM_L: 1.5\n": "arm_l=2.5 arm_c=3.5 trm_l=1.5",
    "Training: 10% 5/50 loss 0.5 accuracy 0.25\n": "loss=0.5 accuracy=0.25",
    "Epoch[5] Metrics -- left lung_mean_dice: 0.5 right lung_mean_dice: 0.25 left time: 79.5s\n": "left_lung_mean_dice=0.5 right_lung_mean_dice=0.25",
    "Test: [5/80]\tTime 0.5 (0.5)\tEPE 5.25 (5.25)\n": "val_time=0.5 val_epe=5.25",
    "At step 5 the loss is 0.5\n": "loss=0.5",
    "Epoch 5. The mean loss is 0.5.\n": "mean_loss=0.5",
    "Generation 5: best fitness = 9.5, mean fitness = 7.5\n": "mean_fitness=7.5",
    "Epoch 1/3: loss 0.5 acc 95.5% 3/4 batches\n": "loss=0.5 acc=95.5",
    "Epoch 5: Loss: 0.5 | Acc: 95.5% 9550/10000\n": "loss=0.5 acc=95.5",
    "Step 5 validation: Accuracy: 98% 98/100\n": "val_accuracy=98",
    "Epoch 5 WARNING: loss: 0.5\n": "loss=0.5",
    "Epoch 5 lr 0.25 warning: loss: 0.5\n": "lr=0.25 loss=0.5",
    "Epoch 5 user@host: loss: 0.5\n": "loss=0.5",
    "Epoch 5 train.py: loss: 0.5\n": "loss=0.5",
    "Epoch 5 LOC: recall: 0.5\n": "loc/recall=0.5",
}


@pytest.mark.parametrize("line", NAMES)
def test_a_number_has_the_name_before_it(line):
    (row,) = rows_of(line)
    numbers = {name: value for name, value in row.items() if name not in ("step", "epoch")}
    assert [numbers] == told(NAMES[line])


def test_a_line_below_the_heading_of_an_evaluation_is_of_its_phase():
    text = "loss: 0.9, epoch: 0.01, step: 10\nEvaluating on val.\nloss: 1.8, epoch: 0.03\n"
    text += "loss: 0.8, epoch: 0.04, step: 20\n"
    rows = "epoch=0.01 step=10 loss=0.9; epoch=0.03 step=10 val_loss=1.8; epoch=0.04 step=20 loss=0.8"
    assert rows_of(text) == told(rows)


TABLES = {
    "gen\tnevals\tavg    \tstd  \tmin\tmax\n1  \t300   \t50.125 \t5.5  \t38 \t63 \n": "step=1 avg=50.125",
    "Epoch ,Finished       ,LR    ,RMSE_Train ,RMSE_Val\n    1 ,04.29_01:45:54 ,0.001 , 1434.5   ,1103.5\n": "epoch=1 rmse=1434.5 val_rmse=1103.5",
    "|===================|\n|  Epoch  |  Iteration  |  Mini-batch  |  Mini-batch  |\n"
    "|         |             |   Accuracy   |     Loss     |\n"
    "|===================|\n"
    "|       1 |          50 |      21.25%  |       2.5    |\n": "step=50 mini-batch_loss=2.5",
    "   epoch  train_loss  val_loss\n0      1         0.5      0.75\n": "epoch=1 loss=0.5 val_loss=0.75",
    "step,loss\n7,0.5\n": "step=7 loss=0.5",
    "epoch   loss\n    1    0.5\n": "epoch=1 loss=0.5",
    "epoch;loss;acc\n1;0.5;0.75\n": "epoch=1 loss=0.5 acc=0.75",
    "Epoch,Train loss,Validation loss,MAE\n1,0.5,0.75,0.25\n": "epoch=1 loss=0.5 val_loss=0.75",
    "-------------------------  -------------\ntrainer/QF1 Loss                   12.5\n"
    "evaluation/Average Returns        -12.25\n"
    "Epoch                                  3\n-------------------------  -------------\n": "epoch=3 trainer/qf1_loss=12.5",
    "Iter   TrainDeviance   ValidDeviance   StepSize\n     7        1.5             nan     0.1000\n": "step=7 deviance=1.5",
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_read_by_its_header(table):
    (row,), (expected,) = rows_of(table), told(TABLES[table])
    assert expected.items() <= row.items()


BELOW_STEPS = (
    "step 7 loss 0.5\n >>> box_loss: 0.25\n",
    "step 7 loss 0.5\n" + " " * 29 + "box_loss=0.25 iou=0.75\n",
    "[7/300] Train loss: 0.5, Valid loss: 0.75\nbox_loss : 0.25, mask_loss : 0.5\n",
    "step 7 lr: 0.001, time: 0.5\nINFO - task : ['car'], loss: 0.5, box_loss: 0.25, mask: ['0.1', '0.2']\n",
)


@pytest.mark.parametrize("text", BELOW_STEPS)
def test_the_rest_of_a_step_line_stands_below_it(text):
    rows = [row for row in rows_of(text) if "box_loss" in row]
    assert [(row["step"], row["box_loss"]) for row in rows] == [(7, 0.25)]


def test_a_sentence_with_a_comma_is_no_header():
    assert rows_of("Epoch, loss and acc\n1, 2\n") == []


HYPERPARAMETERS = (
    "{'epoch': 100, 'batch_size': 64, 'lr': 0.001}\n",
    "╭────────────────┬─────────╮\n│ hyperparameter │ value   │\n├────────────────┼─────────┤\n"
    "│ epochs         │ 10      │\n│ loss_weight    │ 0.5     │\n╰────────────────┴─────────╯\n",
    "iterations: 5000\nloss_weight: 0.5\n",
    "epoch: 100, hidden: 256, heads: 8\nloss: 0.5\n",
    "epoch 100 warmup 5 hidden 256\nloss: 0.5\n",
    "epoch: 100 | bs: 32 | workers: 4\nloss: 0.5\n",
    "epoch: 100, batch_size: 32\nloss: 0.5\n",
    "epoch: 100, n_train_samples: 30, n_val_samples: 2, n_steps: 4\nloss: 0.5\n",
    "------------  -----\nepochs        10\nlabel loss    0.5\n------------  -----\n",
)


@pytest.mark.filterwarnings("ignore::batchai_magics.metrics.MetricsWarning")  # a notice may name them
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


LANGUAGES = {
    "Epoche 3/9 - Verlust: 0.25 - Genauigkeit: 0.75": "epoch=3 loss=0.25 accuracy=0.75",
    "Epoche 3: Trainingsverlust 0.25, Validierungsverlust 0.5": "epoch=3 train_loss=0.25 val_loss=0.5",
    "Époque 3/9 | perte=0.25 | exactitude=0.75": "epoch=3 loss=0.25 accuracy=0.75",
    "Époque 3 - Perte de validation : 0.25": "epoch=3 val_loss=0.25",
    "Época 3 | Pérdida de entrenamiento: 0.25 | Pérdida de validación: 0.5": "epoch=3 train_loss=0.25 val_loss=0.5",
    "Época 3/9, perda: 0.25, acurácia: 0.75": "epoch=3 loss=0.25 accuracy=0.75",
    "Epoca 3: perdita = 0.25": "epoch=3 loss=0.25",
    "Эпоха 3/9: потери 0.25, точность 0.75": "epoch=3 loss=0.25 accuracy=0.75",
    "Эпоха 3. Ошибка на валидации: 0.25": "epoch=3 val_error=0.25",
    "轮次 3/9 训练损失: 0.25 验证损失: 0.5 验证准确率: 0.75": "epoch=3 train_loss=0.25 val_loss=0.5 val_accuracy=0.75",
    "第 3 轮: 损失 = 0.25": "epoch=3 loss=0.25",
    "Epoch 3 平均损失: 0.25": "epoch=3 avg_loss=0.25",
    "エポック 3/9 損失: 0.25 正解率: 0.75": "epoch=3 loss=0.25 accuracy=0.75",
    "에포크 3/9 손실: 0.25 정확도: 0.75": "epoch=3 loss=0.25 accuracy=0.75",
    "🚀 Epoch 3/9 ✅ loss: 0.25": "epoch=3 loss=0.25",
    "Vòng lặp 3/9, mất mát: 0.25, độ chính xác: 0.75": "step=3 loss=0.25 accuracy=0.75",
    "Epoch 3: Mất mát huấn luyện: 0.25, Độ chính xác kiểm tra: 75.5%": "epoch=3 train_loss=0.25 test_accuracy=75.5",
    "Epoch 3/9 selesai - Kerugian rata-rata: 0.25 - Akurasi validasi: 0.75": "epoch=3 avg_loss=0.25 val_accuracy=0.75",
    "Epoka 3 | Strata walidacyjna: 0.25 | Dokładność treningu: 75.5%": "epoch=3 val_loss=0.25 train_accuracy=75.5",
    "Epoka 3, błąd: 0.25": "epoch=3 error=0.25",
    "Epoch 3 - Ortalama Kayıp: 0.25 - Doğrulama Kaybı: 0.5": "epoch=3 avg_loss=0.25 val_loss=0.5",
    "Epoche 3/9 abgeschlossen – Genauigkeit: 75.5%": "epoch=3 accuracy=75.5",
    "Époque 3/9 terminée - Erreur moyenne : 0.25": "epoch=3 avg_error=0.25",
    "Эпоха 3, средняя ошибка: 0.25": "epoch=3 avg_error=0.25",
    "에폭 3 완료: 평균 손실=0.25, 소요 시간=1.5초": "epoch=3 avg_loss=0.25 time=1.5",
    "Epoch 3: loss=0.25, 耗时=1.5秒": "epoch=3 loss=0.25 time=1.5",
    "エポック 3, バッチ 7/9, 損失: 0.25": "epoch=3 step=7 loss=0.25",
    "第7次训练, loss: 0.25": "step=7 loss=0.25",
    "Época 3 de 9 - pérdida: 0.25": "epoch=3 loss=0.25",
    "Эпоха 3 из 9: потери 0.25": "epoch=3 loss=0.25",
    "steps 7, episodic_return_train 12.5": "step=7 episodic_return_train=12.5",
}


@pytest.mark.parametrize("line", LANGUAGES)
def test_words_of_other_languages_are_read(line):
    assert rows_of(f"{line}\n") == told(LANGUAGES[line])


def test_a_heading_of_another_language_holds_for_the_lines_below():
    text = "".join(f"📚 轮次 {n}/2\n✅ 训练损失: 0.{n}\n\n" for n in (1, 2))
    assert rows_of(text) == [{"epoch": 1, "train_loss": 0.1}, {"epoch": 2, "train_loss": 0.2}]


def test_chinese_rounds_have_training_counts_and_means_of_the_test_set_below():
    text = "-------第3轮训练---------\n训练次数：7，Loss: 0.25\n整体测试集上的Loss: 1.5\n整体测试集上的正确率: 0.75\n"
    assert rows_of(text) == told(
        "step=7 epoch=3 loss=0.25; step=7 epoch=3 test_loss=1.5; step=7 epoch=3 test_accuracy=0.75"
    )


SENTENCES = (
    "Перед запуском эпохи 3 загружено 25.5 ГБ",
    "Die Genauigkeit wird nach 3 Epochen gemessen",
    "训练集大小 50000 验证集大小 10000",
    "La perte de données concerne 3 fichiers de 2.5 Go",
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_in_another_language_gives_no_number(sentence):
    assert rows_of(sentence + "\n") == []


WRAPPED = (
    "np.float32(0.25)",
    "tf.Tensor(0.25, shape=(), dtype=float32)",
    "<tf.Tensor: shape=(), dtype=float32, numpy=0.25>",
    "tensor(0.25)",
    "tensor(0.25, device='cuda:0', grad_fn=<NllLossBackward0>)",
    "array(0.25, dtype=float32)",
)


@pytest.mark.parametrize("value", WRAPPED)
def test_the_repr_of_an_array_is_read_as_its_number(value):
    assert rows_of(f"epoch 3 loss={value} acc=0.75\n") == [{"epoch": 3, "loss": 0.25, "acc": 0.75}]


def test_decimal_commas_are_read_where_a_line_shows_that_they_are():
    text = "Epoch 1 - loss: 0,5321 - acc: 81,23 %\nEpoch 2 - loss: 0,4 - acc: 83,5 %\n"
    assert rows_of(text) == told("epoch=1 loss=0.5321 acc=81.23; epoch=2 loss=0.4 acc=83.5")


def test_an_undecided_comma_gives_no_number_until_a_line_decides():
    text = "Epoch 1 loss: 2,684\nEpoch 2 loss: 0,684\nEpoch 3 loss: 1,024\n"
    assert rows_of(text) == told("epoch=2 loss=0.684; epoch=3 loss=1.024")


BELOW = (
    "[Step 7/100] [Epoch 0/30]  [nyudv2]\n\t\tloss: 0.5,    time: 0.25\n",
    "step:7/163, loss: 0.75\nINFO - evaluate:dev\naccuracy:  98.5%; loss:  0.5; FB1:  84.5\n",
)


@pytest.mark.parametrize("text", BELOW)
def test_a_line_belongs_to_the_heading_above_it(text):
    last = rows_of(text)[-1]
    assert [last["step"], last.get("loss", last.get("val_loss"))] == [7, 0.5]


FORMS = {
    "I Validation of Epoch 3 - loss: 0.25": "epoch=3 val_loss=0.25",
    "(INFO) (14-Dec-26 01:54:51) # [Train Epoch: 3/50] [732/2830 particles] loss=0.25": "step=732 epoch=3 loss=0.25",
    "epoch 3 loss array([[0.25]], dtype=float32)": "epoch=3 loss=0.25",
    "[Epoch 3] Generator: loss 0.25 | Critic: loss 0.5": "epoch=3 generator/loss=0.25 critic/loss=0.5",
    "epoch 3 step 7 monitor=loss 0.25 acc 0.5": "step=7 epoch=3 acc=0.5",
}


@pytest.mark.parametrize("line", FORMS)
def test_a_number_is_read_in_other_forms(line):
    assert rows_of(f"{line}\n") == told(FORMS[line])


def test_array_of_several_numbers_is_not_read():
    assert rows_of("epoch 3 loss tensor([0.25, 0.75])\n") == []


def test_the_error_of_a_set_heads_its_numbers():
    text = "Train Epoch: 3 [64/640]\tLoss: 0.5\nTrain Error: Avg loss: 0.25\nTest Error: Avg loss: 0.75\n"
    assert rows_of(text)[1:] == told("epoch=3 avg_loss=0.25; epoch=3 test_avg_loss=0.75")


@pytest.mark.filterwarnings("ignore::batchai_magics.metrics.MetricsWarning")  # a notice may name them
def test_a_threshold_below_the_heading_of_a_phase_is_a_setting():
    assert rows_of("val:\n  interval: 1\n  iou_threshold: 0.5\n  loss_weight: 0.25\n") == []
    assert rows_of("test:\n  nms_iou: 0.5\nval:\n  accuracy: 0.93\n") == []


def test_commas_of_thousands_stay():
    assert rows_of("step 1,024 loss 0.5 tokens/sec 12,345\n")[0]["step"] == 1024


def test_a_missing_number_joins_no_names():
    assert rows_of("step 10 loss None acc 0.5\n") == [{"step": 10, "acc": 0.5}]


def test_a_byte_order_mark_is_passed():
    assert rows_of("\ufeffstep 10 loss 0.5\n") == [{"step": 10, "loss": 0.5}]


def test_a_sentence_that_begins_with_an_epoch_is_no_heading():
    text = "Epoch 3 went wrong in one of our runs\nstep 7 loss 0.25\n"
    assert rows_of(text) == told("step=7 loss=0.25")


def test_the_number_of_a_test_set_stays_in_a_name():
    assert rows_of("step 1 test_1_loss 0.5\n") == told("step=1 test_1_loss=0.5")


def test_dicts_have_their_own_epochs_below_a_heading():
    dicts = "{'epoch': 4, 'loss': 0.5, 'lr': 1.0}\n{'epoch': 5, 'loss': 0.25, 'lr': 1.0}\n"
    assert rows_of(f"Epoch 9:\n{dicts}") == told("epoch=4 loss=0.5 lr=1; epoch=5 loss=0.25 lr=1")


def test_line_that_is_too_long_gives_no_numbers_and_no_ranks():
    text = f"3: Epoch 2:{' a=0.5' * 7000}\n7: loss=0.25 acc=0.5\n"
    assert rows_of(text) == told("step=7 loss=0.25 acc=0.5")


HEADINGS = {
    "Fold 1": "Fold 1",
    "===== FOLD 2/5 =====": "Fold 2",
    "Fold: 3": "Fold 3",
    "[Fold 4 of 5]": "Fold 4",
    "2026-01-02 10:00:00,123 - INFO - Starting fold 5...": "Fold 5",
    "INFO:trainer:Cross-validation fold 2/10": "Fold 2",
    "Train fold 3": "Fold 3",
    "seed=42": "Seed 42",
    "Running with seed 7": "Seed 7",
    "--- Split 2 ---": "Split 2",
    "Trial #3": "Trial 3",
    "Run 12 of 30": "Run 12",
    "Refitting on all data": "Refit on all data",
    "*** Refit ***": "Refit",
    " Trial 3": "Trial 3",
    "2026-01-02T10:00:00.25Z Trial 4": "Trial 4",
}


@pytest.mark.parametrize("line", HEADINGS)
def test_a_heading_names_its_fit(line):
    (fact,) = read(f"{line}\n".encode())
    assert (fact.key, fact.value) == (FIT, HEADINGS[line])


@pytest.mark.parametrize(
    "line",
    [
        "Trial 5 finished with value: 0.9",
        "seed 1 done",
        "run",
        "Fold 1 accuracy: 0.9",
        "the data is split 3 times",
        "Model outfit 3",
        "fold changes",
    ],
)
def test_other_lines_begin_no_fit(line):
    assert not [record for record in read(f"{line}\n".encode()) if isinstance(record, Fact)]


def test_headings_among_many_lines_of_prose_are_found():
    prose = b"the weather is fine today\n" * 50
    found = [record.value for record in read(prose + b"Fold 1\n" + prose + b"Fold 2\n" + prose)]
    assert found == ["Fold 1", "Fold 2"]


@pytest.mark.parametrize(
    ("first", "prefix"),
    [
        ("Sat Nov 91 90:19:42 5458 ", "Sat Nov 21 00:19:42 2026 "),
        ("99999999-99:99:99 ", "20260302-10:25:36 "),
        ("[9972447136.087] ", "[1772447136.087] "),
        ("2024-13-45 99:99:99 ", "2026-03-02 10:25:36 "),
        ("I9999 99:99:99.087654 140 train.py:88] ", "I0302 10:25:36.087654 140 train.py:88] "),
    ],
)
@pytest.mark.parametrize("message", ["100 loss=0.5", "Validation accuracy: 27.5", "step 7 loss 0.5 acc 0.25"])
def test_a_line_behind_an_invalid_date_is_read_like_any(first, prefix, message):
    lines = [f"step 1: loss 1.5\n{each}{message}\n" for each in (first, prefix)]
    alone = [[without_time(row) for row in rows_of(line)] for line in lines]
    assert alone[0] == alone[1] != []
    for order in (lines, lines[::-1]):
        assert [without_time(row) for row in rows_of("".join(order))] == [*alone[0], *alone[1]]


def without_time(row):
    return {name: value for name, value in row.items() if name != "time"}
