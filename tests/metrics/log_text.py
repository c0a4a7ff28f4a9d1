"""Lines as tf_cnn_benchmarks prints them, and their measurements, for tests."""

from types import SimpleNamespace

from batchai_magics.metrics.measurement import Measurement, lines_of

HEADER = """\
TensorFlow:  1.12
Model:       resnet50
Dataset:     imagenet (synthetic)
Mode:        training
SingleSess:  False
Batch size:  128 global
             32 per device
Num batches: 100
Num epochs:  0.01
Devices:     ['horovod/gpu:0', 'horovod/gpu:1', 'horovod/gpu:2', 'horovod/gpu:3']
NUMA bind:   False
Data format: NCHW
Optimizer:   sgd
Variables:   horovod
Horovod on:  gpu
==========
"""


def step(number, rate=61.9, loss="7.087", accuracies="", uncertainty=1.8, jitter=8.0):
    return (
        f"{number}\timages/sec: {rate:.1f} +/- {uncertainty:.1f} (jitter = {jitter:.1f})\t{loss}{accuracies}"
    )


def measurements(records):
    """The measurements among records."""
    return [record for record in records if isinstance(record, Measurement)]


def segments_of(metric, axis=""):
    """The values of a metric over all ranks by position, of each segment."""
    return [curve.points for curve in metric.curves(axis)]


def step_lines(records):
    """The step lines among records, each with its position and its numbers by name."""
    return [
        SimpleNamespace(
            **{"top_1": None, "top_5": None, **{number.name: number.value for number in line}},
            step=line[0].step,
            rank=line[0].rank,
            offset=line[0].offset,
        )
        for line in lines_of(records)
        if {"images_per_sec", "uncertainty", "jitter"} <= {number.name for number in line}
    ]


def step_numbers(step, rank=None, rate=1.0, loss=1.0, **others):
    """The measurements of a step line."""
    place = {name: others.pop(name) for name in ("offset", "wall_time") if name in others}
    speed = {"images_per_sec": rate, "uncertainty": 0.0, "jitter": 0.0}
    values = {**speed, "loss": loss, **others}
    units = {"loss": "", "top_1": "fraction", "top_5": "fraction"}
    return [
        Measurement(name, value, units.get(name, "images/sec"), step, rank=rank, **place)
        for name, value in values.items()
    ]


def total(rate):
    return f"{'-' * 64}\ntotal images/sec: {rate:.2f}\n{'-' * 64}"


def run(ranks=1, steps=(1, 10, 20), rate=100.0, header=HEADER):
    """One run whose ranks are not told, their lines interleaved."""
    lines = [header.rstrip("\n")] * ranks
    lines += [step(number, rate + rank) for number in steps for rank in range(ranks)]
    lines += [total(rate * ranks)] * ranks
    return "\n".join(lines) + "\n"
