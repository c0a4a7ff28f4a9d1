"""However ranks are to meet on several nodes: they are one world, or the job fails before they run."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.real_slurm import RealSlurm
from tests.contract.place import Place

pytestmark = pytest.mark.slow
SUM = (
    "from mpi4py import MPI; import sys; c = MPI.COMM_WORLD;"
    'sys.stdout.write(f"{c.size} {c.allreduce(1)}\\n")'  # one piece: mpiexec passes on pieces of lines
)


def ranks_by(place: Place, mpi: str) -> JobResource:
    """A job of four ranks on two nodes, that meet by what `srun --mpi=` is told."""
    with closing(SlurmBackend(replace(place.backend.settings, mpi=mpi))) as backend:
        command = {"commandLine": f"python -c '{SUM}'", "processCount": 4}
        spec = place.spec(nodeCount=2, customToolkitSettings=None, customMpiSettings=command)
        backend.create(place.job(), spec)
        return place.wait(place.job())


@pytest.mark.parametrize("mpi", ["pmix", "none"])
def test_ranks_are_one_world_or_none_runs_and_the_plugins_are_named(
    place: Place, slurm: RealSlurm, mpi: str
) -> None:
    job = ranks_by(place, mpi)
    log = place.log(job.id)
    if job.state is ExecutionState.SUCCEEDED:  # where a PMIx is installed with which Slurm works
        assert (mpi, log) == ("pmix", b"4 4\n" * 4)
    else:
        (error,) = job.execution.errors
        assert (error.code, log) == ("JobLaunchFailed", b"")
        named = error.message.partition(f"slurm.mpi: {mpi}. This Slurm has these plugins: ")[2].split(", ")
        assert "pmi2" in named, error
        assert all(plugin in slurm.ask("srun", "--mpi=list").split() for plugin in named), error
