"""Ranks on several nodes are killed at any moment: which one is named, nothing that was printed is lost."""

from __future__ import annotations

import os
import random
import re
import signal
from pathlib import Path

import psutil
import pytest

from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.conftest import impatient
from tests.backends.slurm.job_files import first_error, number
from tests.contract.place import Place
from tests.world import processes_of, until

pytestmark = pytest.mark.slow
ROUNDS = int(os.environ.get("TEST_KILLS", "2"))  # a hundred, by hand
COUNT = 4
LINE = re.compile(rb"(\d+) (\d+) (\d+)")
PRINTS = "i=0; while :; do i=$((i+1)); echo ${PMI_RANK:-$SLURM_PROCID} $$ $i; sleep 0.01; done"


def printed(place: Place, id) -> dict[int, tuple[int, list[int]]]:
    """The process and the numbers of each rank, in the order of the log."""
    found: dict[int, tuple[int, list[int]]] = {}
    for line in place.log(id).splitlines():
        rank, pid, number = map(int, LINE.fullmatch(line).groups())
        found.setdefault(rank, (pid, []))[1].append(number)
    return found


@pytest.mark.parametrize("round", range(ROUNDS))
def test_the_rank_that_was_killed_is_named_and_no_line_is_lost(place, tmp_path, round):
    chance = random.Random(round)
    id = place.start_ranks(PRINTS, count=COUNT)
    least = chance.randint(1, 40)
    until(lambda: len(printed(place, id)) == COUNT and len(printed(place, id)[0][1]) >= least)
    victim = chance.randrange(COUNT)
    os.kill(printed(place, id)[victim][0], signal.SIGKILL)
    job = place.wait(id)
    assert job.state is ExecutionState.FAILED
    assert (job.ranks[0].rank, job.ranks[0].exit_code, job.execution.exit_code) == (victim, 137, 137)
    assert len(job.ranks) == COUNT
    for _, numbers in printed(place, id).values():
        assert numbers == list(range(1, len(numbers) + 1))
    until(lambda: not processes_of(tmp_path))


UP = "echo up; exec sleep 1000"


def wrappers(folder: Path) -> dict[int, psutil.Process]:
    """The program that runs each rank of a job on several nodes."""
    found = [each for each in processes_of(folder) if "run_rank" in " ".join(each.cmdline())]
    tasks = (each for each in found if each.name() != "srun" and each.parent() not in found)
    return {int(each.environ()["SLURM_PROCID"]): each for each in tasks}


@pytest.mark.parametrize("victim", [1, 2])  # the last of the first node, the first of the last
def test_a_rank_whose_program_is_killed_is_named(place, tmp_path, victim):
    id = place.start_ranks(UP, count=COUNT)
    until(lambda: place.log(id).count(b"up") == COUNT)
    wrappers(tmp_path)[victim].kill()
    job = place.wait(id)
    assert f"rank {victim} on {job.ranks[0].node}" in job.execution.errors[0].message, job.ranks
    assert (job.ranks[0].rank, job.ranks[0].exit_code, job.execution.exit_code) == (victim, 137, 137)
    until(lambda: not processes_of(tmp_path))


def test_no_rank_is_named_if_srun_is_killed(place, tmp_path):
    id = place.start_ranks(UP, count=COUNT)
    until(lambda: place.log(id).count(b"up") == COUNT)
    (srun,) = (
        each for each in processes_of(tmp_path) if each.name() == "srun" and each.parent().name() != "srun"
    )
    srun.kill()
    job = place.wait(id)
    assert job.execution.exit_code == 137
    assert "srun, which ran the job's processes" in job.execution.errors[0].message
    assert not any(rank.exit_code for rank in job.ranks)
    until(lambda: not processes_of(tmp_path))


@impatient
def test_a_killed_slurmstepd_is_noticed(own_place, tmp_path):
    place = own_place  # Slurm has to give up the step first
    id = place.start_ranks(UP, count=COUNT)
    until(lambda: place.log(id).count(b"up") == COUNT)
    rank = COUNT // 2  # the first of the last node
    wrappers(tmp_path)[rank].parent().kill()
    job = place.wait(id)
    error = job.execution.errors[0]
    assert (error.code, job.execution.exit_code) == ("JobFailed", 137)
    assert "slurmstepd, which runs the job's processes on" in error.message
    assert job.ranks[0].rank in (rank, rank + 1)
    until(lambda: not processes_of(tmp_path / "home"))


def test_ranks_on_two_nodes_that_somebody_kills_are_not_said_never_to_have_run(place, slurm):
    id = place.start_ranks(UP, count=COUNT)
    until(lambda: place.log(id).count(b"up") == COUNT)
    slurm.ask("scancel", "-s", "KILL", f"{number(place, id)}.0")
    job = place.wait(id)
    assert (first_error(job).code, job.execution.exit_code) == ("JobFailed", 137)
    assert len(job.ranks) == COUNT
