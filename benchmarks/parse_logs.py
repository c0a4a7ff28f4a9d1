"""Synthetic training logs of any size, always the same ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RANKS = 8
_PART_LINES = 20_000
_HEADER = """TensorFlow:  1.15
Model:       resnet50
Dataset:     imagenet (synthetic)
Mode:        training
SingleSess:  False
Batch size:  512 global
             64 per device
Num batches: 100000
Devices:     ['horovod/gpu:0', 'horovod/gpu:1', 'horovod/gpu:2', 'horovod/gpu:3']
Data format: NCHW
Optimizer:   sgd
Variables:   horovod
==========
Generating training model
Running warm up
Done warm up
Step\tImg/sec\ttotal_loss
"""


@dataclass(frozen=True)
class Kind:
    """A log: the share of step lines, whether lines are tagged, and how many step lines lack their end."""

    name: str
    step_share: float
    is_tagged: bool = False
    glued_share: float = 0.01


KINDS = (Kind("dense", 0.35), Kind("noisy", 0.015), Kind("tagged", 0.35, is_tagged=True, glued_share=0.0))


def make_log(path: Path, kind: Kind, size_mb: int) -> None:
    """Write a log: a header, then step lines among the messages of libraries, in the end the totals."""
    source = _lines(kind)
    part = "".join(next(source) for _ in range(_PART_LINES)).encode() + b"\n"
    with path.open("wb") as log:
        log.write(_HEADER.encode())
        while log.tell() < size_mb * 1_000_000:
            log.write(part)
        log.write(b"total images/sec: 1740.38\n" * RANKS)


def _lines(kind: Kind) -> Iterator[str]:
    rng = random.Random(0)
    noise = [
        f"2018-06-12 10:00:{i % 60:02d}.{i:06d}: I tensorflow/core/common_runtime/bfc_allocator.cc:{i}] "
        f"Chunk at 0x{rng.randrange(1 << 40):x} of size {rng.randrange(1 << 20)}"
        for i in range(500)
    ]
    step = 0
    while True:
        rank = rng.randrange(RANKS)
        tag = f"[1,{rank}]<stdout>:" if kind.is_tagged else ""
        if rng.random() >= kind.step_share:
            yield f"{tag}{rng.choice(noise)}\n"
            continue
        step += 10
        end = "" if rng.random() < kind.glued_share else "\n"
        rate, loss = rng.uniform(50, 400), rng.uniform(0, 8)
        yield f"{tag}{step % 100_000 or 10}\timages/sec: {rate:.1f} +/- 1.2 (jitter = 3.4)\t{loss:.3f}{end}"
