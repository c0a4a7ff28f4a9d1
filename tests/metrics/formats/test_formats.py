"""Every row of the table: its sample gives its numbers, and no other row reads it."""

import math

import pytest

from batchai_magics.metrics import Fact, Parser, StepRecord
from batchai_magics.metrics.formats.format_table import FORMATS, LINE_FORMATS
from batchai_magics.metrics.formats.line_format import read_line
from batchai_magics.metrics.measurement import TOTAL, Measurement
from batchai_magics.metrics.reading.block_cursor import BlockCursor
from batchai_magics.metrics.reading.parser_state import StepCadence

SAMPLES = {row.name: row.sample for row in FORMATS}
SILENT = {"Keras epoch", "Caffe testing", "glog file"}  # they tell of what the lines after them are
HEADERS = {
    "attempt": ("attempt", "2"),
    "DLLogger parameter": ("batch_size_per_device", "64"),
    "Horovod benchmark model": ("model", "ResNet50"),
    "Horovod benchmark batch size": ("batch_size", "32"),
    "Horovod benchmark devices": ("device_count", "8"),
}


def read(text, **patterns):
    parser = Parser(patterns)
    return parser.feed(text.encode()) + parser.finish()


def values(text):
    return {record.name: record.value for record in read(text) if isinstance(record, Measurement)}


def places(text):
    return {(record.epoch, record.step) for record in read(text) if isinstance(record, Measurement)}


