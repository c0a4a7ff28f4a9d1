"""Runs all benchmarks one after the other and prints one table: `make bench`."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from benchmarks import commands, load_ext, sweeps
from benchmarks.browser import seen
from benchmarks.chaos import kills
from benchmarks.jobs import (
    allreduce,
    cost,
    history,
    large_cells,
    many_jobs,
    slurm,
    start,
    telemetry,
    transfer,
)
from benchmarks.logs import made, parse, printed_secrets, progress_lines, reported
from benchmarks.row import Row, table
from benchmarks.scale import busy_server, many_nodes, wide_job
from benchmarks.server import load, pixels, watchers
from benchmarks.views import all_jobs, chart, compare, log, sweep, watch_azure, watch_many

AGAINST = ("grep -c", "rg -o, whole record")
"""What reading a log is held against, of what `logs/parse.py` measures."""

PARSED = ("dense", "noisy", "Open MPI tag", "Open MPI tag+time", "tags at both ends", "all in turn")
"""The logs that are read, the usual ones and the hardest."""


def main() -> None:
    """Prints the machine, each row as soon as it is measured, and in the end the table.

    A failed measurement ends none of the others.
    """
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n"
    print(machine, flush=True)
    sources = (
        load_ext.rows,
        commands.rows,
        start.rows,
        allreduce.rows,
        many_jobs.rows,
        sweeps.rows,
        cost.rows,
        history.rows,
        large_cells.rows,
        watch_many.rows,
        watch_azure.rows,
        kills.rows,
        all_jobs.rows,
        chart.rows,
        compare.rows,
        sweep.rows,
        log.rows,
        reported.rows,
        telemetry.rows,
        transfer.rows,
        printed_secrets.rows,
        progress_lines.rows,
        load.rows,
        watchers.rows,
        pixels.rows,
        slurm.rows,
        many_nodes.rows,
        wide_job.rows,
        busy_server.rows,
        parse_rows,
        seen.rows,
    )
    rows: list[Row] = []
    failed = []
    for source in sources:
        started = time.monotonic()
        try:
            rows += map(told, source())
        except Exception:  # noqa: BLE001  # whatever one benchmark raises
            failed.append(source.__module__)
            traceback.print_exc()
        print(f"{source.__module__}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(table(rows))
    if failed:
        sys.exit(f"Failed, with their reasons above: {', '.join(failed)}.")


def told(row: Row) -> Row:
    """The row, which is told on standard error: a run that is stopped has not measured for nothing."""
    print(*row.cells, sep="  ", file=sys.stderr, flush=True)
    return row


def parse_rows() -> Iterator[Row]:
    """Reading speed of a training log."""
    with tempfile.TemporaryDirectory() as folder:
        for log in PARSED:
            path = Path(folder) / log
            made.make_log(path, log, 20)
            size_mb = path.stat().st_size / 1e6
            ours = parse.best_time_s(parse.with_read_metrics, path, 3)[1]
            for name in filter(lambda name: parse.is_there(parse.METHODS[name][1]), AGAINST):
                theirs = parse.best_time_s(parse.METHODS[name][0], path, 3)[1]
                yield Row(f"metrics of a log: {log}", size_mb / ours, name, size_mb / theirs, "MB/s")


if __name__ == "__main__":
    main()
