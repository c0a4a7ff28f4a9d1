"""What it costs to sample what ranks use, and what psutil needs for the same numbers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from batchai_magics.backends.node.ranks.telemetry_sampler import Sampler
from batchai_magics.launch.plan import LogPaths, Output, Plan, PlanNode, Process
from benchmarks.row import Row, table

RANKS = 8
SAMPLES = 200
HOUR_S = 3600.0


def rows() -> Iterator[Row]:
    """The processor time of one sample, and the share of a core that samples take."""
    with tempfile.TemporaryDirectory() as folder, _ranks() as groups:
        sampler = Sampler(_plan(folder), first_rank=0)
        sampler.sample_if_due(groups)
        ours_s = _cost_s(lambda: sampler._write(sampler._sample(groups)))
        theirs_s = _cost_s(lambda: [_by_psutil(group) for group in groups.values()])
        yield Row(f"sample of {RANKS} ranks", ours_s * 1e3, "psutil", theirs_s * 1e3, "ms")
        sampler._started_s -= HOUR_S
        yield Row("share of a core that samples take", _share(sampler, groups), "the limit", 0.5, "%")
        sampler.close()


def _share(sampler: Sampler, groups: dict[int, int]) -> float:
    """In percent, with the search for processes: what a look costs, over the time until the next one."""
    sampler._search_due = sampler.due_s = 0.0
    began, now_s = time.thread_time(), time.monotonic()
    sampler.sample_if_due(groups)
    search_s = sampler._search_due - now_s
    cost_s, wait_s = time.thread_time() - began, sampler.due_s - now_s
    sample_s = _cost_s(lambda: sampler._write(sampler._sample(groups)))
    return 100 * (sample_s / wait_s + (cost_s - sample_s) / search_s)


def _cost_s(work: object) -> float:
    assert callable(work)
    began = time.thread_time()
    for _ in range(SAMPLES):
        work()
    return (time.thread_time() - began) / SAMPLES


def _by_psutil(pid: int) -> list[object]:
    process = psutil.Process(pid)
    return [
        (each.cpu_times(), each.memory_info(), each.io_counters())
        for each in (process, *process.children(recursive=True))
    ]


def _plan(folder: str) -> Plan:
    processes = tuple(Process(rank, 0, "true") for rank in range(RANKS))
    logs = Output(LogPaths(""), LogPaths(""))
    node = PlanNode("n0", "/", "/tmp", {})
    return Plan("g", (node,), processes, logs, exits="", python="", telemetry=str(Path(folder) / "telemetry"))


@contextmanager
def _ranks() -> Iterator[dict[int, int]]:
    """Processes that sleep, each in a group of its own, by their ranks."""
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    children = [subprocess.Popen(argv, start_new_session=True) for _ in range(RANKS)]
    try:
        yield {rank: child.pid for rank, child in enumerate(children)}
    finally:
        for child in children:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


if __name__ == "__main__":
    print(table(rows()))
