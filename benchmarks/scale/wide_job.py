"""A wide job, watched in JupyterLab: the CPU of kernel and page for its ranks and its lines a second.

The job is generated: one process prints what so many ranks would, at a rate, with the prefixes of `mpirun`.
Takes a minute for each size.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from playwright.sync_api import Browser, CDPSession

from benchmarks.row import Row, table
from tests.widgets import lab as jupyter

SIZES = ((16, 2000), (256, 200), (256, 10_000))  # ranks, lines a second
WATCHED_S = 15.0
CALM_S = 5.0  # after the first chart, before it counts
LIMIT = 25.0  # percent of a core
PID = "kernel.pid"
SETUP = f"""\
import os, pathlib
pathlib.Path("{PID}").write_text(str(os.getpid()))
%load_ext batchai_magics"""
CELL = """\
%%batchai_job wide-{ranks}-{lines} --toolkit custom
import time
ranks, per_tick, tick_s, number = {ranks}, {lines} // 20, 0.05, 0
due = time.monotonic()
while True:
    for number in range(number, number + per_tick):
        step, rank = divmod(number, ranks)
        rate = 200 + rank % 7 + step % 5
        told = f"images/sec: {{rate:.1f}} +/- 1.0 (jitter = 2.0)\\t{{7 / (step + 1):.3f}}"
        print(f"[1,{{rank}}]<stdout>:{{step}}\\t{{told}}")
    number += 1
    print(end="", flush=True)
    due += tick_s
    time.sleep(max(0, due - time.monotonic()))
"""


def rows() -> Iterator[Row]:
    """The share of a core of each size; nothing where there is no Chromium."""
    chromium = next((path for path in jupyter.CHROMIUM if Path(path).exists()), None)
    if chromium is None:
        print("Wide jobs are not measured: no Chromium.", file=sys.stderr)
        return
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        jupyter.server(Path(folder)) as server,
        jupyter.chrome(chromium) as browser,
    ):
        for ranks, lines in SIZES:
            kernel, page = shares(browser, server, ranks, lines)
            what = f"{ranks} ranks, {lines:,} lines/s"
            yield Row(f"{what}: kernel, of a core", kernel, "the limit", LIMIT, "%")
            yield Row(f"{what}: page, of a core", page, "the limit", LIMIT, "%")


def shares(browser: Browser, server: jupyter.Server, ranks: int, lines: int) -> tuple[float, float]:
    """What kernel and page need of a core, in percent, while such a job is watched."""
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    lab = jupyter.Lab(page, server)
    try:
        lab.open(f"wide-{ranks}-{lines}", SETUP, CELL.format(ranks=ranks, lines=lines), "job.cancel()")
        lab.run(0)
        kernel = psutil.Process(int((lab.root / PID).read_text()))
        lab.run(1)
        page.locator(".ba-plot canvas").first.wait_for()
        page.wait_for_timeout(CALM_S * 1000)
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        before, began = (kernel_s(kernel), page_s(devtools)), time.monotonic()
        page.wait_for_timeout(WATCHED_S * 1000)
        spent_s = time.monotonic() - began
        used = kernel_s(kernel) - before[0], page_s(devtools) - before[1]
        lab.run(2)
        return 100 * used[0] / spent_s, 100 * used[1] / spent_s
    finally:
        lab.shut_down()
        page.close()


def kernel_s(kernel: psutil.Process) -> float:
    """The processor time of a kernel."""
    times = kernel.cpu_times()
    return times.user + times.system


def page_s(devtools: CDPSession) -> float:
    """The processor time of a page's main thread since these metrics were enabled."""
    metrics = {each["name"]: each["value"] for each in devtools.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


if __name__ == "__main__":
    print(table(rows()))
