"""Synthetic training logs of any size, in every shape that launchers and collectors give them.

What stands between the step lines is what really does: messages of TensorFlow, absl and NCCL, warnings,
tracebacks, dumps of the allocator, traces of the shell, progress bars, empty lines.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
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
class Place:
    """Where and when a line is printed, as far as launchers tell it."""

    rank: int
    second: int  # of an hour
    nanosecond: int

    @property
    def millisecond(self) -> int:
        """The same in thousandths."""
        return self.nanosecond // 1_000_000

    @property
    def clock(self) -> str:
        """The time of day."""
        return f"10:{self.second // 60 % 60:02d}:{self.second % 60:02d}"


Dress = Callable[[Place, str], str]
"""What becomes of a line, which has no end yet."""


@dataclass(frozen=True)
class Kind:
    """A log: what becomes of each line, the share of step lines, and how many of these lack their end."""

    name: str
    dress: Dress
    step_share: float = 0.35
    glued_share: float = 0.0


def _before(prefix: Callable[[Place], str]) -> Dress:
    return lambda place, line: f"{prefix(place)}{line}"


def _ctime(place: Place) -> str:
    return f"Sat Nov 21 {place.clock} 2026"


def _iso(place: Place) -> str:
    return f"2019-03-02T{place.clock}"


def _airflow(place: Place) -> str:
    return f"[{_iso(place)},{place.millisecond:03d}] {{bash.py:173}} INFO - "


def _plain(place: Place, line: str) -> str:
    return line


def _appended_time(place: Place, line: str) -> str:
    return f"{line} {1_587_077_440 + place.second}" if "images/sec" in line else line


def _tag_at_both_ends(place: Place, line: str) -> str:
    tag = f"[1,{place.rank}]<stdout>:"
    return f"{tag}{line}{tag}"


KINDS = (
    Kind("dense", _plain, glued_share=0.01),
    Kind("noisy", _plain, 0.015, 0.01),
    Kind("Open MPI tag", _before(lambda at: f"[1,{at.rank}]<stdout>:")),
    Kind("Open MPI time", _before(lambda at: f"{_ctime(at)}<stdout>:")),
    Kind("Open MPI tag+time", _before(lambda at: f"{_ctime(at)}[1,{at.rank}]<stdout>:")),
    Kind("Open MPI 5", _before(lambda at: f"[1,{at.rank}][node-{at.rank // 4}:4711]<stdout>: ")),
    Kind("Open MPI 5 tag+time", _before(lambda at: f"[{_ctime(at)}][1,{at.rank}]<stdout>: ")),
    Kind("tags at both ends", _tag_at_both_ends),
    Kind("SageMaker", _before(lambda at: f"[1,mpirank:{at.rank},algo-{at.rank // 4 + 1}]<stdout>:")),
    Kind("Gloo tag+time", _before(lambda at: f"{_ctime(at)}[{at.rank}]<stdout>:")),
    Kind("mpich -l", _before(lambda at: f"[{at.rank}] ")),
    Kind("srun -l", _before(lambda at: f"{at.rank}: ")),
    Kind("torchrun", _before(lambda at: f"[default{at.rank}]:")),
    Kind("kubectl time", lambda at, line: f"{_iso(at)}.{at.nanosecond:09d}Z {line}\r"),
    Kind("kubectl prefix", _before(lambda at: f"[pod/trainer-{at.rank}/main] ")),
    Kind("compose", _before(lambda at: f"worker-{at.rank}  | ")),
    Kind("Kubeflow", _before(lambda at: f"INFO|{_iso(at)}|/opt/launcher.py|27| ")),
    Kind("Airflow", _before(lambda at: f"{_airflow(at)}[1,{at.rank}]<stdout>:")),
    Kind("appended time", _appended_time),
    Kind("blanks for tabs", lambda at, line: line.replace("\t", "   ")),
    Kind("indented", _before(lambda at: "    ")),
    Kind("ANSI", lambda at, line: f"\x1b[33m{line}\x1b[0m"),
)  # fmt: skip
LOGS: dict[str, Sequence[Kind]] = {**{kind.name: [kind] for kind in KINDS}, "all in turn": KINDS}
"""What each log is made of."""


def make_log(path: Path, name: str, size_mb: int) -> None:
    """Write a log of LOGS: a header, then step lines among other output, in the end the totals.

    Of several kinds a thousand lines of each follow each other, again and again.
    """
    kinds = LOGS[name]
    count = _PART_LINES if len(kinds) == 1 else 1000
    sources = [_lines(kind) for kind in kinds]
    part = "".join(next(source) for source in sources for _ in range(count)).encode() + b"\n"
    with path.open("wb") as log:
        log.write(_HEADER.encode())
        while log.tell() < size_mb * 1_000_000:
            log.write(part)
        log.write(b"total images/sec: 1740.38\n" * RANKS)


def _lines(kind: Kind) -> Iterator[str]:
    rng = random.Random(0)
    noise = [line for i in range(300) for line in other_output(rng, i)]
    step = number = 0
    while True:
        number += 1
        place = Place(rng.randrange(RANKS), number // 50, rng.randrange(1_000_000_000))
        if rng.random() >= kind.step_share:
            yield f"{kind.dress(place, noise[number % len(noise)])}\n"
            continue
        step += 10
        end = "" if rng.random() < kind.glued_share else "\n"
        rate, loss = rng.uniform(50, 400), rng.uniform(0, 8)
        line = f"{step % 100_000 or 10}\timages/sec: {rate:.1f} +/- 1.2 (jitter = 3.4)\t{loss:.3f}"
        yield f"{kind.dress(place, line)}{end}"


def other_output(rng: random.Random, i: int) -> list[str]:
    """A few lines of other output."""
    address, size = rng.randrange(1 << 40), rng.randrange(1 << 20)
    at = f"10:{i % 60:02d}:{i * 7 % 60:02d}.{i * 997 % 1_000_000:06d}"
    return [
        f"2018-06-12 {at}: I tensorflow/core/common_runtime/bfc_allocator.cc:{i}] "
        f"Chunk at 0x{address:x} of size {size}",
        f"I0612 {at} 139885108074240 session_manager.py:{i}] Running local_init_op.",
        f"INFO:tensorflow:Saving checkpoints for {i} into /mnt/output/model.ckpt.",
        f"node-{i % 4}:{i + 20}:{i + 24} [{i % 4}] NCCL INFO Ring {i % 8:02d} : {i % 4} -> 3 via P2P/IPC",
        f"W0612 {at} 1398 deprecation.py:{i}] From train.py:{i}: The name tf.Session is deprecated. "
        "Please use tf.compat.v1.Session instead.",
        "",
        f"+ export OMP_NUM_THREADS={i % 8}",
        f'  File "/opt/conda/lib/python3.7/site-packages/numpy/core/fromnumeric.py", line {i}, in mean',
        "    return array_function_dispatch(implementation, verify=True)",
        f"FutureWarning: Passing (type, {i}) or '1type' as a synonym of type is deprecated",
        f"OMP: Info #{i}: KMP_AFFINITY: pid {address % 32768} tid {size} thread {i % 16} bound to set 1",
        f"Downloading shard {i}:  {i % 100}%|{'#' * (i % 10):10}| {i}/300 [00:{i % 60:02d}<00:07, 39.51MB/s]",
    ]