EXPECTED = {
    "JSON line": ({"loss": 0.25, "lr": 0.001}, (1, 100)),
    "DLLogger JSON": ({"train.loss": 6.9, "train.ips": 2871.1}, (0, 10)),
    "MLPerf": ({"eval_accuracy": 0.107}, (1, None)),
    "DLLogger": ({"train.loss": 6.9, "train.ips": 2871.1}, (0, 10)),
    "Horovod benchmark iteration": ({"images_per_sec_per_device": 101.2}, (None, 3)),
    "Horovod benchmark mean": (
        {"mean_images_per_sec_per_device": 101.4, "spread_images_per_sec_per_device": 2.3},
        (None, None),
    ),
    "Horovod benchmark total": ({"spread_total_images_per_sec": 18.6, "devices": 8}, (None, None)),
    "Horovod TensorFlow 2 mnist": ({"loss": 0.412031}, (None, 130)),
    "Horovod PyTorch mnist test": ({"test_loss": 0.0563, "test_accuracy": 98.21}, (None, None)),
    "Keras 2 bar": ({"step_time": 0.005, "epoch_time": 1, "loss": 0.949, "accuracy": 0.4954}, (None, 48)),
    "Keras 3 bar": (
        {"step_time": 0.000714, "epoch_time": 0, "accuracy": 0.5026, "loss": 0.7255},
        (None, 48),
    ),
    "Keras line an epoch": (
        {"epoch_time": 1, "step_time": 0.02, "loss": 0.7414, "accuracy": 0.4967, "val_loss": 0.7244},
        (None, 48),
    ),
    "Keras example test": ({"test_accuracy": 0.9888}, (None, None)),
    "keras-retinanet class": ({"average_precision/person": 0.5123, "instances/person": 614}, (None, None)),
    "keras-retinanet mean": ({"mean_average_precision": 0.4512}, (None, None)),
    "PyTorch mnist": ({"loss": 2.31}, (1, 640)),
    "PyTorch mnist test": (
        {"test_loss": 0.0563, "test_correct": 9821, "test_examples": 10000, "test_accuracy": 98},
        (None, None),
    ),
    "PyTorch ImageNet": (
        {"step_time": 0.312, "data_time": 0.001, "loss": 6.9, "top_1": 0.39, "top_5": 1.17},
        (0, 10),
    ),
    "PyTorch ImageNet validation": (
        {"val_step_time": 0.157, "val_loss": 1.2, "val_top_1": 71.09, "val_top_5": 89.45},
        (None, 10),
    ),
    "PyTorch ImageNet epoch": ({"val_top_1": 69.758, "val_top_5": 89.078}, (None, None)),
    "tf.estimator loss": ({"loss": 7.02, "interval_time": 12.3}, (None, 0)),
    "tf.estimator speed": ({"steps_per_sec": 0.34}, (None, None)),
    "tf.estimator examples": ({"samples_per_sec": 245.673}, (None, None)),
    "tf.estimator evaluation": ({"val_accuracy": 0.9013, "val_loss": 0.3125}, (None, 100)),
    "slim step": ({"loss": 62.5012, "step_time": 20.243}, (None, 5)),
    "mnist_replica step": ({"local_step": 15}, (None, 29)),
    "mnist_replica time": ({"training_time": 12.345678}, (None, None)),
    "mnist_replica validation": ({"val_cross_entropy": 1234.56}, (None, 200)),
    "convolutional.py step": ({"step_time": 0.0084}, (None, 8100)),
    "convolutional.py loss": ({"loss": 1.652, "learning_rate": 0.006302}, (None, None)),
    "convolutional.py error": ({"val_error": 1}, (None, None)),
    "CNTK minibatch": ({"loss": 2.302585, "metric": 90.12}, (None, 100)),
    "CNTK epoch": (
        {"loss": 0.412031, "metric": 12.31, "epoch_time": 12.345, "total_samples_per_sec": 4860.3},
        (1, None),
    ),
    "CNTK evaluation": ({"test_metric": 2.31}, (None, 79)),
    "CNTK BrainScript minibatch": (
        {
            "CrossEntropyWithSoftmax": 1.20459251,
            "EvalClassificationError": 36.641,
            "minibatch_time": 0.1234,
            "total_samples_per_sec": 51863.9,
        },
        (1, 100),
    ),
    "CNTK BrainScript epoch": (
        {
            "ce": 0.28911,
            "errs": 8.512,
            "samples_seen": 60000,
            "learning_rate_per_sample": 0.003125,
            "epoch_time": 1.23456,
        },
        (1, None),
    ),
    "Caffe iteration": ({"iterations_per_sec": 271.09, "loss": 0.224091}, (None, 100)),
    "Caffe learning rate": ({"learning_rate": 0.01}, (None, 0)),
    "Caffe net output": ({"test_accuracy": 0.9913}, (None, None)),
    "Caffe2 iteration": ({"images_per_sec": 4.34}, (0, 1)),
    "Caffe2 loss": ({"loss": 6.90421, "accuracy": 0.03125}, (None, None)),
    "MXNet speed": ({"samples_per_sec": 13681.57, "accuracy": 0.001244}, (0, 20)),
    "MXNet epoch": ({"val_accuracy": 0.953125}, (0, None)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_gives_its_numbers_and_where_they_belong(name):
    numbers, place = EXPECTED[name]
    assert values(SAMPLES[name] + "\n") == pytest.approx(numbers)
    assert places(SAMPLES[name] + "\n") == {place}


def test_every_line_format_has_its_numbers_here():
    assert {row.name for row in LINE_FORMATS} == EXPECTED.keys() | SILENT | HEADERS.keys()


@pytest.mark.parametrize("name", HEADERS)
def test_a_sample_gives_its_entry_of_the_header(name):
    assert [(record.key, record.value) for record in read(SAMPLES[name] + "\n")] == [HEADERS[name]]


@pytest.mark.parametrize("row", [row for row in LINE_FORMATS if row.name not in SILENT], ids=lambda r: r.name)
def test_the_fields_are_those_of_the_records(row):
    units = {field.name: field.unit for field in row.fields}
    records = [record for record in read(row.sample + "\n") if isinstance(record, Measurement)]
    assert all(record.unit == units.get(record.name.split("/")[0], record.unit) for record in records)


@pytest.mark.parametrize("row", FORMATS, ids=lambda row: row.name)
def test_no_sample_fits_two_formats(row):
    line = row.sample.splitlines()[0].encode() + b"\n"
    for escape in (b"\x1b[0m", b"\x1b[1m", b"\x1b[32m", b"\x1b[37m"):
        line = line.replace(escape, b"")
    fitting = [other.name for other in LINE_FORMATS if fits(other, line)]
    assert fitting == ([row.name] if row in LINE_FORMATS else [])


def fits(row, line):
    found = []
    read_line(BlockCursor(line, None, len(line), StepCadence()), 0, [watched(row, found)])
    return bool(found)


def watched(row, found):
    return type(row)(**{**vars_of(row), "read": lambda line, row, match: found.append(row) or []})


def vars_of(row):
    return {
        name: getattr(row, name)
        for name in ("name", "literals", "pattern", "fields", "sample", "is_self_terminating")
    }


def test_no_line_of_other_programs_is_one_of_tf_cnn_benchmarks():
    records = read("".join(f"{row.sample}\n" for row in LINE_FORMATS))
    assert not [
        record
        for record in records
        if isinstance(record, StepRecord) or getattr(record, "name", "").startswith("eval_top")
    ]
    assert [r.value for r in records if isinstance(r, Fact) and r.key == TOTAL] == ["811.3"]


def test_names_are_used_once():
    assert len(SAMPLES) == len(FORMATS)


@pytest.mark.parametrize("blanks", range(4))
def test_a_sample_is_found_wherever_it_stands_in_a_block(blanks):
    around = "I tensorflow/core/common_runtime/gpu: nothing here of use\n" * 100
    for name, sample in SAMPLES.items():
        assert len(read(f"{around}{' ' * blanks}{sample}\n{around}")) == len(read(f"{sample}\n")), name


@pytest.mark.parametrize(
    "prefix",
    [
        "[1,3]<stdout>:",
        "[1,3]<stdout>: ",
        "Sat Nov 21 00:19:42 2026[1,3]<stdout>:",
        "[3] ",
        "3: ",
        "[default3]:",
        "[2021-05-14 19:43:45,087] {bash.py:173} INFO - [1,3]<stdout>:",
        "2019-03-02T10:25:35.03856711Z [1,3]<stdout>:",
    ],
)
def test_the_launchers_tag_tells_the_rank(prefix):
    for name, (numbers, _) in EXPECTED.items():
        text = "".join(f"{prefix}{line}\n" for line in SAMPLES[name].splitlines())
        assert values(text) == pytest.approx(numbers), name
        assert {record.rank for record in read(text)} == {3}, name


@pytest.mark.parametrize(
    "prefix", [">", "#", "2019-03-02T10:25:35Z ", "[pod/trainer-0/main] ", "svc-1  | ", "# ", "   "]
)
def test_collectors_prefixes_are_passed(prefix):
    for name, (numbers, _) in EXPECTED.items():
        text = "".join(f"{prefix}{line}\r\n" for line in SAMPLES[name].splitlines())
        assert values(text) == pytest.approx(numbers), name


@pytest.mark.parametrize("name", EXPECTED)
def test_a_last_line_that_is_cut_gives_all_or_nothing(name):
    *head, last = SAMPLES[name].splitlines()
    whole = values(SAMPLES[name] + "\n")
    for length in range(len(last)):
        assert values("\n".join([*head, last[:length]])) in ({}, whole)


def test_a_number_that_is_none_is_none():
    text = SAMPLES["PyTorch mnist"].replace("2.310000", "nan")
    assert math.isnan(values(text + "\n")["loss"])


def test_a_json_line_may_have_a_fractional_epoch():
    records = Parser().feed(b'{"step": 10, "epoch": 0.5, "loss": 1.0}\n{"epoch": 2.0, "loss": 0.5}\n')
    assert [(record.step, record.epoch) for record in records] == [(10, 0.5), (None, 2)]
