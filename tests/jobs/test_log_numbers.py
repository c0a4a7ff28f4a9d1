"""The numbers of logs that grow: the columns of their charts, and their records."""

import gc

import numpy as np
import pytest

from batchai_magics.jobs.log_numbers import NO_RANK, LogNumbers
from batchai_magics.metrics import Fact, Measurement, Parser, read_metrics
from batchai_magics.metrics.measurement_table import MeasurementTable
from tests.metrics.log_text import step_numbers


def points_of(text):
    points = LogNumbers()
    points.add(read_metrics(text.encode()).records)
    return points


def values(points, name):
    steps, _, numbers, *_ = points.series[name].columns(0, 99)
    return np.frombuffer(steps, np.float64).tolist(), np.frombuffer(numbers, np.float32).tolist()


def test_numbers_without_a_step_are_counted_for_each_rank():
    points = LogNumbers()
    points.add(
        Measurement("lr", value, step=None, rank=rank) for value, rank in ((1.0, 0), (2.0, 1), (3.0, 0))
    )
    assert values(points, "lr") == ([1, 1, 2], [1, 2, 3])


HF_LINES = [
    "{'loss': 2.0, 'epoch': 0.5}",
    "{'loss': 1.5, 'epoch': 1.0}",
    "{'eval_loss': 1.8, 'eval_runtime': 3.2, 'epoch': 1.0}",
    "{'loss': 1.2, 'epoch': 1.5}",
    "{'loss': 1.0, 'epoch': 2.0}",
    "{'eval_loss': 1.4, 'eval_runtime': 3.2, 'epoch': 2.0}",
]


def test_without_steps_training_and_validation_of_an_epoch_have_the_same_position():
    points = points_of("\n".join([*HF_LINES, ""]))
    assert points.axis == "epoch"
    assert values(points, "loss")[0] == [1, 2, 3, 4]
    assert values(points, "val_loss")[0] == [2, 4]


def test_each_number_has_its_epoch_and_seconds_since_the_first():
    rows = [f'{{"epoch": {i}, "step": {i}, "time": {1763805600 + i}, "loss": 0.5}}\n' for i in (1, 2)]
    *_, epochs, times = points_of("".join(rows)).series["loss"].columns(0, 9)
    assert np.frombuffer(epochs, np.float32).tolist() == [1, 2]
    assert np.frombuffer(times, np.float32).tolist() == [0, 1]


def test_seconds_are_since_the_first_number_of_a_file_that_is_read_later():
    numbers = LogNumbers()
    for file, seconds in (("stdout.txt", 20), ("stderr.txt", 10)):
        row = f'{{"step": {seconds}, "time": {1763805600 + seconds}, "loss": 0.5}}\n'
        numbers.add(read_metrics(row.encode()).records, file)
    numbers.refresh(is_last=True)
    *_, times = numbers.series["loss"].columns(0, 9)
    assert np.frombuffer(times, np.float32).tolist() == [0, 10]


def test_numbers_without_a_position_are_drawn_in_order():
    assert points_of("Accuracy: 0.93\n").axis == "order"


def test_rank_0_is_distinct_from_no_rank():
    points = LogNumbers()
    points.add([*step_numbers(1, 0), *step_numbers(1, None)])
    assert np.frombuffer(points.series["loss"].columns(0, 2)[1], np.int32).tolist() == [0, NO_RANK]


def test_a_line_of_tf_cnn_benchmarks_has_metrics_and_a_jitter_that_is_none_of_them():
    points = LogNumbers()
    points.add([*step_numbers(1, 0, top_1=0.5, jitter=2.0), *step_numbers(2, 0, rate=3.0)])
    assert [traits.name for traits, _ in points.metrics] == ["images_per_sec", "loss", "top_1"]
    assert values(points, "images_per_sec") == ([1, 2], [1, 3])
    assert values(points, "jitter") == ([1, 2], [2, 0])
    assert values(points, "top_1") == ([1], [0.5])
    assert points.mean_rates == 2
    assert points.axis == "step"


