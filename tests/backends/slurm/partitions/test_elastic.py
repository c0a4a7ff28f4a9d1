"""A partition whose nodes a real Slurm starts for jobs and stops when they are idle."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.base.backend_registry import check_choice
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.config import Settings
from batchai_magics.errors import CapabilityError
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.real_slurm import RealSlurm, running
from tests.contract.place import HOLD, Place, PlaceOptions, auto, manual
from tests.contract.places import place_on
from tests.world import until

pytestmark = pytest.mark.slow
COUNT = 2
# A node takes its time to boot. Slurm ignores one that has booted in the very second in which it was called.
START = """#!/bin/bash
export SLURM_CONF={conf}
until [ -e {folder}/power ]; do sleep 0.1; done
sleep 2
for node in $(scontrol show hostnames "$1"); do
  slurmd -D -b -f {conf} -N "$node" </dev/null >>{folder}/"$node".out 2>&1 &
  echo $! > {folder}/"$node".pid
done
"""
STOP = """#!/bin/bash
export SLURM_CONF={conf}
for node in $(scontrol show hostnames "$1"); do kill "$(cat {folder}/"$node".pid)"; done
"""
POWER = """
SuspendProgram={folder}/stop.sh
ResumeProgram={folder}/start.sh
SuspendTime={idle_s}
SuspendTimeout=2
ResumeTimeout=120
ResumeRate=0
SuspendRate=0
PrivateData=cloud
SlurmctldParameters=idle_on_node_suspend,cloud_dns,power_save_interval=1"""


class ElasticSlurm(RealSlurm):
    """A Slurm whose nodes sleep at first. They get power when its folder has a file of that name."""

    def start(self) -> None:
        """Starts the controller, and waits until it knows that all nodes sleep."""
        for name, text in (("start.sh", START), ("stop.sh", STOP)):
            program = self.folder / name
            program.write_text(text.format(conf=self.conf, folder=self.folder))
            program.chmod(0o755)
        self.more += POWER.format(folder=self.folder, idle_s=2)
        self.prepare()
        self.conf.write_text(self.conf.read_text().replace("State=UNKNOWN", "State=CLOUD"))
        self.start_controller()
        until(lambda: self.states() == ["idle~"] * COUNT)

    def states(self) -> list[str]:
        """The states of its nodes as Slurm spells them."""
        return self.ask("sinfo", "-hN", "-o", "%T").split()

    def power(self) -> None:
        """Nodes that Slurm starts, start."""
        (self.folder / "power").touch()

    def stop(self) -> None:
        """Ends every job, the controller, and the nodes that were started."""
        super().stop()
        for file in self.folder.glob("node*.pid"):
            pid = int(file.read_text())
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                if str(self.conf).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def elastic(tmp_path: Path) -> Iterator[ElasticSlurm]:
    with running(ElasticSlurm, tmp_path / "slurm", count=COUNT) as slurm:
        yield slurm


def counts(place: Place, cluster) -> NodeStateCounts:
    return place.backend.show(cluster).node_states


def test_a_cluster_that_scales_has_the_nodes_that_jobs_need(elastic, tmp_path):
    with place_on(elastic, tmp_path, PlaceOptions()) as place:
        cluster = place.make_cluster(scale=auto(0, COUNT)).id
        assert counts(place, cluster).total == 0
        until(lambda: counts(place, place.cluster).idle_node_count == COUNT)  # a fixed one can have them
        id = place.start(HOLD, cluster={"id": str(cluster)})
        until(lambda: "its nodes are being started" in place.backend.show(id).waiting)
        until(lambda: counts(place, cluster).preparing_node_count == 1)
        elastic.power()
        place.is_up(id)
        until(lambda: counts(place, cluster).running_node_count == 1)
        place.backend.terminate(id)
        assert place.wait(id).is_cancelled
        until(lambda: counts(place, cluster).total == 0)
        assert place.backend.show(id).state is ExecutionState.FAILED
        shown = place.backend.show(cluster).to_wire()["properties"]["scaleSettings"]["autoScale"]
        assert (shown["minimumNodeCount"], shown["maximumNodeCount"]) == (0, COUNT)
        place.scale(cluster, manual(1))
        until(lambda: counts(place, cluster).idle_node_count == 1)


def test_no_node_is_started_to_look_at_the_home(elastic, tmp_path):
    own = SlurmSettings(home=tmp_path / "home", conf=str(elastic.conf))
    told = check_choice(Settings(backend="slurm", sections={"slurm": own}))
    assert "was not checked: no node is free now" in told
    assert elastic.states() == ["idle~"] * COUNT


def test_a_partition_with_nodes_that_stay_refuses_auto_scale_by_name(place):
    with pytest.raises(CapabilityError, match=r"scaleSettings\.autoScale is not supported by this partition"):
        place.make_cluster(scale=auto(0, 2))
    with pytest.raises(CapabilityError, match=r"scaleSettings\.autoScale is not supported by this partition"):
        place.scale(place.cluster, auto(0, 2))
