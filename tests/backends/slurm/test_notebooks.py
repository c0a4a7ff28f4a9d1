"""A notebook's kernel on a real Slurm: its jobs are there for the next kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.backends.slurm.real_slurm import MPI_ENV, RealSlurm
from tests.magics.test_kernel import execute
from tests.patience import PATIENCE_S
from tests.world import processes_of, until

pytestmark = pytest.mark.slow
OPTIONS = "--nodes 2 --processes 4 --toolkit horovod"
HOLDS = "print('begun', flush=True)\nimport time\ntime.sleep(1000)"


def environment(slurm: RealSlurm, folder: Path) -> dict[str, str]:
    """What a kernel needs to know of a Slurm."""
    own = {
        "BATCHAI_BACKEND": "slurm",
        "BATCHAI_SLURM_HOME": str(folder / "home"),
        "BATCHAI_SLURM_CONF": str(slurm.conf),
        "BATCHAI_SLURM_LOOK_S": "0.2",
        "IPYTHONDIR": str(folder / "ipython"),
    }
    return {**os.environ, **MPI_ENV, **own, "BATCHAI_UI": "text"}


@contextmanager
def kernel_on(slurm: RealSlurm, folder: Path) -> Iterator[BlockingKernelClient]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environment(slurm, folder))
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=PATIENCE_S)
    client.manager = manager
    assert execute(client, "%load_ext batchai_magics")[0] == "ok"
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(slurm: RealSlurm, tmp_path: Path) -> Iterator[BlockingKernelClient]:
    """A kernel whose cells run on a real Slurm."""
    with kernel_on(slurm, tmp_path) as client:
        yield client
    slurm.ask("scancel", "--user", str(os.getuid()))
    until(lambda: slurm.is_idle() and not processes_of(tmp_path / "home"))


def output_of(client: BlockingKernelClient, code: str) -> str:
    """What a cell prints that has to work."""
    status, text = execute(client, code)
    assert status == "ok", text
    return text


def test_the_same_cell_comes_back_after_a_restart_and_in_a_second_kernel(
    kernel: BlockingKernelClient, slurm: RealSlurm, tmp_path: Path
) -> None:
    cell = f"%%batchai_job long {OPTIONS}\n{HOLDS}"
    output_of(kernel, cell)
    until(lambda: "begun" in output_of(kernel, "print(job.log())"))
    first = output_of(kernel, "print(job.show().output_path_segment)")
    kernel.manager.restart_kernel(now=True)
    kernel.wait_for_ready(timeout=PATIENCE_S)
    output_of(kernel, "%load_ext batchai_magics")
    with kernel_on(slurm, tmp_path) as second:
        for client in (kernel, second):
            output_of(client, cell)
            assert output_of(client, "print(job.name, job.show().output_path_segment)") == f"long {first}"
        assert output_of(second, "print(job.is_done)") == "False\n"
        output_of(second, "job.cancel()")
        assert output_of(kernel, "print(job.wait().show().word)") == "cancelled\n"
        assert output_of(second, "print(job.wait().show().word)") == "cancelled\n"
