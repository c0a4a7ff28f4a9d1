"""Lines of other programs than tf_cnn_benchmarks that several processes glued to each other."""

import functools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.metrics import Fact, Parser
from batchai_magics.metrics.grammar.line_grammar import read_line
from tests.calls import calls_of
from tests.metrics.program_samples import NEAR_MISSES

BAR = "48/48 [==============================]"
GLUED = {
    "Horovod iterations": ["Iter #0: 101.2 img/sec per GPU", "Iter #0: 100.9 img/sec per GPU"],
    "Horovod end": ["Img/sec per GPU: 101.4 +-2.3", "Total img/sec on 8 GPU(s): 811.3 +-18.6"],
    "Horovod behind a phase": ["Running benchmark...", "Iter #0: 99.1 img/sec per CPU"],
    "Horovod before TensorFlow": [
        "Img/sec per GPU: 101.4 +-2.3",
        "2018-06-12 10:00:00.000001: I tensorflow/core/x.cc:1] hello",
    ],
    "Horovod before absl": ["Iter #1: 99.1 img/sec per CPU", "W0701 23:55:42.762805 1398 x.py:125] careful"],
    "Horovod behind a warning": ["UserWarning: this is deprecated.", "Iter #1: 99.1 img/sec per CPU"],
    "Horovod mnist": ["Step #130\tLoss: 0.412031", "Step #130\tLoss: 0.501234"],
    "CNTK minibatches": [
        " Minibatch[   1- 100]: loss = 2.302585 * 6400;",
        " Minibatch[   1- 100]: loss = 1.512345 * 6400;",
    ],
    "CNTK epochs": [
        "Finished Epoch[1 of 10]: [Training] loss = 0.412031 * 60000 12.345s (4860.3 samples/s);",
        "Finished Epoch[1 of 10]: [Training] loss = 0.512031 * 60000 12.678s (4733.2 samples/s);",
    ],
    "CNTK evaluations": [
        "Finished Evaluation [1]: Minibatch[1-79]: metric = 2.31% * 10000;",
        "Finished Epoch[2 of 10]: loss = 0.412031 * 60000 12.345s (4860.3 samples/s);",
    ],
    "Keras bars": [
        f"{BAR} - 1s 5ms/step - loss: 0.9490 - accuracy: 0.4954",
        f"{BAR} - 1s 5ms/step - loss: 0.9510 - accuracy: 0.4812",
    ],
    "Keras bars of small numbers": [
        f"{BAR} - ETA: 0s - loss: 4.9540e-04",
        f"{BAR} - ETA: 0s - loss: 1.2000e-05",
    ],
    "Keras 3": [
        "48/48 ━━━━━━━━━━━━━━━━━━━━ 0s 714us/step - accuracy: 0.5026 - loss: 0.7255",
        "48/48 ━━━━━━━━━━━━━━━━━━━━ 0s 714us/step - accuracy: 0.5126 - loss: 0.7155",
    ],
    "Keras lines": ["48/48 - 1s - loss: 0.7414 - acc: 0.4967", "48/48 - 1s - loss: 0.7300 - acc: 0.5000"],
    "tf.keras lines": [
        "48/48 - 1s - loss: 0.7414 - 953ms/epoch - 20ms/step",
        "48/48 - 1s - loss: 0.7300 - 950ms/epoch - 19ms/step",
    ],
    "Keras epochs": ["Epoch 1/12", "Epoch 1/12"],
    "PyTorch": [
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.310000",
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.290000",
    ],
    "JSON": ['{"epoch": 1, "step": 100, "loss": 0.25}', '{"epoch": 1, "step": 100, "loss": 0.5}'],
    "MLPerf": [
        ':::MLL {"time_ms": 1592000000000, "key": "eval_accuracy", "value": 0.7}',
        ':::MLL {"time_ms": 1592000000001, "key": "eval_accuracy", "value": 0.8}',
    ],
}


def read(text):
    parser = Parser()
    return parser.feed(text.encode()) + parser.finish()


