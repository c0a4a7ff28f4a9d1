"""Segments that killed ranks leave are deleted; those that a process has are not."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.node.ranks import leftovers
from tests.backends.local.namespace import scene, tell
from tests.world import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="segments are files only on Linux"),
]
CODE = "from mpi4py import MPI\nprint(MPI.COMM_WORLD.size, flush=True)\n"
FIND = """
lines = [line.split() for line in open('/proc/self/maps') if '/dev/shm/' in line]
print(*{words[5].rpartition('/')[2] for words in lines}, flush=True)
"""


def test_killed_ranks_leave_no_shared_memory(world):
    job = world.submit("j --nodes 2 --processes 4", CODE + FIND + "import time; time.sleep(1000)")
    until(lambda: job.log().count("mpich_shm_") == 4)
    names = set(job.log().split()) - {"4"}
    assert sorted(name.startswith("mpich_shm_") for name in names) == [False] * 4 + [True] * 2  # one a node
    segments = {Path("/dev/shm", name) for name in names}
    assert all(path.exists() for path in segments)
    job.cancel()
    until(lambda: not any(path.exists() for path in segments))


def test_a_killed_process_leaves_no_shared_memory_of_an_mpi_that_is_not_ours(world, tmp_path):
    path = segment_of(tmp_path)
    code = f"file = open({str(path)!r}, 'w+b')\nfile.truncate(4096)\n"
    code += "import mmap, time\nmade = mmap.mmap(file.fileno(), 4096)\n"
    code += "print('up', flush=True)\ntime.sleep(1000)\n"
    try:
        job = world.submit("j", code)
        until(lambda: job.log() == "up\n")
        assert path.exists()
        job.cancel()
        until(lambda: not path.exists())
    finally:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def mapped(path: Path, *, is_mapped: bool = True) -> Iterator[None]:
    """Opens and maps a new file, which has its name only then: jobs that end elsewhere sweep too."""
    path.with_suffix(".new").write_bytes(bytes(mmap.PAGESIZE))
    with contextlib.ExitStack() as has, path.with_suffix(".new").open("r+b") as file:
        if is_mapped:
            has.enter_context(mmap.mmap(file.fileno(), mmap.PAGESIZE))
        path.with_suffix(".new").rename(path)
        yield


@pytest.mark.parametrize(
    ("name", "is_mapped"),
    [("mpich_shm_ours_test", True), ("4194305:0:0", True), ("mpich_shm_made", False)],
)
def test_a_segment_that_a_process_has_mapped_or_is_about_to_stays(name, is_mapped):
    path = Path("/dev/shm", name)
    try:
        with mapped(path, is_mapped=is_mapped):
            leftovers.sweep_segments()
            assert path.exists()
        leftovers.sweep_segments()
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)


def test_a_segment_named_after_a_living_process_stays():
    """Other ranks open it when they first talk to it, long after the process has made it."""
    path = Path(f"/dev/shm/{os.getpid()}:0:7")
    try:
        path.touch()
        leftovers.sweep_segments()
        assert path.exists()
    finally:
        path.unlink()


def segment_of(place: Path) -> Path:
    """A segment that no other test has."""
    return Path(f"/dev/shm/mpich_shm_{zlib.crc32(bytes(place))}")


def sweeping_below(place: Path) -> None:
    """Runs in a namespace of its own, from where nobody can see what processes outside have mapped."""
    leftovers.sweep_segments()
    tell(segment_of(place).exists())


def test_segments_stay_if_not_all_processes_are_visible(tmp_path):
    path = segment_of(tmp_path)
    try:
        with mapped(path):
            assert scene(sweeping_below, tmp_path) == [True]
    finally:
        path.unlink(missing_ok=True)
