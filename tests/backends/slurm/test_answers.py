"""How often Slurm is asked: once for all, and more rarely while nothing changes."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from batchai_magics.backends.machines.here import Here
from batchai_magics.backends.slurm.answers import Answer, Answers
from batchai_magics.backends.slurm.talk import Slurm
from batchai_magics.backends.slurm.understand import JobLine
from batchai_magics.errors import ServiceError

LINE = JobLine("7", "RUNNING", "None", "N/A", "n1", "guid")


class Counted(Slurm):
    """A Slurm with one job, that counts how often it is asked, and may be down."""

    def __init__(self) -> None:
        super().__init__(Here())
        self.count, self.is_down = 0, False

    def jobs(self) -> dict[str, JobLine]:
        self.count += 1
        if self.is_down:
            raise ServiceError("down", code="SlurmUnavailable")
        return {"7": LINE}


@pytest.fixture
def slurm() -> Counted:
    return Counted()


def test_many_processes_ask_once(slurm: Counted, tmp_path: Path) -> None:
    several = [Answers(slurm, tmp_path, 60.0) for _ in range(5)]
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda each: each.jobs()[1], several))
    assert slurm.count == 1
    assert answers == [{"7": LINE}] * 5


def test_who_needs_a_later_answer_gets_one(slurm: Counted, tmp_path: Path) -> None:
    answers = Answers(slurm, tmp_path, 60.0)
    asked, _ = answers.jobs()
    assert answers.jobs(since=asked - 1)[0] == asked
    assert answers.jobs(since=time.time())[0] > asked
    assert slurm.count == 2


def test_while_slurm_is_down_the_last_answer_stands(slurm: Counted, tmp_path: Path) -> None:
    answers = Answers(slurm, tmp_path, 0.0)
    asked, lines = answers.jobs()
    slurm.is_down = True
    assert answers.jobs() == (asked, lines)


def test_without_any_answer_slurms_error_is_told(slurm: Counted, tmp_path: Path) -> None:
    slurm.is_down = True
    with pytest.raises(ServiceError, match="down"):
        Answers(slurm, tmp_path, 60.0).jobs()


@pytest.mark.parametrize(("calm_s", "allowed_s"), [(0.0, 10.0), (99.0, 10.0), (300.0, 30.0), (6000.0, 60.0)])
def test_the_longer_nothing_changes_the_more_rarely_it_is_asked(calm_s: float, allowed_s: float) -> None:
    assert Answer(calm_s, 0.0, calm_s, ()).age_allowed_s(10.0) == allowed_s


def test_an_answer_of_the_future_is_not_believed(slurm: Counted, tmp_path: Path) -> None:
    file = tmp_path / f"jobs-{os.getuid()}.json"
    ahead = time.time() + 1000
    file.write_text(json.dumps(Answer(ahead, ahead, ahead, ())))
    assert Answers(slurm, tmp_path, 60.0).jobs()[1] == {"7": LINE}
