"""Reading speed of a training log: read_metrics against other ways to the same numbers, in one run.

    python benchmarks/logs/parse.py [--size-mb 40] [--repeat 3] [--live-mb 1000]
        [--only METHOD …] [--logs LOG …]

Makes logs in a temporary folder, one in each shape that launchers and collectors give to lines, and one of
all in turn: 35 % step lines of eight ranks among other output of many kinds, 1.5 % in `noisy`. Three logs
are read in every way, the others in the quickest and the usual one. All use one thread. Speeds are the best
of the repeats, by the clock and by the processor's time, children included, which another load on the machine
disturbs less; `times ours` is of the latter.
What each gives: read_metrics a frame with the whole record (rank, step, rate, uncertainty, jitter, loss,
accuracies), totals and header; the parser the same as records, from pieces of 64 KiB; the libraries and the
loop the step and the four numbers as floats; rg -o the matching text, of the whole record or without the
step; the others a count. Both of rg's patterns are printed: that of the whole record begins with digits, so
that rg has no text to look for first. Then the cost of following each log while it grows.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from batchai_magics.metrics import Parser, read_metrics
from benchmarks.logs.growing import show_live, show_shape
from benchmarks.logs.made import LOGS, make_log

os.environ["POLARS_MAX_THREADS"] = "1"

LITERAL = "images/sec: "
NUMBERS = r"images/sec: (\d+\.\d) \+/- (\d+\.\d) \(jitter = (\d+\.\d)\)[ \t]+(-?(?:nan|inf|\d+\.\d{3}))"
STEP = r"(\d+)[ \t]+" + NUMBERS
ACCURACIES = r"(?:[ \t]+(?:nan|\d\.\d{3})[ \t]+(?:nan|\d\.\d{3}))?"
RECORD, RECORD_WITHOUT_STEP = STEP + ACCURACIES, NUMBERS + ACCURACIES
NAIVE, NAIVE_BYTES = re.compile(STEP), re.compile(STEP.encode())
SLOW_S = 4.0
"""A method that takes more processor time is measured once."""

Method = Callable[[Path], int | None]


def with_read_metrics(path: Path) -> int:
    return len(read_metrics(path).frame())


def with_parser(path: Path) -> int:
    """What a live view does, with all that is there."""
    parser = Parser()
    with path.open("rb") as log:
        return sum(len(parser.feed(piece)) for piece in iter(lambda: log.read(65_536), b""))


def with_finditer(path: Path) -> int:
    """One search over the whole text, and the matches' groups."""
    return len([match.groups() for match in NAIVE_BYTES.finditer(path.read_bytes())])


def with_naive_loop(path: Path) -> int:
    """The loop that everybody writes first: it loses the glued records."""
    found = []
    with path.open(encoding="utf-8", errors="replace") as log:
        for line in log:
            match = NAIVE.match(line)
            if match:
                found.append((int(match[1]), *map(float, match.groups()[1:])))
    return len(found)


def with_pandas(path: Path) -> int:
    import pandas as pd

    lines = pd.Series(path.read_text(errors="replace").split("\n"), dtype=object)
    chosen = lines[lines.str.contains(LITERAL, regex=False)]
    return len(chosen.str.extractall(STEP).astype(float))


def with_polars(path: Path) -> int:
    import polars as pl

    lines = pl.read_csv(
        path, has_header=False, separator="\x01", quote_char=None, new_columns=["line"], encoding="utf8-lossy"
    )
    records = (
        lines.lazy()
        .filter(pl.col("line").str.contains(LITERAL, literal=True))
        .select(pl.col("line").str.extract_all(STEP).explode())
        .select(pl.col("line").str.extract_groups(STEP).struct.unnest())
        .select(pl.all().cast(pl.Float64))
    )
    return len(records.collect())


def with_pyarrow(path: Path) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    pa.set_cpu_count(1)
    lines = csv.read_csv(
        path,
        read_options=csv.ReadOptions(use_threads=False, column_names=["line"]),
        parse_options=csv.ParseOptions(delimiter="\x01", quote_char=False),
    )["line"]
    chosen = lines.filter(pc.match_substring(lines, LITERAL))
    pattern = re.sub(r"\((?=\\d)|\((?=-\?)", iter_names(), STEP)
    found = pc.extract_regex(chosen, pattern).drop_null().combine_chunks()
    columns = [found.field(i).cast("float64") for i in range(found.type.num_fields)]
    return len(columns[0])


