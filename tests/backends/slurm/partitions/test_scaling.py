"""What auto-scale a partition can do, by what Slurm says of its configuration."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batchai_magics.backends.service.runner import Scale
from batchai_magics.backends.slurm import clusters
from batchai_magics.backends.slurm.parse import NodeLine, configuration
from batchai_magics.errors import CapabilityError

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
AUTO = Scale(0, 4, is_auto=True)
LINE = NodeLine("n1", "cloud", "idle", 8, "infinite", "none", True)


def error_message(scale: Scale, partition: str, text: str) -> str:
    with pytest.raises(CapabilityError) as caught:
        clusters.check_auto_scale(scale, partition, lambda: configuration(text))
    return caught.value.message


def test_what_is_missing_is_named():
    reason = "Slurm starts and stops no nodes here (ResumeProgram and SuspendProgram are not set)"
    text = f"properties.scaleSettings.autoScale is not supported by this partition: {reason}"
    assert error_message(AUTO, "cloud", FIXED) == text
    assert "never stops the nodes of the partition debug (SuspendExcParts)" in error_message(
        AUTO, "debug", ELASTIC
    )


@pytest.mark.parametrize("field", ["minimum", "initial"])
def test_nodes_that_nobody_needs_are_not_kept(field):
    some = replace(AUTO, **{field: 1})
    assert f"autoScale.{field}NodeCount is not supported" in error_message(some, "cloud", ELASTIC)


@pytest.mark.parametrize(
    ("state", "is_asleep"),
    [("idle~", True), ("mixed#", False), ("idle%", False), ("idle", False), ("POWERED_DOWN", True)],
)
def test_a_node_that_is_stopped_is_not_counted(state, is_asleep):
    assert clusters.is_asleep(LINE._replace(state=state)) is is_asleep
