"""Networks in numpy, made-up images, and a report: what the quickstart's job trains and prints.

The flags and the output are those of tf_cnn_benchmarks.
"""

import argparse
import functools
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks are the parallelism; read when numpy loads
import numpy as np
from mpi4py import MPI

RANKS = MPI.COMM_WORLD
RANDOM = np.random.default_rng(RANKS.rank)  # every rank has images of its own
SIZE, CLASSES, EPOCH, FLOAT = 32, 10, 50_000, np.float32  # the shape of CIFAR-10
say = functools.partial(print, flush=True)  # seen while the job runs


class Layer:
    weights = gradients = ()


class Affine(Layer):
    """y = x W + b, for every row of x."""

    def __init__(self, inputs, outputs, gain=2.0):
        weight = RANDOM.normal(0, (gain / inputs) ** 0.5, (inputs, outputs))
        self.weights = weight.astype(FLOAT), np.zeros(outputs, FLOAT)
        self.gradients = [np.zeros_like(weight) for weight in self.weights]

    def forward(self, x):
        weight, bias = self.weights
        self.shape, self.rows = x.shape, x.reshape(-1, len(weight))
        return self.rows @ weight + bias

    def backward(self, dy):
        dy = dy.reshape(len(self.rows), -1)
        self.gradients[0][:], self.gradients[1][:] = self.rows.T @ dy, dy.sum(axis=0)
        return (dy @ self.weights[0].T).reshape(self.shape)


class Conv(Affine):
    """A k x k convolution: the neighbourhood of every pixel becomes a row (im2col)."""

    def __init__(self, inputs, outputs, k=3, stride=1, gain=2.0):
        super().__init__(k * k * inputs, outputs, gain)
        self.k, self.stride, self.edge = k, stride, k // 2

    def patches(self, padded):
        """The image as each of the kernel's k x k places sees it."""
        height, width = padded.shape[1] - self.k + 1, padded.shape[2] - self.k + 1
        for top, left in np.ndindex(self.k, self.k):
            yield padded[:, top : top + height : self.stride, left : left + width : self.stride]

    def forward(self, x):
        self.padded = np.pad(x, [(0, 0), (self.edge, self.edge), (self.edge, self.edge), (0, 0)])
        columns = np.concatenate([*self.patches(self.padded)], axis=-1)
        return super().forward(columns).reshape(*columns.shape[:-1], -1)

    def backward(self, dy):
        dpadded = np.zeros_like(self.padded)
        dcolumns = np.split(super().backward(dy), self.k**2, axis=-1)
        for patch, dpatch in zip(self.patches(dpadded), dcolumns, strict=True):
            patch += dpatch
        return dpadded[:, self.edge : -self.edge, self.edge : -self.edge]


class ReLU(Layer):
    def forward(self, x):
        self.is_on = x > 0
        return x * self.is_on

    def backward(self, dy):
        return dy * self.is_on


class MeanPool(Layer):
    def __init__(self, k):
        self.k = k

    def forward(self, x):
        n, height, width, channels = x.shape
        tiles = n, height // self.k, self.k, width // self.k, self.k, channels
        return x.reshape(tiles).mean(axis=(2, 4))

    def backward(self, dy):
        return dy.repeat(self.k, axis=1).repeat(self.k, axis=2) / self.k**2


class Chain(Layer):
    def __init__(self, *layers):
        self.layers = layers
        self.weights = [weight for layer in layers for weight in layer.weights]
        self.gradients = [gradient for layer in layers for gradient in layer.gradients]

    def forward(self, x):
        return functools.reduce(lambda x, layer: layer.forward(x), self.layers, x)

    def backward(self, dy):
        return functools.reduce(lambda dy, layer: layer.backward(dy), reversed(self.layers), dy)


class Residual(Chain):
    """y = x + F(x). F starts near zero, so that depth needs no batch normalisation."""

    def __init__(self, width):
        super().__init__(Conv(width, width), ReLU(), Conv(width, width, gain=0.02), ReLU())

    def forward(self, x):
        return x + super().forward(x)

    def backward(self, dy):
        return dy + super().backward(dy)


