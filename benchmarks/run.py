"""Runs all benchmarks one after the other and prints one table: `make bench`."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path

import allreduce
import browser
import chaos
import chart
import commands
import history
import job_cost
import load_ext
import log
import many_jobs
import parse
import parse_logs
import printed_secrets
import progress_lines
import reported
import server
import server_pixels
import slurm
import start
import telemetry
import transfer
import watch_many
from row import Row, table

AGAINST = ("grep -c", "rg -o, whole record")
"""What reading a log is held against, of what `parse.py` measures."""

PARSED = ("dense", "noisy", "Open MPI tag", "Open MPI tag+time", "tags at both ends", "all in turn")
"""The logs that are read, the usual ones and the hardest."""


def main() -> None:
    """Prints the machine and the table."""
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    sources = (
        load_ext.rows,
        commands.rows,
        start.rows,
        allreduce.rows,
        many_jobs.rows,
        job_cost.rows,
        history.rows,
        watch_many.rows,
        chaos.rows,
        chart.rows,
        log.rows,
        reported.rows,
        telemetry.rows,
        transfer.rows,
        printed_secrets.rows,
        progress_lines.rows,
        server.rows,
        server_pixels.rows,
        slurm.rows,
        parse_rows,
        browser.rows,
    )
    print(table(row for rows in sources for row in rows()))


def parse_rows() -> Iterator[Row]:
    """Reading speed of a training log."""
    with tempfile.TemporaryDirectory() as folder:
        for log in PARSED:
            path = Path(folder) / log
            parse_logs.make_log(path, log, 50)
            size_mb = path.stat().st_size / 1e6
            ours = parse.best_time_s(parse.with_read_metrics, path, 3)[1]
            for name in filter(lambda name: parse.is_there(parse.METHODS[name][1]), AGAINST):
                theirs = parse.best_time_s(parse.METHODS[name][0], path, 3)[1]
                yield Row(f"metrics of a log: {log}", size_mb / ours, name, size_mb / theirs, "MB/s")


if __name__ == "__main__":
    main()
