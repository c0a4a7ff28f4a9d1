"""A queue worked off: how long the local backend takes over many short jobs.

It is held against submitit's local executor, four jobs at a time, as many as the cluster has nodes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit
from benchmarks.row import Row, table

QUEUE, NODES = 40, 4


def rows() -> Iterator[Row]:
    """The measurement."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        yield Row(
            f"{QUEUE} jobs over {NODES} nodes",
            queued(place / "queue"),
            "submitit, 4 at a time",
            by_submitit(place),
            "s",
        )


def queued(home: Path) -> float:
    """Seconds from the first submission to the end of the last job."""
    settings = Settings(sections={"local": LocalSettings(home=home)}, cluster_nodes=NODES)
    backend = open_backend(settings)
    began = time.perf_counter()
    jobs = [
        submit(backend, parse(f"q{number} --toolkit custom", "1", settings=settings), settings).job
        for number in range(QUEUE)
    ]
    for job in jobs:
        assert job.wait().exit_code == 0
    return time.perf_counter() - began


def by_submitit(place: Path) -> float:
    """The same with submitit's local executor."""
    import submitit  # of the extra [bench]

    executor = submitit.LocalExecutor(folder=place / "submitit")
    executor.update_parameters(timeout_min=1)
    began = time.perf_counter()
    with ThreadPoolExecutor(NODES) as pool:
        list(pool.map(lambda _: executor.submit(int).result(), range(QUEUE)))
    return time.perf_counter() - began


if __name__ == "__main__":
    print(table(rows()))
