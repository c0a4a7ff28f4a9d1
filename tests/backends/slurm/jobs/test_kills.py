"""Ranks on several nodes are killed at any moment: which one is named, nothing that was printed is lost."""

from __future__ import annotations

import os
import random
import re
import signal
from pathlib import Path

import pytest

from batchai_magics.models.states import ExecutionState
from tests.contract.place import Place
from tests.world import processes_of, until

pytestmark = pytest.mark.slow
ROUNDS = int(os.environ.get("TEST_KILLS", "3"))  # a hundred, by hand
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
def test_the_rank_that_was_killed_is_named_and_no_line_is_lost(
    place: Place, tmp_path: Path, round: int
) -> None:
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
