"""What a real Slurm, or the kernel, ends jobs for: memory, time."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.job_files import first_error, number
from tests.contract.place import HOLD, MOUNTED, Place
from tests.world import until

pytestmark = pytest.mark.slow
STRICT = """
SelectTypeParameters=CR_CPU_Memory
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill"""
# A Slurm that watches the memory of jobs.
strict = pytest.mark.parametrize(
    "own_slurm", [{"silence_s": 60, "more": STRICT, "gathered": "linux"}], indirect=True, ids=["strict"]
)
GROUPS = Path("/sys/fs/cgroup/memory")
EATS = "exec python3 -c 'x = bytearray(300 << 20); import time; time.sleep(1000)'"


@pytest.fixture
def strict_place(own_place: Place) -> Place:
    """A place on it whose jobs share nodes."""
    return replace(own_place, backend=SlurmBackend(replace(own_place.backend.settings, options="")))


@strict
def test_a_job_that_uses_more_memory_or_time_than_it_has_says_so(strict_place, own_slurm):
    """Slurm looks at its time limits every half minute: both jobs run at the same time."""
    place = strict_place
    lasts = place.start(HOLD, "lasts", batchaiSlurm="--time=1 --mem=100M")
    place.is_up(lasts)
    own_slurm.ask("scontrol", "update", f"jobid={number(place, lasts)}", "endtime=now+1")
    job = place.wait(place.start(EATS, "eats", batchaiSlurm="--mem=100M"))
    assert (job.state, first_error(job).code) == (ExecutionState.FAILED, "JobOutOfMemory")
    assert first_error(place.wait(lasts)).code == "JobMaxWallClockTimeReached"


@strict
def test_ranks_on_two_nodes_that_use_more_memory_than_they_have_say_so(strict_place):
    place, wait = strict_place, f"until [ -e {MOUNTED}/go ]; do sleep 0.05; done"
    mpi = {"commandLine": f"echo up; {wait}; {EATS}", "processCount": 2}
    fields = {"nodeCount": 2, "customToolkitSettings": None, "customMpiSettings": mpi}
    id = place.start(batchaiSlurm="--mem=100M", **fields)
    until(lambda: place.log(id) == b"up\nup\n")  # the first rank to use too much ends the other
    place.backend.storage.upload(place.share, {"go": b""})
    job = place.wait(id)
    assert place.log(id) == b"up\nup\n"
    assert first_error(job).code == "JobOutOfMemory"


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
    place, small_group, nodes
):
    line = f"echo $$ > {small_group}/cgroup.procs; {EATS}"
    mpi = {"commandLine": line, "processCount": nodes}
    job = place.run(nodeCount=nodes, customToolkitSettings=None, customMpiSettings=mpi)
    assert first_error(job).code == "JobOutOfMemory"
    assert "The kernel of node" in first_error(job).message
    assert job.execution.exit_code == 137
