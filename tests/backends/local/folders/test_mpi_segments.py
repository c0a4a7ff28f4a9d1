"""Segments that killed ranks leave are deleted; those that a process has are not."""

from __future__ import annotations

import contextlib
import mmap
import sys
from pathlib import Path

import pytest

from batchai_magics.backends.local.folders import mpi_segments
from tests.world import World, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="segments are files only on Linux"),
]
CODE = "from mpi4py import MPI\nprint(MPI.COMM_WORLD.size, flush=True)\n"
FIND = "print(open('/proc/self/maps').read().split('/dev/shm/')[1].split()[0], flush=True)\n"


def test_killed_ranks_leave_no_shared_memory(world: World) -> None:
    job = world.submit("j --nodes 2 --processes 4", CODE + FIND + "import time; time.sleep(1000)")
    until(lambda: job.log().count("mpich_shm_") == 4)
    segments = {Path("/dev/shm", word) for word in job.log().split() if word.startswith("mpich_shm_")}
    assert len(segments) == 2  # one a node
    assert all(path.exists() for path in segments)
    job.cancel()
    until(lambda: not any(path.exists() for path in segments))


def test_a_segment_that_a_process_has_stays() -> None:
    path = Path("/dev/shm/mpich_shm_ours_test")
    try:
        path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file, mmap.mmap(file.fileno(), mmap.PAGESIZE):
            mpi_segments.sweep()
            assert path.exists()
        mpi_segments.sweep()
        assert not path.exists()
    finally:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
