"""Words of other languages, wrapped values and decimal commas are read as what they say."""

import pytest

from batchai_magics.metrics import read_metrics
from batchai_magics.metrics.grammar.plain_lines import plain_line


def rows_of(text):
    """The numbers of each line with its epoch, else its step."""
    rows = read_metrics(text.encode()).to_dict()["records"]
    return [
        {name: value for name, value in row.items() if value is not None and name != "rank"} for row in rows
    ]


LANGUAGES = {
    "Epoche 3/9 - Verlust: 0.25 - Genauigkeit: 0.75": {"epoch": 3, "loss": 0.25, "accuracy": 0.75},
    "Epoche 3: Trainingsverlust 0.25, Validierungsverlust 0.5": {
        "epoch": 3,
        "train_loss": 0.25,
        "val_loss": 0.5,
    },
    "Époque 3/9 | perte=0.25 | exactitude=0.75": {"epoch": 3, "loss": 0.25, "accuracy": 0.75},
    "Époque 3 - Perte de validation : 0.25": {"epoch": 3, "val_loss": 0.25},
    "Época 3 | Pérdida de entrenamiento: 0.25 | Pérdida de validación: 0.5": {
        "epoch": 3,
        "train_loss": 0.25,
        "val_loss": 0.5,
    },
    "Época 3/9, perda: 0.25, acurácia: 0.75": {"epoch": 3, "loss": 0.25, "accuracy": 0.75},
    "Epoca 3: perdita = 0.25": {"epoch": 3, "loss": 0.25},
    "Эпоха 3/9: потери 0.25, точность 0.75": {"epoch": 3, "loss": 0.25, "accuracy": 0.75},
    "Эпоха 3. Ошибка на валидации: 0.25": {"epoch": 3, "val_error": 0.25},
    "轮次 3/9 训练损失: 0.25 验证损失: 0.5 验证准确率: 0.75": {
        "epoch": 3,
        "train_loss": 0.25,
        "val_loss": 0.5,
        "val_accuracy": 0.75,
    },
    "第 3 轮: 损失 = 0.25": {"epoch": 3, "loss": 0.25},
    "Epoch 3 平均损失: 0.25": {"epoch": 3, "avg_loss": 0.25},
    "エポック 3/9 損失: 0.25 正解率: 0.75": {"epoch": 3, "loss": 0.25, "accuracy": 0.75},
    "에포크 3/9 손실: 0.25 정확도: 0.75": {"epoch": 3, "loss": 0.25, "accuracy": 0.75},
    "🚀 Epoch 3/9 ✅ loss: 0.25": {"epoch": 3, "loss": 0.25},
}


@pytest.mark.parametrize("line", LANGUAGES)
def test_words_of_other_languages_are_read(line):
    assert rows_of(line + "\n") == [LANGUAGES[line]]


def test_a_heading_of_another_language_holds_for_the_lines_below():
    text = "".join(f"📚 轮次 {n}/2\n✅ 训练损失: 0.{n}\n\n" for n in (1, 2))
    assert rows_of(text) == [{"epoch": 1, "train_loss": 0.1}, {"epoch": 2, "train_loss": 0.2}]


WRAPPED = (
    "np.float32(0.25)",
    "np.float64(0.25)",
    "tf.Tensor(0.25, shape=(), dtype=float32)",
    "<tf.Tensor: shape=(), dtype=float32, numpy=0.25>",
    "tensor(0.25)",
    "tensor(0.25, device='cuda:0')",
    "tensor(0.25, device='cuda:0', grad_fn=<NllLossBackward0>)",
    "array(0.25, dtype=float32)",
)


@pytest.mark.parametrize("value", WRAPPED)
def test_the_repr_of_an_array_is_read_as_its_number(value):
    assert rows_of(f"epoch 3 loss={value} acc=0.75\n") == [{"epoch": 3, "loss": 0.25, "acc": 0.75}]


def test_decimal_commas_are_read_where_a_line_shows_that_they_are():
    text = "Epoch 1 - loss: 0,5321 - acc: 81,23 %\nEpoch 2 - loss: 0,4 - acc: 83,5 %\n"
    assert rows_of(text) == [
        {"epoch": 1, "loss": 0.5321, "acc": 81.23},
        {"epoch": 2, "loss": 0.4, "acc": 83.5},
    ]


def test_an_undecided_comma_gives_no_number():
    assert rows_of("Epoch 1 loss: 2,684\n") == []


def test_a_line_that_decides_is_read_behind_one_that_does_not():
    text = "Epoch 1 loss: 2,684\nEpoch 2 loss: 0,684\nEpoch 3 loss: 1,024\n"
    assert rows_of(text) == [{"epoch": 2, "loss": 0.684}, {"epoch": 3, "loss": 1.024}]


def test_commas_of_thousands_stay():
    assert rows_of("step 1,024 loss 0.5 tokens/sec 12,345\n")[0]["step"] == 1024


def test_a_missing_number_joins_no_names():
    assert rows_of("step 10 loss None acc 0.5\n") == [{"step": 10, "acc": 0.5}]


def test_a_byte_order_mark_is_passed():
    assert rows_of("\ufeffstep 10 loss 0.5\n") == [{"step": 10, "loss": 0.5}]


@pytest.mark.parametrize("line", [*LANGUAGES, *(f"loss {value}" for value in WRAPPED), "\ufeffa", "é\x80"])
def test_a_plain_line_is_as_long_as_the_line_and_has_its_digits(line):
    data = line.encode("utf-8", "surrogateescape")
    assert len(plain_line(data)) == len(data)


SENTENCES = (
    "Перед запуском эпохи 3 загружено 25.5 ГБ",
    "Die Genauigkeit wird nach 3 Epochen gemessen",
    "训练集大小 50000 验证集大小 10000",
    "La perte de données concerne 3 fichiers de 2.5 Go",
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_in_another_language_gives_no_number(sentence):
    assert rows_of(sentence + "\n") == []
