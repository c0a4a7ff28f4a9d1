"""What a partition does not have, and what auto-scale it cannot do, is told by name."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from batchai_magics.backends.service.runner import Scale
from batchai_magics.backends.slurm import clusters
from batchai_magics.backends.slurm.clusters import option_problems
from batchai_magics.backends.slurm.parse import NodeLine, configuration
from batchai_magics.errors import CapabilityError

PLAIN = NodeLine("n1", "gpu", "idle", 8, "1-00:00:00", "none", True, "(null)", "(null)", "1-4")
RICH = PLAIN._replace(name="n2", features="a100,nvlink,rack1", gres="gpu:a100:4(S:0-1),gpu:t4:1,mps:400")


def problems(text: str, *, node_count: int = 1) -> list[str]:
    found = option_problems(shlex.split(text), [PLAIN, RICH], node_count, field="properties.batchaiSlurm")
    return [f"{each.path}: {each.message} ({each.fix})" for each in found]


@pytest.mark.parametrize(
    "text",
    [
        "--account=lab --qos=long --reservation=x",
        "-C a100",
        "--constraint='a100&nvlink'",
        "--constraint='[rack1*2|rack7*2]'",
        "--constraint='h100|a100'",
        "--gres=gpu:2",
        "--gres=gpu:5",
        "--gres=gpu:a100:4,mps:400",
        "--gres=gres/gpu:t4",
        "--gpus-per-node=a100:4",
        "--gres=none",
        "--time=1-0",
        "--time=30",
    ],
)
def test_resources_of_a_node_may_be_requested(text):
    assert problems(text, node_count=4) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "-C a10",
            '--constraint: no node of the partition gpu has the feature a10 (Did you mean "a100"?)',
        ),
        (
            "-C infiniband",
            "--constraint: no node of the partition gpu has the feature infiniband"
            " (Its features: a100, nvlink, rack1.)",
        ),
        (
            "--gres=gpu:6",
            "--gres: no node of the partition gpu has gpu:6"
            " (Its generic resources: gpu:a100:4(S:0-1), gpu:t4:1, mps:400.)",
        ),
        (
            "--gpus-per-node=t4:2",
            "--gpus-per-node: no node of the partition gpu has t4:2"
            " (Its generic resources: gpu:a100:4(S:0-1), gpu:t4:1, mps:400.)",
        ),
        ("-t 1-01:00:00", "--time: the partition gpu allows jobs 1-00:00:00 at most (Ask for less.)"),
    ],
)
def test_resources_that_no_node_has_are_named_with_the_available_ones(text, words):
    assert problems(text) == [f"properties.batchaiSlurm: {words}"]


def test_more_nodes_than_a_job_may_have_are_refused():
    (text,) = problems("", node_count=5)
    assert text.startswith("properties.nodeCount: the partition gpu allows 4 nodes per job")


# what auto-scale it can do

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


def test_a_partition_that_cannot_scale_names_the_missing_setting():
    reason = "Slurm starts and stops no nodes here (ResumeProgram and SuspendProgram are not set)"
    text = f"properties.scaleSettings.autoScale is not supported by this partition: {reason}"
    assert error_message(AUTO, "cloud", FIXED) == text
    assert "never stops the nodes of the partition debug (SuspendExcParts)" in error_message(
        AUTO, "debug", ELASTIC
    )


@pytest.mark.parametrize("field", ["minimum", "initial"])
def test_auto_scale_with_minimum_or_initial_nodes_is_refused(field):
    some = replace(AUTO, **{field: 1})
    assert f"autoScale.{field}NodeCount is not supported" in error_message(some, "cloud", ELASTIC)


@pytest.mark.parametrize(
    ("state", "is_asleep"),
    [("idle~", True), ("mixed#", False), ("idle%", False), ("idle", False), ("POWERED_DOWN", True)],
)
def test_a_node_that_is_stopped_is_not_counted(state, is_asleep):
    assert clusters.is_asleep(LINE._replace(state=state)) is is_asleep
