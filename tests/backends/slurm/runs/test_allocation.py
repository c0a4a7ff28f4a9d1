"""What a job's program learns of its allocation, also where scontrol does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.slurm.node import allocation
from batchai_magics.launch.plan import Limits

pytestmark = pytest.mark.slow


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name that fails, on a node of a job of one node."""
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    return program


def test_name_of_a_single_node_needs_no_scontrol(scontrol):
    assert allocation.nodes() == ["n1"]
    scontrol.unlink()
    assert allocation.nodes() == ["n1"]


def test_a_job_never_runs_on_fewer_nodes_than_it_has_without_a_word(scontrol, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    with pytest.raises(OSError, match=r"names of the job's 2 nodes, n\[1-2\]"):
        allocation.nodes()
    scontrol.write_text('#!/bin/sh\n[ "$*" = "show hostnames n[1-2]" ] && echo n1 && echo n2\n')
    assert allocation.nodes() == ["n1", "n2"]


def test_a_busy_machine_has_time_to_spell_the_names_out(scontrol, monkeypatch):
    monkeypatch.setattr(allocation, "QUERY_TIMEOUT_S", 0.001)
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    scontrol.write_text("#!/bin/sh\n/bin/sleep 0.5\necho n1 n2\n")
    assert allocation.nodes() == ["n1", "n2"]


def test_slurm_may_end_the_job_before_scontrol_has_the_answer_to_its_requeue(scontrol, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    scontrol.write_text('#!/bin/sh\nkill -TERM $$\n[ "$*" = "requeue 7" ]\n')
    assert allocation.requeue() == ""


@pytest.mark.parametrize(
    ("own", "limit", "left_s"),
    [
        ({"max_restarts": 1}, "00:01:10", 45),  # a quarter of its minute before Slurm's end
        ({"max_restarts": 1}, "01:00:10", 3570),
        ({"max_restarts": 1, "grace_s": 120.0}, "01:00:10", 3480),
        ({"max_restarts": 1, "wall_s": 50.0}, "01:00:10", 50),
        ({"max_restarts": 1}, "UNLIMITED", 604_800),
        ({"warn_s": 44.0}, "00:01:10", 60),
        ({}, "00:01:10", 604_800),  # Slurm ends it
    ],
)
def test_an_attempt_that_is_continued_or_warned_ends_before_slurms_own_limit(
    scontrol, monkeypatch, own, limit, left_s
):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    scontrol.write_text(f"#!/bin/sh\necho JobId=7 RunTime=00:00:10 TimeLimit={limit} Partition=all\n")
    found = allocation.deadline(Limits(**own))
    assert found.left_s == pytest.approx(left_s, abs=9)
    assert found.end.errors[0]["code"] == "JobMaxWallClockTimeReached"
