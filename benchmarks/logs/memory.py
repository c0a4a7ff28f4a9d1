"""Memory of `batchai metrics read` for a large log, beside its table: one row for each output.

    python benchmarks/logs/memory.py [--size-mb 1000] [--log dense]

A process reads a log of tf_cnn_benchmarks, of which 35 % are step lines, and makes its table. What it needs
more than Python with its libraries and the table is what reading costs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.logs.made import LOGS, make_log

_READ = """
import json, resource, sys
from batchai_magics.metrics import read_metrics
def peak_mb(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
read_metrics(b"step 1: loss 0.5\\n" * 100_000).frame()
start = peak_mb()
table = read_metrics(sys.argv[1]).frame()
print(json.dumps([start, peak_mb(), table.memory_usage(deep=True).sum() / 1e6, len(table)]))
"""


def memory_of(log: Path) -> tuple[float, float, float, int]:
    """MB of Python with its libraries, at the peak, and of the table; and its rows."""
    command = [sys.executable, "-c", _READ, str(log)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    start, peak, table, rows = json.loads(printed)
    return start, peak, table, rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--size-mb", type=int, default=1000)
    options.add_argument("--log", choices=LOGS, default="dense")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        make_log(log, chosen.log, chosen.size_mb)
        start, peak, table, rows = memory_of(log)
    print(f"log of {chosen.size_mb} MB, {rows:,} rows: table {table:,.0f} MB, libraries {start:,.0f} MB")
    print(f"reading needs {peak - start - table:,.0f} MB more at its peak")


if __name__ == "__main__":
    main()