MODELS = {
    "trivial": lambda: Affine(SIZE * SIZE * 3, CLASSES, gain=1.0),
    "lenet": lambda: Chain(
        Chain(Conv(3, 32, k=5), ReLU(), MeanPool(2), Conv(32, 64, k=5), ReLU(), MeanPool(2)),
        Chain(Affine(SIZE * SIZE * 4, 512), ReLU(), Affine(512, CLASSES, gain=1.0)),
    ),
    "small_resnet": lambda: Chain(
        Chain(Conv(3, 16), ReLU(), Residual(16)),
        Chain(Conv(16, 32, stride=2), ReLU(), Residual(32)),
        Chain(Conv(32, 64, stride=2), ReLU(), Residual(64)),
        Chain(MeanPool(8), Affine(64, CLASSES, gain=1.0)),
    ),
}


def batches(size):
    """Noise over one coarse pattern for each class: there is something to learn."""
    patterns = np.random.default_rng(0).normal(0, 0.5, (CLASSES, 4, 4, 3)).repeat(8, 1).repeat(8, 2)
    while True:
        labels = RANDOM.integers(CLASSES, size=size)
        yield (patterns[labels] + RANDOM.normal(size=(size, SIZE, SIZE, 3))).astype(FLOAT), labels


def softmax_loss(scores, labels):
    """The mean cross entropy of a batch, and its gradient."""
    logs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    right = np.eye(CLASSES, dtype=FLOAT)[labels]
    return -(logs * right).sum() / len(labels), (np.exp(logs) - right) / FLOAT(len(labels))


def speed(batch_size, seconds):
    """images/sec over all steps, its standard error, and how far single steps stray."""
    speeds, mean = batch_size / seconds, batch_size / seconds.mean()
    error, jitter = speeds.std() / len(speeds) ** 0.5, 1.4826 * np.median(abs(speeds - np.median(speeds)))
    return f"images/sec: {mean:.1f} +/- {error:.1f} (jitter = {jitter:.1f})"


def benchmark(training):
    """Trains as the command line says; every rank prints, as in a Horovod run of tf_cnn_benchmarks.

    `training(model, batches)` yields the loss of each step.
    """
    options = command_line()
    images = options.batch_size * RANKS.size
    say(f"NumPy:       {np.__version__}\nModel:       {options.model}")
    say("Dataset:     cifar10 (synthetic)\nMode:        training\nSingleSess:  False")
    say(f"Batch size:  {images} global\n             {options.batch_size} per device")
    say(f"Num batches: {options.num_batches}\nNum epochs:  {options.num_batches * images / EPOCH:.2f}")
    say(f"Devices:     {[f'horovod/cpu:{rank}' for rank in range(RANKS.size)]}")
    say("NUMA bind:   False\nData format: NHWC\nOptimizer:   momentum")
    say(f"Variables:   {options.variable_update}\nHorovod on:  cpu\n==========")
    say("Generating training model\nRunning warm up")
    losses = training(MODELS[options.model](), batches(options.batch_size))
    for _ in range(options.num_warmup_batches):
        next(losses)
    say("Done warm up\nStep\tImg/sec\ttotal_loss")
    times = [time.perf_counter()]
    for step, loss in zip(range(1, options.num_batches + 1), losses, strict=False):
        times.append(time.perf_counter())
        if step == 1 or step % options.display_every == 0:
            say(f"{step}\t{speed(options.batch_size, np.diff(times))}\t{loss:.3f}")
    total = options.num_batches * images / (time.perf_counter() - times[0])
    say(f"{'-' * 64}\ntotal images/sec: {total:.2f}\n{'-' * 64}")


def command_line():
    """The options that the script was started with."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="small_resnet")
    parser.add_argument("--batch_size", type=int, default=8)  # of each rank
    parser.add_argument("--num_batches", type=int, default=100)
    parser.add_argument("--num_warmup_batches", type=int, default=10)
    parser.add_argument("--display_every", type=int, default=10)
    parser.add_argument("--variable_update", choices=["horovod"], default="horovod")
    return parser.parse_args()
