"""What auto-scale a partition can do, by what Slurm says of its configuration."""

from __future__ import annotations

import pytest

from batchai_magics.backends.slurm.partitions import scaling
from batchai_magics.backends.slurm.understand import NodeLine, configuration
from batchai_magics.errors import CapabilityError
from batchai_magics.models.cluster import AutoScale, ManualScale, ScaleSettings

# As scontrol of 22.05 prints it, and of 24.05 with a blank more; the other 150 lines are left out.
ELASTIC = """Configuration data as of 2026-11-22T14:46:21
ResumeProgram           = /opt/resume.sh
ResumeTimeout           = 600 sec
SuspendExcParts         = login,debug
SuspendProgram          = /opt/suspend.sh
SLURM_VERSION           = 22.05.8

Slurmctld(primary) at head is UP
"""
FIXED = ELASTIC.replace("/opt/resume.sh", "(null)")
AUTO = ScaleSettings(auto_scale=AutoScale(minimum_node_count=0, maximum_node_count=4))
LINE = NodeLine("n1", "cloud", "idle", 8, "infinite", "none", True)


def refusal(scale: ScaleSettings, partition: str, text: str) -> str:
    with pytest.raises(CapabilityError) as caught:
        scaling.check(scale, partition, lambda: configuration(text))
    return caught.value.message


def test_a_partition_whose_nodes_slurm_starts_and_stops_may_grow_by_itself() -> None:
    scaling.check(AUTO, "cloud", lambda: configuration(ELASTIC))
    assert scaling.most_nodes(AUTO) == 4


def test_a_cluster_of_a_fixed_size_asks_nothing() -> None:
    manual = ScaleSettings(manual=ManualScale(target_node_count=2))
    scaling.check(manual, "cloud", lambda: pytest.fail("asked"))
    assert scaling.most_nodes(manual) == 2


def test_what_is_missing_is_named() -> None:
    reason = "Slurm starts and stops no nodes here (ResumeProgram and SuspendProgram are not set)"
    text = f"properties.scaleSettings.autoScale is not supported by this partition: {reason}"
    assert refusal(AUTO, "cloud", FIXED) == text
    assert "never stops the nodes of the partition debug (SuspendExcParts)" in refusal(AUTO, "debug", ELASTIC)


@pytest.mark.parametrize("field", ["minimum_node_count", "initial_node_count"])
def test_nodes_that_nobody_needs_are_not_kept(field: str) -> None:
    some = ScaleSettings(auto_scale=AutoScale(**{"minimum_node_count": 0, "maximum_node_count": 4, field: 1}))
    name = field.replace("_node_count", "NodeCount")
    assert f"autoScale.{name} is not supported" in refusal(some, "cloud", ELASTIC)


@pytest.mark.parametrize(
    ("state", "is_asleep"),
    [("idle~", True), ("mixed#", False), ("idle%", False), ("idle", False), ("POWERED_DOWN", True)],
)
def test_a_node_that_is_stopped_is_not_counted(state: str, is_asleep: bool) -> None:
    assert scaling.is_asleep(LINE._replace(state=state)) is is_asleep
