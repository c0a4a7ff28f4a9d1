"""Reading speed of other programs' logs, one row for each: read_metrics against a loop of `re` and `rg -o`.

    python benchmarks/logs/programs.py [--size-mb 20] [--repeat 3]

A log holds step lines only, and another 2 % of them among other output. The loop has the expression of that
program and makes the same numbers of each line, its time among them where it has a date; `times` is our speed
in the loop's, `rg -o` prints the text.
Figures are MB per second of processor time, with one thread, and what the live view's parser takes for a
record, in µs. Then logs whose lines are of several kinds, against a loop that tries an expression for each
kind; logs without a step line, and logs of many names, ranks and skeletons.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.metrics import Parser, read_metrics
from batchai_magics.metrics.runs.log_metrics import read_log
from benchmarks.logs.made import other_output
from benchmarks.logs.parse import best_time_s, discard, is_there

N = r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
T = r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:,\d+)?Z?)"
PROGRAMS = {
    "nanoGPT": (
        "iter {n}: loss {a:.4f}, time {b:.2f}ms, mfu {c:.2f}%",
        rf"iter (\d+): loss {N}, time {N}ms, mfu {N}%",
    ),
    "Megatron-LM": (
        " [2026-03-02 {h:02d}:{m:02d}:{s:02d}] iteration {n:8d}/ 100000 | consumed samples: {n:12d} | "
        "elapsed time per iteration (ms): {b:.1f} | learning rate: 1.500E-04 | lm loss: {a:.6E} | "
        "grad norm: {c:.3f} |",
        rf"{T}\] iteration +(\d+)/.*?\(ms\): {N} \| learning rate: {N} \| lm loss: {N} \| grad norm: {N}",
    ),
    "torchtitan": (
        "[titan] 2026-03-02 {h:02d}:{m:02d}:{s:02d},087 - root - INFO - step: {n:5d}  loss: {a:7.4f}  "
        "tps: {n}  mfu: {c:.2f}%",
        rf"{T} - root - INFO - step: +(\d+)  loss: +{N}  tps: {N}  mfu: {N}%",
    ),
    "timm": (
        "Train: 3 [{n:5d}/99999 ( 12%)]  Loss: {a:.3f} ({b:.3f})  Time: {c:.3f}s  LR: 1.000e-03",
        rf"Train: (\d+) \[ *(\d+)/.*?Loss: {N} .*?Time: {N}s  LR: {N}",
    ),
    "XGBoost": ("[{n}]\ttrain-rmse:{a:.5f}\ttest-rmse:{b:.5f}", rf"\[(\d+)\]\ttrain-rmse:{N}\ttest-rmse:{N}"),
    "Keras": (
        "{n}/99999 [=====>....] - ETA: 2s - loss: {a:.4f} - accuracy: {c:.4f}",
        rf"(\d+)/\d+ \[.*?loss: {N} - accuracy: {N}",
    ),
    "Transformers": (
        "{{'loss': {a:.4f}, 'grad_norm': {b:.3f}, 'learning_rate': 1.5e-05, 'epoch': {c:.2f}}}",
        rf"'loss': {N}, 'grad_norm': {N}, 'learning_rate': {N}, 'epoch': {N}",
    ),
    "PyTorch's mnist": (
        "Train Epoch: 3 [{n}/60000 (12%)]\tLoss: {a:.6f}",
        rf"Train Epoch: (\d+) \[(\d+)/\d+ \(\d+%\)\]\tLoss: {N}",
    ),
    "JSON lines": (
        '{{"step": {n}, "loss": {a:.4f}, "lr": 0.001}}',
        rf'"step": (\d+), "loss": {N}, "lr": {N}',
    ),
    "nested JSON": (
        '{{"time": "2026-03-02T{h:02d}:{m:02d}:{s:02d}Z", "step": {n}, '
        '"metrics": {{"loss": {a:.4f}, "lr": {c:.5f}}}}}',
        rf'"time": "{T}", "step": (\d+), "metrics": \{{"loss": {N}, "lr": {N}\}}',
    ),
    "tf_cnn_benchmarks": (
        "{n}\timages/sec: {b:.1f} +/- 0.4 (jitter = 1.3)\t{a:.3f}",
        rf"(\d+)\timages/sec: {N} \+/- {N} \(jitter = {N}\)\t{N}",
    ),
    "detectron2": (
        "[04/05 01:{m:02d}:{s:02d} d2.utils.events]:  eta: 1 day, 0:03:35  iter: {n}  total_loss: {a:.4f}  "
        "loss_cls: {c:.3f}  time: 0.3614  data_time: 0.1102  lr: 3.8e-06  max_mem: 4331M",
        rf"iter: (\d+)  total_loss: {N}  loss_cls: {N}  time: {N}  data_time: {N}  lr: {N}  max_mem: {N}M",
    ),
    "absl": (
        "I0405 01:{m:02d}:{s:02d}.123456 140000 train.py:88] step = {n}, loss = {a:.4f}, lr = {c:.5f}",
        rf"step = (\d+), loss = {N}, lr = {N}",
    ),
    "tqdm": (
        "epoch 3:  12%|█▏        | {n}/100000 [00:12<01:33,  8.52it/s, loss={a:.4f}, lr={c:.3f}]",
        rf"epoch (\d+): .*?(\d+)/100000 \[.*?loss={N}, lr={N}",
    ),
    "a logger": (
        "2026-11-23 {h:02d}:{m:02d}:{s:02d} INFO step {n} loss={a:.5f} acc={c:.5f}",
        rf"{T} INFO step (\d+) loss={N} acc={N}",
    ),
}
"""Each program's line, and the expression that one would write for it."""


