"""Reading speed of other programs' logs, one row for each: read_metrics against a loop of `re` and `rg -o`.

    python benchmarks/logs/programs.py [--size-mb 20] [--repeat 3]

Each log holds step lines only. The loop has the expression of that program and makes the same numbers of each
line; `rg -o` prints the text. Figures are MB per second of processor time, with one thread.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from batchai_magics.metrics import read_metrics
from benchmarks.logs.parse import best_time_s, discard, is_there

N = r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
PROGRAMS = {
    "nanoGPT": (
        "iter {n}: loss {a:.4f}, time {b:.2f}ms, mfu {c:.2f}%",
        rf"iter (\d+): loss {N}, time {N}ms, mfu {N}%",
    ),
    "Megatron-LM": (
        " [2026-03-02 10:{m:02d}:{s:02d}] iteration {n:8d}/ 100000 | consumed samples: {n:12d} | "
        "elapsed time per iteration (ms): {b:.1f} | learning rate: 1.500E-04 | lm loss: {a:.6E} | "
        "grad norm: {c:.3f} |",
        rf"iteration +(\d+)/.*?\(ms\): {N} \| learning rate: {N} \| lm loss: {N} \| grad norm: {N}",
    ),
    "torchtitan": (
        "[titan] 2026-03-02 10:{m:02d}:{s:02d},087 - root - INFO - step: {n:5d}  loss: {a:7.4f}  "
        "tps: {n}  mfu: {c:.2f}%",
        rf"step: +(\d+)  loss: +{N}  tps: {N}  mfu: {N}%",
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
    "JSON lines": (
        '{{"step": {n}, "loss": {a:.4f}, "lr": 0.001}}',
        rf'"step": (\d+), "loss": {N}, "lr": {N}',
    ),
}
"""Each program's line, and the expression that one would write for it."""


def make_log(path: Path, line: str, size_mb: int) -> None:
    rng, step = random.Random(0), 0
    with path.open("w", encoding="utf-8") as log:
        while log.tell() < size_mb * 1_000_000:
            step += 1
            a, b, c = rng.uniform(0.1, 9), rng.uniform(5, 300), rng.uniform(1, 60)
            log.write(line.format(n=step % 100_000, m=step // 60 % 60, s=step % 60, a=a, b=b, c=c) + "\n")


def with_loop(expression: re.Pattern[str]) -> Callable[[Path], int]:
    def loop(path: Path) -> int:
        rows = []
        with path.open(encoding="utf-8") as log:
            for line in log:
                found = expression.search(line)
                if found:
                    rows.append(tuple(map(float, found.groups())))
        return len(rows)

    return loop


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--size-mb", type=int, default=20)
    options.add_argument("--repeat", type=int, default=3)
    chosen = options.parse_args()
    read_metrics(b"step 1: loss 0.5\n" * 100_000).frame()  # what has to be imported is imported
    print(f"{'program':14} {'read_metrics':>12} {'re loop':>9} {'rg -o':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (line, expression) in PROGRAMS.items():
            path = Path(folder) / name
            make_log(path, line, chosen.size_mb)
            size_mb = path.stat().st_size / 1e6
            ways = [lambda log: len(read_metrics(log).frame()), with_loop(re.compile(expression))]
            if is_there("rg"):
                ways.append(lambda log, text=expression: discard(["rg", "-o", text, str(log)]))
            speeds = [size_mb / best_time_s(way, path, chosen.repeat)[1] for way in ways]
            speeds_text = " ".join(f"{speed:>9,.0f}" for speed in speeds)
            print(f"{name:14}    {speeds_text}{'' if len(ways) > 2 else '  not here'}", flush=True)


if __name__ == "__main__":
    main()
