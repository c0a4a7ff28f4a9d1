"""What a job's program learns of its allocation, also where scontrol does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.slurm.node import allocation

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


def test_a_job_of_one_node_needs_nobody_to_tell_its_name(scontrol: Path) -> None:
    assert allocation.nodes() == ["n1"]
    scontrol.unlink()
    assert allocation.nodes() == ["n1"]


def test_a_job_never_runs_on_fewer_nodes_than_it_has_without_a_word(
    scontrol: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    with pytest.raises(OSError, match=r"names of the job's 2 nodes, n\[1-2\]"):
        allocation.nodes()
    scontrol.write_text('#!/bin/sh\n[ "$*" = "show hostnames n[1-2]" ] && echo n1 && echo n2\n')
    assert allocation.nodes() == ["n1", "n2"]


def test_a_busy_machine_has_time_to_spell_the_names_out(
    scontrol: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "QUERY_TIMEOUT_S", 0.001)
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    scontrol.write_text("#!/bin/sh\n/bin/sleep 0.5\necho n1 n2\n")
    assert allocation.nodes() == ["n1", "n2"]


def test_slurm_may_end_the_job_before_scontrol_has_the_answer_to_its_requeue(
    scontrol: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    scontrol.write_text('#!/bin/sh\nkill -TERM $$\n[ "$*" = "requeue 7" ]\n')
    assert allocation.requeue() == ""