def iter_names() -> Callable[[re.Match[str]], str]:
    """A replacement that names one group after the other, as pyarrow wants them."""
    names = iter("abcdefgh")
    return lambda match: f"(?P<{next(names)}>"


def with_grep(path: Path) -> int:
    return _count(["grep", "-c", LITERAL, str(path)])


def with_rg(path: Path) -> None:
    discard(["rg", "-o", RECORD, str(path)])


def with_rg_and_no_step(path: Path) -> None:
    """The pattern begins with a literal, which is the fastest form."""
    discard(["rg", "-o", RECORD_WITHOUT_STEP, str(path)])


def with_wc(path: Path) -> None:
    discard(["wc", "-l", str(path)])


def _count(command: list[str]) -> int:
    return int(subprocess.run(command, capture_output=True, text=True, check=False).stdout)


def discard(command: list[str]) -> None:
    # Not straight to /dev/null: some tools see that and stop at the first match.
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while process.stdout.read(1 << 20):
            pass


METHODS: dict[str, tuple[Method, str]] = {
    "read_metrics": (with_read_metrics, ""),
    "Parser, by pieces": (with_parser, ""),
    "rg -o, whole record": (with_rg, "rg"),
    "rg -o, without step": (with_rg_and_no_step, "rg"),
    "polars": (with_polars, "polars"),
    "pyarrow": (with_pyarrow, "pyarrow"),
    "pandas str.extractall": (with_pandas, "pandas"),
    "re.finditer": (with_finditer, ""),
    "naive re per line": (with_naive_loop, ""),
    "grep -c": (with_grep, "grep"),
    "wc -l": (with_wc, "wc"),
}
"""Each method, and the program or library that it needs."""

EVERY_WAY = ("dense", "noisy", "Open MPI tag")
"""The logs that are read in all ways."""

USUAL_WAYS = ("read_metrics", "Parser, by pieces", "rg -o, whole record", "re.finditer")


def is_there(need: str) -> bool:
    return not need or shutil.which(need) is not None or find_spec(need) is not None


def best_time_s(method: Callable[[Path], Any], path: Path, repeat: int) -> tuple[float, float, Any]:
    """The best wall and processor times, and what the method gave; a slow one is not repeated."""
    walls, processor = [], []
    for _ in range(repeat):
        start, used = time.perf_counter(), processor_s()
        found = method(path)
        walls.append(time.perf_counter() - start)
        processor.append(processor_s() - used)
        if processor[0] > SLOW_S:
            break
    return min(walls), max(min(processor), 1e-3), found


def processor_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(path: Path, log: str, repeat: int, names: Iterable[str]) -> None:
    size_mb = path.stat().st_size / 1e6
    ours_s = 0.0
    for name in names:
        method, need = METHODS[name]
        if not is_there(need):
            print(f"{log:20} {name:22} skipped: {need} is not installed")
            continue
        wall_s, used_s, found = best_time_s(method, path, repeat)
        ours_s = ours_s or used_s
        records = "" if found is None else f"{found:,}"
        speeds = f"{size_mb / wall_s:>9,.0f} {size_mb / used_s:>9,.0f}"
        print(f"{log:20} {name:22} {records:>9} {speeds} {used_s / ours_s:>10.2f}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--size-mb", type=int, default=40)
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--live-mb", type=int, default=1000, help="size of the growing log; 0 leaves it out")
    options.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS))
    options.add_argument("--logs", nargs="+", choices=LOGS, default=list(LOGS))
    chosen = options.parse_args()
    read_metrics(b"\n" * 2_000_000).frame()  # what has to be imported is imported
    print(f"whole record  {RECORD}\nwithout step  {RECORD_WITHOUT_STEP}\n")
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'log':20} {'method':22} {'found':>9} {'MB/s':>9} {'MB/cpu s':>9} {'times ours':>10}")
        for log in chosen.logs:
            make_log(Path(folder) / log, log, chosen.size_mb)
            ways = [name for name in chosen.only if log in EVERY_WAY or name in USUAL_WAYS]
            measure(Path(folder) / log, log, chosen.repeat, ways)
        print("\nfollowing each log, µs of processor time per update and per record")
        for log in chosen.logs:
            show_shape(log, (Path(folder) / log).read_bytes())
        if chosen.live_mb:
            show_live((Path(folder) / chosen.logs[0]).read_bytes(), chosen.live_mb)


if __name__ == "__main__":
    main()