class MixedLog(NamedTuple):
    """What a log repeats, an expression for each kind of its lines with numbers, and what it begins with."""

    block: str
    expressions: Sequence[str]
    heading: str = ""


_BOX_LINE = rf"^\| +(?P<name>[A-Za-z][\w/]*) +\| +{N} +\|"
_DRAWN = "train:  45%|####5     | {{n}}{}/1000000 [10:00<12:00, 50.00it/s, loss={{{}:.4f}}]"
_BARS = [_DRAWN.format(*each) for each in enumerate("abca")]
_BAR_OF_RANK = rf"\| (\d+)/\d+ \[[^]]*?loss={N}\]"
MIXED_LOGS = {
    "Stable-Baselines3": MixedLog(
        "------------------------------------------\n"
        "| rollout/                |              |\n"
        "|    ep_len_mean          | {b:<12.1f} |\n"
        "|    ep_rew_mean          | {c:<12.1f} |\n"
        "| time/                   |              |\n"
        "|    fps                  | 1834         |\n"
        "|    iterations           | {n:<12d} |\n"
        "|    total_timesteps      | {n:<12d} |\n"
        "| train/                  |              |\n"
        "|    approx_kl            | {c:<12.9f} |\n"
        "|    entropy_loss         | -{a:<11.3g} |\n"
        "|    learning_rate        | 0.0003       |\n"
        "|    loss                 | {a:<12.3g} |\n"
        "------------------------------------------",
        [_BOX_LINE],
    ),
    "Spinning Up": MixedLog(
        "---------------------------------------\n"
        "|             Epoch | {n:15d} |\n"
        "|      AverageEpRet | {b:15.3g} |\n"
        "|          StdEpRet | {c:15.3g} |\n"
        "| TotalEnvInteracts |           4e+03 |\n"
        "|            LossPi | {a:15.3g} |\n"
        "|             LossV | {b:15.3g} |\n"
        "|              Time |            1.31 |\n"
        "---------------------------------------",
        [_BOX_LINE],
    ),
    "fastai": MixedLog(
        "{n:<10d} {a:.6f}    {b:.6f}    {c:.6f}    00:10     ",
        [rf"^(\d+) +{N} +{N} +{N} +\d\d:\d\d"],
        heading="epoch      train_loss  valid_loss  error_rate  time    ",
    ),
    "phases in turn": MixedLog(
        "Epoch {n}/99999\n----------\ntrain Loss: {a:.4f} Acc: {c:.4f}\nval Loss: {b:.4f} Acc: {c:.4f}\n",
        [rf"^(?:train|val) Loss: {N} Acc: {N}", r"^Epoch (\d+)/"],
    ),
    "steps and losses": MixedLog(
        "step {n}: loss {a:.4f} lr 0.001\n    eval_loss: {b:.4f} eval_acc: {c:.3f}",
        [rf"^step (\d+): loss {N} lr {N}", rf"eval_loss: {N} eval_acc: {N}"],
    ),
    "epochs and steps": MixedLog(
        "epoch {n} step {n} loss={a:.4f}\nstep {n} val_loss={b:.4f} val_acc={c:.3f}",
        [rf"^epoch (\d+) step (\d+) loss={N}", rf"^step (\d+) val_loss={N} val_acc={N}"],
    ),
    # ten iterations are printed above the totals
    "Horovod": MixedLog(
        "Iter #{n}: {b:.1f} img/sec per GPU\n" * 10 + "Img/sec per GPU: {b:.1f} +-{c:.1f}\n"
        "Total img/sec on 8 GPU(s): {b:.1f} +-{c:.1f}",
        [
            rf"^Iter #(\d+): {N} img/sec",
            rf"^Img/sec per GPU: {N} \+-{N}",
            rf"^Total img/sec on \d+ GPU\(s\): {N}",
        ],
    ),
    "Caffe2": MixedLog(
        "INFO:resnet50_trainer:Finished iteration {n}/99999 of epoch 0 ({b:.2f} images/sec)\n"
        "INFO:resnet50_trainer:Training loss: {a:.5f}, accuracy: {c:.5f}",
        [
            rf"Finished iteration (\d+)/(\d+) of epoch (\d+) \({N} images",
            rf"Training loss: {N}, accuracy: {N}",
        ],
    ),
    "convolutional.py": MixedLog(
        "Step {n} (epoch 9.43), {c:.1f} ms\n"
        "Minibatch loss: {a:.3f}, learning rate: 0.006302\n"
        "Minibatch error: {c:.1f}%\n"
        "Validation error: {c:.1f}%",
        [
            rf"^Step (\d+) \(epoch {N}\), {N} ms",
            rf"^Minibatch loss: {N}, learning rate: {N}",
            rf"^Minibatch error: {N}%",
            rf"^Validation error: {N}%",
        ],
    ),
    "TensorFlow.js": MixedLog(
        "Epoch {n} / 99999\n"
        "{b:.0f}ms {c:.0f}us/step - acc={c:.3f} loss={a:.3f} val_acc={c:.3f} val_loss={a:.3f}",
        [r"^Epoch (\d+) /", rf"^(\d+)ms (\d+)us/step - acc={N} loss={N} val_acc={N} val_loss={N}"],
    ),
    # twelve losses are printed above the accuracy
    "CIFAR-10 tutorial": MixedLog(
        "[{n}, {n:5d}] loss: {a:.3f}\n" * 12 + "Accuracy of the network on the 10000 test images: {c:.0f} %",
        [rf"^\[(\d+), +(\d+)\] loss: {N}", rf"^Accuracy of the network on the \d+ test images: {N} %"],
    ),
    "labelled bars": MixedLog(
        "\n".join(f"[rank{rank}]:\r{bar}" for rank, bar in enumerate(_BARS)),
        [_BAR_OF_RANK],
    ),
    "labels per redraw": MixedLog(
        "\r".join(f"[rank{rank}]: {bar}" for rank, bar in enumerate(_BARS)),
        [r"\[rank(\d+)\]: train.*?" + _BAR_OF_RANK],
    ),
    "bars behind a label": MixedLog("\r".join(("[rank0]:", *_BARS)), [_BAR_OF_RANK]),
    "labels of two kinds": MixedLog(
        "\n".join(
            f"[{word}{number % 2}]:\r{bar}"
            for word, number, bar in zip(["rank", "rank", "default", "default"], range(4), _BARS, strict=True)
        ),
        [_BAR_OF_RANK],
    ),
    "bars of 8 ranks": MixedLog(
        "\n".join(f"[rank{rank}]:\r{_BARS[rank % len(_BARS)]}" for rank in range(8)),
        [_BAR_OF_RANK],
    ),
    "8 ranks' redraws": MixedLog(
        "\n".join("\r".join((f"[rank{rank}]:", *_BARS)) for rank in range(8)),
        [_BAR_OF_RANK],
    ),
}
"""Logs whose lines are of several kinds, or in tables."""