@pytest.mark.parametrize("is_at_once", [True, False])
def test_another_run_of_tf_cnn_benchmarks_in_a_log_is_a_segment(is_at_once):
    form = "{}\timages/sec: 9.0 +/- 0.5 (jitter = 1.0)\t{}.500\n"
    header, total = "TensorFlow:  1.10\nModel:       resnet50\n", "total images/sec: 9.00\n"
    lines = [[form.format(step, loss) for step in (1, 10, 20)] for loss in (2, 1)]
    runs = [header, *lines[0], total, header, *lines[1], total]
    parser, points = Parser(), LogNumbers()
    for part in ["".join(runs)] if is_at_once else runs:
        points.add(parser.feed(part.encode()))
        points.refresh()
    assert [name for name in points.series if "(" not in name] == ["images_per_sec", "jitter", "loss"]
    assert values(points, "loss") == ([1, 10, 20], [2.5] * 3)
    assert values(points, "loss (2)") == ([1, 10, 20], [1.5] * 3)


def test_a_number_that_no_column_holds_is_infinite_and_ends_nothing():
    points = LogNumbers()
    far = 10_000_000_000  # more than 32 bits
    points.add([*step_numbers(10, None, 1e300, -1e300), *step_numbers(far, None, loss=float("nan"))])
    assert values(points, "images_per_sec") == ([10, far], [np.inf, 1])
    losses = values(points, "loss")[1]
    assert (losses[0], np.isnan(losses[1])) == (-np.inf, True)


@pytest.mark.parametrize("is_at_once", [True, False])
def test_the_first_step_of_a_later_attempt_is_marked(is_at_once):
    lines = [f"step {step}: loss = 0.5\n" for step in (10, 20, 30)]
    begins = [f"[batchai] attempt {number} begins on node-1 (node failure)\n" for number in (1, 2, 3, 4)]
    texts = [begins[0], *lines, begins[1], lines[1], begins[2], begins[3], lines[2]]  # the third printed none
    parts = ["".join(texts)] if is_at_once else texts
    parser, points = Parser(), LogNumbers()
    for part in parts:
        points.add(parser.feed(part.encode()))
        points.refresh()
    assert points.attempts == {2: 20, 4: 30}
    points.restart()
    assert points.attempts == {}


HEADER = Fact("model", "resnet50", None)


def step_records(first, count):
    return tuple(number for step in range(first, first + count) for number in step_numbers(step, 0))


def measurements_alive():
    return sum(isinstance(each, Measurement) for each in gc.get_objects())


@pytest.mark.parametrize("loose", [1, 9000])
def test_records_stay_in_the_order_in_which_they_came(loose):
    numbers = LogNumbers()
    parts = [
        (HEADER,),
        step_records(1, loose),
        MeasurementTable.of([*step_records(5000, 3), HEADER]),
        step_records(6000, 2),
    ]
    for part in parts:
        numbers.add(part)
    expected = [record for part in parts for record in part]
    table = numbers.table
    numbers.add(step_records(9000, 3))
    assert (list(table), len(numbers)) == (expected, len(expected) + 12)  # what was asked for does not grow


def test_truncating_a_log_drops_its_stragglers():
    numbers = LogNumbers()
    rates = [(step, rank, 100.0 - 60 * rank + step % 3) for step in range(1, 30) for rank in (0, 1)]
    numbers.add(
        Measurement("images_per_sec", rate, "images/sec", step=step, rank=rank) for step, rank, rate in rates
    )
    assert numbers.stragglers == (1,)
    numbers.restart()
    assert numbers.stragglers == ()


def test_restart_drops_all_numbers():
    numbers = LogNumbers()
    numbers.add(MeasurementTable.of(step_records(1, 3)))
    numbers.add(step_records(4, 3))
    numbers.restart()
    assert (list(numbers.table), len(numbers)) == ([], 0)


def test_no_record_stays_an_object_that_the_collector_visits():
    numbers, before = LogNumbers(), measurements_alive()
    for first in range(0, 5000, 1000):
        numbers.add(step_records(first, 1000))
    assert (len(numbers), measurements_alive() - before) == (20_000, 0)
