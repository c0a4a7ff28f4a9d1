"""Jobs of a real Slurm whose ranks somebody kills, or the kernel, for want of memory."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.slurm.job_files import first_error, number
from tests.backends.slurm.real_slurm import RealSlurm
from tests.contract.place import Place
from tests.world import until

pytestmark = pytest.mark.slow
GROUPS = Path("/sys/fs/cgroup/memory")
EATS = "python3 -c 'x = bytearray(300 << 20); import time; time.sleep(1000)'"


def test_ranks_on_two_nodes_that_somebody_kills_are_not_said_never_to_have_run(
    place: Place, slurm: RealSlurm
) -> None:
    id = place.start_ranks("echo up; exec sleep 1000", count=4)
    until(lambda: place.log(id).count(b"up") == 4)
    slurm.ask("scancel", "-s", "KILL", f"{number(place, id)}.0")
    job = place.wait(id)
    assert (first_error(job).code, job.execution.exit_code) == ("JobFailed", 137)
    assert len(job.ranks) == 4


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group with little memory, which Slurm knows nothing of."""
    folder = GROUPS / f"batchai-test-{uuid.uuid4().hex}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(64 << 20))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield folder
    with contextlib.suppress(OSError):
        until(lambda: not (folder / "cgroup.procs").read_text())
        folder.rmdir()


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_rank_that_the_kernel_kills_for_want_of_memory_is_known_without_slurms_help(
    place: Place, small_group: Path, nodes: int
) -> None:
    line = f"echo $$ > {small_group}/cgroup.procs; exec {EATS}"
    mpi = {"commandLine": line, "processCount": nodes}
    job = place.run(nodeCount=nodes, customToolkitSettings=None, customMpiSettings=mpi)
    assert first_error(job).code == "JobOutOfMemory"
    assert "The kernel of node" in first_error(job).message
    assert job.execution.exit_code == 137
