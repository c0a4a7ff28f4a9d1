"""Lines as tf_cnn_benchmarks prints them, for tests."""

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


def total(rate):
    return f"{'-' * 64}\ntotal images/sec: {rate:.2f}\n{'-' * 64}"


def run(ranks=1, steps=(1, 10, 20), rate=100.0, header=HEADER):
    """One run whose ranks are not told, their lines interleaved."""
    lines = [header.rstrip("\n")] * ranks
    lines += [step(number, rate + rank) for number in steps for rank in range(ranks)]
    lines += [total(rate * ranks)] * ranks
    return "\n".join(lines) + "\n"