def told(text):
    return [
        (
            getattr(record, "name", type(record).__name__),
            getattr(record, "value", None),
            getattr(record, "step", None),
        )
        for record in read(text)
        if not isinstance(record, Fact)
    ]


@pytest.mark.parametrize("lines", GLUED.values(), ids=GLUED)
def test_glued_lines_give_what_whole_ones_give(lines):
    assert told("".join(lines) + "\n\n") == told("\n".join(lines) + "\n")
    three = [*lines, lines[0]]
    if "Warning" not in lines[0] and ":::MLL" not in lines[0]:  # text of no known shape; told once
        assert len(told("".join(three) + "\n")) == len(told("\n".join(three) + "\n"))


def test_labels_of_glued_lines_tell_their_ranks():
    records = read("[0] Iter #0: 101.2 img/sec per GPU[1] Iter #0: 100.9 img/sec per GPU\n")
    assert [(r.rank, r.value) for r in records] == [(0, 101.2), (1, 100.9)]


def test_digits_that_may_belong_to_either_line_are_left_alone():
    assert read(f"Epoch 1/12{BAR} - 1s 5ms/step - loss: 0.9490\n") == []


def test_a_glued_line_that_is_cut_is_left_out():
    text = "Img/sec per GPU: 101.4 +-2.3Total img/sec on 8 GPU(s): 811"
    assert [record.name for record in read(text)] == [
        "mean_images_per_sec_per_device",
        "spread_images_per_sec_per_device",
    ]
    assert not [record for record in read(text) if isinstance(record, Fact)]


def test_a_number_that_is_cut_at_the_end_of_glued_lines_is_left_out():
    lines = [f"{BAR} - 1s 5ms/step - loss: 0.{number}" for number in (9490, 9510)]
    assert [value for _, value, _ in told("".join(lines)[:-2]) if value < 1] == [0.005, 0.949]


@pytest.mark.parametrize("words", ["", " warning"])
def test_the_grammar_reads_few_of_many_steps_without_a_newline(words):
    """As `print(…, end=" ")` writes them; those with ever longer words differ in form."""
    lines = [f"step {i} loss 0.{i % 10}{words * i} " for i in range(1, 401)]
    with calls_of(read_line) as by_grammar:
        records = read("".join(lines))
    assert 0 < by_grammar.count < 20
    if not words:
        assert [(r.step, r.value) for r in records] == [(i, i % 10 / 10) for i in range(1, 401)]


@pytest.mark.parametrize(
    "line",
    [
        "we expect Iter #3: 101.2 img/sec per GPU",
        'echo "Iter #3: 101.2 img/sec per GPU"',
        "log/Epoch 1/12",
        "Iter #3: 101.2 img/sec per GPUs",
        "Iter #3: 101.2 img/sec per GPU and so on",
        '{"step": 1, "loss": 0.5}{"step"',
        "loss = 0.123456/7 [done]",
    ],
)
def test_a_similar_text_gives_nothing(line):
    assert [r for r in read(f"{line}\n") if getattr(r, "value", 0) != 0.5] == []


# Of lines that are glued, one may say where training is (`Iteration 100`) and another name a number
# (`* Acc@1 high Acc@5 89.078`): that is a metric. So all are left out to which only one of both is missing,
# or that are metrics behind another first word (`fastBest model: epoch 3 loss 0.25`).
COMPLETIONS = (
    *("step 3: {}", "step 3: loss {}", "{} step 3"),
    *("{}loss: 0.5", "{} loss: 0.5", "{}, loss: 0.5", "loss: 0.5 {}", "x{}"),
)


@functools.cache
def near_misses_anywhere():
    return [
        line
        for line in NEAR_MISSES
        if not re.search(r"^\s*(?:[\w -]*: ?)?[\w -]*[=:] ?\d", line)
        and not any(told(completion.format(line) + "\n") for completion in COMPLETIONS)
    ]


near_misses = st.deferred(lambda: st.sampled_from([*near_misses_anywhere(), "Running warmup...", "INFO:x:y"]))


@given(st.lists(near_misses, min_size=2, max_size=4))
def test_joined_lines_without_metrics_give_no_numbers(lines):
    assert told("".join(lines) + "\n") == []