_TEXT = """a quick brown fox runs over the lazy dog while data was loaded from disk into memory before every
worker started to process its share of input files that were written by another program"""
_WORDS = _TEXT.split()
_UPDATE_BYTES = 4096


def make_log(path: Path, line: str, size_mb: int, share: float = 1.0, heading: str = "") -> None:
    """Write a log with this share of step lines."""
    rng, step = random.Random(0), 0
    noise = itertools.cycle([line for i in range(300) for line in other_output(rng, i)])
    with path.open("w", encoding="utf-8", newline="") as log:
        log.write(heading + "\n" * bool(heading))
        while log.tell() < size_mb * 1_000_000:
            if rng.random() >= share:
                log.write(next(noise) + "\n")
                continue
            step += 1
            a, b, c = rng.uniform(0.1, 9), rng.uniform(5, 300), rng.uniform(1, 60)
            clock = {"h": step // 3600 % 24, "m": step // 60 % 60, "s": step % 60}
            log.write(line.format(n=step % 100_000, **clock, a=a, b=b, c=c) + "\n")


def _prose(rng: random.Random, _: int) -> str:
    words = (rng.choice(_WORDS) if rng.random() < 0.93 else str(rng.randint(1, 5000)) for _ in range(14))
    return " ".join(words)


def _numbers(rng: random.Random, _: int) -> str:
    return " ".join(f"{rng.uniform(-1e3, 1e3):.{rng.randint(0, 6)}f}" for _ in range(6))


def _dump(rng: random.Random, number: int) -> str:
    words = " ".join(f"{rng.randrange(1 << 16):04x}" for _ in range(8))
    return f"{16 * number:08x}: {words}  ................"


def _names(count: int) -> Callable[[random.Random, int], str]:
    def line(rng: random.Random, number: int) -> str:
        heading = "" if number % count else f"step {number // count}\n"
        name = number % count
        letters = "".join(_LETTERS[name // 26**place % 26] for place in range(3))
        return f"{heading}  {letters}_loss: {rng.uniform(0, 9):.4f}"

    return line


def _ranks(rng: random.Random, number: int) -> str:
    return f"[rank{number % 5000}] step {number // 5000} loss={rng.uniform(0, 9):.4f} lr=0.1"


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
OTHER_LOGS: dict[str, Callable[[random.Random, int], str]] = {
    "prose": _prose,
    "numbers": _numbers,
    "hexadecimal dump": _dump,
    "200 names": _names(200),
    "5,000 names": _names(5000),
    "5,000 ranks": _ranks,
}
"""What the lines of each log are, by their numbers."""


def make_other(path: Path, line: Callable[[random.Random, int], str], size_mb: int) -> None:
    """Write a log of such lines."""
    rng = random.Random(0)
    with path.open("w", encoding="utf-8") as log:
        for number in itertools.count():
            log.write(line(rng, number) + "\n")
            if log.tell() >= size_mb * 1_000_000:
                return


def with_loop_of(expressions: Sequence[re.Pattern[str]]) -> Callable[[Path], int]:
    """A loop that tries each of the expressions, of which one may name its number."""

    def loop(path: Path) -> int:
        rows = list[tuple[object, ...]]()
        with path.open(encoding="utf-8") as log:  # ends lines at carriage returns, too
            for line in log:
                for expression in expressions:
                    found = expression.search(line)
                    if found:
                        rows.append(tuple(map(float, found.groups())))
                        break
        return len(rows)

    def named_loop(path: Path) -> int:
        rows = []
        (expression,) = expressions
        with path.open(encoding="utf-8") as log:
            for line in log:
                found = expression.search(line)
                if found:
                    rows.append((found[1], float(found[2])))
        return len(rows)

    return named_loop if "name" in expressions[0].groupindex else loop


def with_loop(expression: re.Pattern[str]) -> Callable[[Path], int]:
    def loop(path: Path) -> int:
        rows = []
        with path.open(encoding="utf-8") as log:
            for line in log:
                found = expression.search(line)
                if found:
                    rows.append(tuple(map(float, found.groups())))
        return len(rows)

    def timed_loop(path: Path) -> int:
        rows = []
        with path.open(encoding="utf-8") as log:
            for line in log:
                found = expression.search(line)
                if found:
                    time, *numbers = found.groups()
                    seconds = datetime.fromisoformat(time).replace(tzinfo=timezone.utc).timestamp()
                    rows.append((seconds, *map(float, numbers)))
        return len(rows)

    return timed_loop if "time" in expression.groupindex else loop


def live_us(path: Path) -> float:
    """What the parser takes for a record of a log that has begun; NaN if it finds none."""
    log = path.read_bytes()
    parser = Parser()
    parser.feed(log[:200_000])
    updates = [log[at : at + _UPDATE_BYTES] for at in range(200_000, min(len(log), 2_000_000), _UPDATE_BYTES)]
    begin = time.process_time()
    records = sum(len(parser.feed(update)) for update in updates)
    return 1e6 * (time.process_time() - begin) / records if records else math.nan


def with_read_metrics(path: Path) -> int:
    return len(read_log(path, {}).frame())


def speed(way: Callable[[Path], Any], path: Path, repeat: int) -> float:
    return path.stat().st_size / 1e6 / best_time_s(way, path, repeat)[1]


def show(name: str, folder: Path, chosen: argparse.Namespace) -> None:
    """Print the row of a program."""
    line, expression = PROGRAMS[name]
    dense, noisy = folder / "dense", folder / "noisy"
    make_log(dense, line, chosen.size_mb)
    make_log(noisy, line, 2 * chosen.size_mb, 0.02)
    ways = [
        with_read_metrics,
        with_loop(re.compile(expression)),
        lambda log: discard(["rg", "-o", expression, str(log)]),
    ]
    if not is_there("rg"):
        ways.pop()
    speeds = [
        speed(way, log, chosen.repeat)
        for log in (dense, noisy)
        for way in ways
        if log == dense or way != ways[1]
    ]
    texts = "".join(f"{each:>10,.1f}" for each in speeds)
    texts = f"{speeds[0] / speeds[1]:>8.2f}{texts}"
    print(
        f"{name:18}{live_us(dense):>8.2f}{texts}{'' if len(ways) > 2 else '  rg skipped: not installed'}",
        flush=True,
    )


def show_mixed(name: str, folder: Path, chosen: argparse.Namespace) -> None:
    """Print the row of a log whose lines are of several kinds."""
    mixed, path = MIXED_LOGS[name], folder / "mixed"
    make_log(path, mixed.block, chosen.size_mb, heading=mixed.heading)
    loop = with_loop_of([*map(re.compile, mixed.expressions)])
    ours, theirs = (speed(way, path, chosen.repeat) for way in (with_read_metrics, loop))
    print(f"{name:20}{live_us(path):>6.2f}{ours / theirs:>8.2f}{ours:>10,.1f}{theirs:>10,.1f}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--size-mb", type=int, default=20)
    options.add_argument("--repeat", type=int, default=3)
    chosen = options.parse_args()
    read_metrics(b"step 1: loss 0.5\n" * 100_000).frame()  # what has to be imported is imported
    print(f"{'':34}{'only step lines':^30}{'2 % step lines':^20}")
    print("".join(f"{title:>{width}}" for title, width in _TITLES))
    with tempfile.TemporaryDirectory() as folder:
        for name in PROGRAMS:
            show(name, Path(folder), chosen)
        for name in MIXED_LOGS:
            show_mixed(name, Path(folder), chosen)
        for name, line in OTHER_LOGS.items():
            log = Path(folder) / name
            make_other(log, line, chosen.size_mb)
            ours = speed(with_read_metrics, log, chosen.repeat)
            print(f"{name:18}{live_us(log):>8.2f}{'':8}{ours:>10,.1f}", flush=True)


_TITLES = (
    ("program", 18),
    ("live", 8),
    ("times", 8),
    ("ours", 10),
    ("re loop", 10),
    ("rg -o", 10),
    ("ours", 10),
    ("rg -o", 10),
)


if __name__ == "__main__":
    main()
