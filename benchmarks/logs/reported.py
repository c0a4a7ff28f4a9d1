"""What a process pays for its numbers: `log()` against `print`, into a pipe that somebody empties.

    python benchmarks/logs/reported.py [--calls 50000] [--repeat 5]

The same three numbers each time: by `log()`, by `print` with `flush=True` as a script does whose output is to
be seen at once, and by `print` alone, which keeps some back. Processor time of the process, the best of
the repeats, taken in turn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.row import Row

PRELUDE = "import sys, time; from batchai_magics.backends.node.job_module import log"
WAYS = {
    "log()": "log(step=i, loss=0.25, images_per_sec=312.5)",
    "print, flushed": "print(f'step {i}: loss = {0.25}, images/sec = {312.5}', flush=True)",
    "print, kept back": "print(f'step {i}: loss = {0.25}, images/sec = {312.5}')",
}


def microseconds(way: str, calls: int) -> float:
    """The processor time of one call, in a process of its own."""
    code = f"""{PRELUDE}
before = time.process_time()
for i in range({calls}):
    {WAYS[way]}
sys.stderr.write(str((time.process_time() - before) / {calls} * 1e6))
"""
    emptied = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=emptied.stdin, stderr=subprocess.PIPE, check=True
    )
    emptied.communicate()
    return float(done.stderr)


def best(calls: int, repeat: int) -> dict[str, float]:
    """The least that each way took."""
    rounds = [{way: microseconds(way, calls) for way in WAYS} for _ in range(repeat)]
    return {way: min(times[way] for times in rounds) for way in WAYS}


def rows() -> Iterator[Row]:
    """`log()` against both prints."""
    times = best(20_000, 3)
    for way in list(WAYS)[1:]:
        yield Row("a line of numbers from a script", times["log()"], way, times[way], "µs")


def main() -> None:
    """Prints what each way costs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=50_000)
    parser.add_argument("--repeat", type=int, default=5)
    asked = parser.parse_args()
    for way, time_us in best(asked.calls, asked.repeat).items():
        print(f"{way:20}{time_us:8.2f} µs")


if __name__ == "__main__":
    main()
