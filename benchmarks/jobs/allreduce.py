"""Two ranks on two nodes of this machine sum up 16 MB, as training does with its gradients.

Held against plain `mpiexec` with two ranks, where MPI sees one node.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit
from benchmarks.row import Row, table

TRIES = 3
SCRIPT = """
import time
import numpy
from mpi4py import MPI
world = MPI.COMM_WORLD
data = numpy.ones(4 << 20, dtype="f4")
total = numpy.empty_like(data)
best_s = float("inf")
for _ in range(40):
    world.Barrier()
    began = time.perf_counter()
    world.Allreduce(data, total)
    best_s = min(best_s, time.perf_counter() - began)
assert total[0] == world.size
if not world.rank:
    print(data.nbytes / best_s / 1e6)
"""


def rows() -> Iterator[Row]:
    """One row: the best of some tries, taken in turns."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        pairs = [(on_two_nodes(Path(folder) / "home", number), by_mpiexec()) for number in range(TRIES)]
    ours, theirs = (max(speeds) for speeds in zip(*pairs, strict=True))
    yield Row("allreduce of 16 MB, 2 ranks on 2 nodes", ours, "mpiexec -n 2, one node", theirs, "MB/s")


def on_two_nodes(home: Path, number: int) -> float:
    """The speed in a job."""
    settings = Settings(sections={"local": LocalSettings(home=home)}, cluster_nodes=2)
    backend = open_backend(settings)
    request = parse(f"sum{number} --nodes 2 --processes 2", SCRIPT, settings=settings)
    return float(submit(backend, request, settings).job.wait().log())


def by_mpiexec() -> float:
    """The speed of the same ranks, started by hand."""
    command = [Path(sys.executable).parent / "mpiexec", "-n", "2", sys.executable, "-c", SCRIPT]
    return float(subprocess.check_output(command, text=True))


if __name__ == "__main__":
    print(table(rows()))
