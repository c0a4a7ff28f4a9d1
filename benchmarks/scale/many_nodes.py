"""A local job with one rank on each of many nodes: how long it takes, and the states of its nodes.

The ranks do nothing, so that all of the time is that of starting and ending them.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from batchai_magics import cell
from batchai_magics.backends.base import Backend
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit
from batchai_magics.models.resource_ids import ResourceId
from benchmarks.row import Row, table

SIZES = (4, 16, 64)
READS = 20


def rows() -> Iterator[Row]:
    """Both times for each number of nodes."""
    for count in SIZES:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            settings = Settings(
                sections={"local": LocalSettings(home=Path(folder) / "home")}, cluster_nodes=count
            )
            backend = open_backend(settings)
            line = f"wide --nodes {count} --toolkit custom"
            began = time.monotonic()
            job = submit(backend, cell.parse(line, "pass", settings=settings), settings).job.wait()
            taken_s = time.monotonic() - began
            assert job.exit_code == 0
            cluster = job.show().spec.cluster.id
            yield Row(f"a job on {count} nodes", taken_s, "-", math.nan, "s")
            yield Row(f"the states of {count} nodes", nodes_ms(backend, cluster), "-", math.nan, "ms")
            backend.close()


def nodes_ms(backend: Backend, cluster: str) -> float:
    """The median processor time that the states of a cluster's nodes take."""
    id, taken = ResourceId.parse(cluster), []
    for _ in range(READS):
        began = time.process_time()
        backend.nodes(id)
        taken.append((time.process_time() - began) * 1000)
    return statistics.median(taken)


if __name__ == "__main__":
    print(table(rows()))
