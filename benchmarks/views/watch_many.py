"""Many jobs followed in one kernel, each with a line a second: what of a core that takes.

Held against following one of them so many times as costly: what is shared makes the difference.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from batchai_magics import cell
from batchai_magics.backends.base import Backend
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.follow import Follower
from batchai_magics.jobs.submit import submit
from batchai_magics.models.resource_ids import ResourceId
from benchmarks.row import Row, table

COUNTS = (16, 32)
LOOK_S = 0.1  # between two looks at all jobs, as the live views take them
MEASURED_S = 10.0
SCRIPT = """
import time
for step in range(100_000):
    print(f"step={step} loss={1 / (step + 1):.6f}", flush=True)
    time.sleep(1)
"""


def rows() -> Iterator[Row]:
    """The share of a core for each number of jobs, against that of one job times the number."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        most = max(COUNTS)
        settings = Settings(sections={"local": LocalSettings(home=Path(folder) / "home")}, cluster_nodes=most)
        backend = open_backend(settings)
        requests = [cell.parse(f"j{number}", SCRIPT, settings=settings) for number in range(most)]
        jobs = [submit(backend, request, settings).job for request in requests]
        while not all(job.log() for job in jobs):
            time.sleep(0.1)
        ids = [job.id for job in jobs]
        one = share(backend, ids[:1])
        for count in COUNTS:
            what = f"{count} jobs followed, of a core"
            yield Row(what, share(backend, ids[:count]) * 100, f"{count} × one job", one * count * 100, "%")
        for job in jobs:
            job.cancel()
        for job in jobs:
            job.wait()


def share(backend: Backend, ids: list[ResourceId]) -> float:
    """The CPU time of this process per second of looks, while these jobs are followed.

    On a busy machine looks come later; each is counted as if it had come in time.
    """
    followers = [Follower(backend, id) for id in ids]
    seen, looks, began, cpu_s = 0, 0, time.monotonic(), time.process_time()
    while time.monotonic() - began < MEASURED_S:
        seen += sum(len(follower.poll()) for follower in followers)
        looks += 1
        time.sleep(LOOK_S)
    assert seen >= len(ids), "nothing came"
    return (time.process_time() - cpu_s) / looks / LOOK_S


if __name__ == "__main__":
    print(table(rows()))
