"""Options of sbatch that somebody wrote: they reach Slurm, and what it has not is told before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.errors import SpecError
from tests.backends.slurm.job_files import number
from tests.backends.slurm.real_slurm import RealSlurm, running
from tests.contract.place import HOLD, PlaceOptions
from tests.contract.places import place_on

pytestmark = pytest.mark.slow


@pytest.fixture
def rich_slurm(tmp_path: Path) -> Iterator[RealSlurm]:
    """A Slurm whose nodes have a feature and two of a generic resource."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    (folder / "gres.conf").write_text("Name=fpga Count=2\n")
    of_nodes = "Feature=a100 Gres=fpga:2"
    with running(RealSlurm, folder, count=2, more="\nGresTypes=fpga", of_nodes=of_nodes) as slurm:
        yield slurm


def test_account_constraint_gres_and_reservation_reach_slurm(rich_slurm, tmp_path):
    start = "starttime=now duration=infinite users=root flags=ignore_jobs nodes=node2"
    rich_slurm.ask("scontrol", "create", "reservation=school", *start.split())
    with place_on(rich_slurm, tmp_path, PlaceOptions()) as place:
        options = "--account=lab --constraint=a100 --gres=fpga:2 --reservation=school --requeue"
        id = place.start(HOLD, batchaiSlurm=options)
        place.is_up(id)
        told = rich_slurm.ask("scontrol", "show", "job", number(place, id), "-o").split()
        assert {"Account=lab", "Features=a100", "Reservation=school", "Requeue=1"} <= {*told}
        assert "NodeList=node2" in told
        assert any("fpga:2" in word for word in told)
        with pytest.raises(
            SpecError, match=r"properties\.batchaiSlurm: --constraint: .* has the feature h100"
        ):
            place.start(name="other", batchaiSlurm="--constraint=h100")
        with pytest.raises(SpecError, match=r"--gres: no node of the partition batch has fpga:3"):
            place.start(name="other", batchaiSlurm="--gres=fpga:3")
        poor = SlurmBackend(replace(place.backend.settings, sizes="Standard_NC6=-C h100"))
        with pytest.raises(SpecError, match=r"properties\.vmSize: --constraint"):
            replace(place, backend=poor).make_cluster(vmSize="STANDARD_NC6")


def test_a_cluster_that_keeps_to_its_nodes_takes_no_others(place):
    with pytest.raises(SpecError, match=r"properties\.batchaiSlurm: --nodelist cannot be set"):
        place.start(batchaiSlurm="--nodelist=node7")
