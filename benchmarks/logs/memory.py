"""Memory of `batchai metrics read` for a large log, beside its table: one row for each output.

    python benchmarks/logs/memory.py [--size-mb 1000] [--log dense]

A process reads a log of tf_cnn_benchmarks, of which 35 % are step lines, and makes its table. What it needs
more than Python with its libraries and the table is what reading costs. What was read and its table are the
result: the limit is 1.5 times their memory and 200 MB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.logs.made import LOGS, make_log

_LIMIT_OF_RESULT, _LIMIT_MB = 1.5, 200
_READ = """
import json, resource, sys
from batchai_magics.metrics import read_metrics
def peak_mb(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
read_metrics(b"step 1: loss 0.5\\n" * 100_000).frame()
start = peak_mb()
log = read_metrics(sys.argv[1])
read = peak_mb()
table = log.frame()
columns = {id(each): each for lines in log.table.lines for each in (lines.rows, *lines._columns)}
columns_mb = sum(8 * len(each._stored) for each in columns.values()) / 1e6
print(json.dumps([start, read, peak_mb(), columns_mb, table.memory_usage(deep=True).sum() / 1e6, len(table)]))
"""


def memory_of(log: Path) -> Mapping[str, float]:
    """MB of Python with its libraries, at both peaks, of the columns and of the table; and its rows."""
    command = [sys.executable, "-c", _READ, str(log)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = ("libraries", "peak_of_reading", "peak", "columns", "table", "rows")
    return dict(zip(names, json.loads(printed), strict=True))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--size-mb", type=int, default=1000)
    options.add_argument("--log", choices=LOGS, default="dense")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        make_log(log, chosen.log, chosen.size_mb)
        found = memory_of(log)
    table, columns, peaks = found["table"], found["columns"], (found["peak_of_reading"], found["peak"])
    print(
        f"log of {chosen.size_mb} MB, {found['rows']:,} rows: libraries {found['libraries']:,.0f} MB,"
        f" columns {columns:,.0f} MB, table {table:,.0f} MB"
    )
    for what, peak, result in zip(("reading", "the table"), peaks, (columns, columns + table), strict=True):
        limit = _LIMIT_OF_RESULT * result + _LIMIT_MB
        print(f"peak of {what} {peak:,.0f} MB, limit {limit:,.0f} MB")


if __name__ == "__main__":
    main()
