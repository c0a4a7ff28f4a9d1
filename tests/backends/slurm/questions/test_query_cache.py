"""How often Slurm is asked: once for all, and more rarely while nothing changes."""

from __future__ import annotations

import errno
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from batchai_magics.backends.service.file_repository import FileClock
from batchai_magics.backends.service.row_files import try_lock
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.parse import SlurmJob
from batchai_magics.backends.slurm.queries import NEW_JOB_INTERVAL_S, CachedReply, QueryCache
from batchai_magics.errors import ServiceError
from tests.backends.slurm.scripted_slurm import ScriptedClient

LINE = SlurmJob("7", "RUNNING", "None", "N/A", "n1", "guid")


class Counted(ScriptedClient):
    """A Slurm with one job."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = {"7": LINE}


@pytest.fixture
def slurm() -> Counted:
    return Counted()


def opened(slurm: SlurmClient, folder: Path, look_s: float = 60.0) -> QueryCache:
    """As another process opens them."""
    return QueryCache(slurm, folder, look_s, FileClock(folder / "clock"))


def test_many_processes_ask_once(slurm, tmp_path):
    several = [opened(slurm, tmp_path) for _ in range(5)]
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda each: each.jobs()[1], several))
    assert slurm.asked == 1
    assert answers == [{"7": LINE}] * 5


def test_query_since_a_later_time_asks_slurm_again(slurm, tmp_path):
    seed(tmp_path, ago_s=NEW_JOB_INTERVAL_S + 1, calm_s=0)
    answers = opened(slurm, tmp_path)
    asked, _ = answers.jobs()
    assert answers.jobs(since=asked - 1)[0] == asked
    assert answers.jobs(since=asked + 1)[0] > asked
    assert slurm.asked == 1


def test_of_many_who_need_later_answers_most_get_none(slurm, tmp_path):
    answers = opened(slurm, tmp_path)
    answers.new_job_interval_s = 60.0
    asked, _ = answers.jobs()
    assert [answers.of_job("7", since=asked + number) for number in range(50)] == [None] * 50
    assert slurm.asked == 1


def test_a_fresher_answer_is_asked_for_where_one_is_needed(slurm, tmp_path):
    seed(tmp_path, ago_s=5, calm_s=0)
    answers = opened(slurm, tmp_path)
    answers.jobs(max_age_s=10)
    assert slurm.asked == 0
    answers.jobs(max_age_s=4)
    assert slurm.asked == 1


class Stuck(Counted):
    """A Slurm whose controller never answers, as one looks that a wrong configuration file names."""

    def __init__(self) -> None:
        super().__init__()
        self.asking, self.answering = Event(), Event()

    def jobs(self) -> dict[str, SlurmJob]:
        self.asking.set()
        self.answering.wait()
        return super().jobs()


@pytest.mark.parametrize("is_same_process", [True, False])
def test_query_that_hangs_does_not_block_other_queries(slurm, tmp_path, is_same_process):
    seed(tmp_path, ago_s=100, calm_s=0)
    stuck = Stuck()
    answers = opened(stuck, tmp_path, look_s=1.0)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(answers.jobs)
        stuck.asking.wait()
        other = answers if is_same_process else opened(slurm, tmp_path, look_s=1.0)
        assert other.jobs()[1] == {"7": LINE}
        assert not asking.done()
        stuck.answering.set()


def test_a_first_answer_is_not_waited_for_long_where_another_process_gets_none(slurm, tmp_path):
    stuck, other = Stuck(), opened(slurm, tmp_path)
    other.first_query_timeout_s = 0.1
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(opened(stuck, tmp_path).jobs)
        stuck.asking.wait()
        assert other.jobs()[1] == {"7": LINE}
        assert not asking.done()
        stuck.answering.set()


def test_two_slurms_are_not_taken_for_one(slurm, tmp_path):
    other = Counted()
    other.conf, other.lines = "/other/slurm.conf", {"7": LINE._replace(state="PENDING")}
    assert opened(slurm, tmp_path).jobs()[1] == {"7": LINE}
    assert opened(other, tmp_path).jobs()[1] == other.lines


def cache_file(folder: Path) -> Path:
    """The file with what Slurm has said of jobs."""
    return folder / f"jobs-{os.getuid()}.json"


def seed(folder: Path, *, ago_s: float, calm_s: float) -> float:
    """Has Slurm said that there is that one job, so long ago and for so long; gives since when."""
    asked = time.time() - ago_s
    answer = CachedReply(asked, asked - calm_s, asked, (tuple(LINE),))
    cache_file(folder).write_text(json.dumps(answer))
    return answer.changed


def changed(folder: Path) -> float:
    return CachedReply(*json.loads(cache_file(folder).read_text())).changed


def test_while_slurm_is_down_it_is_not_asked_more_often(slurm, tmp_path):
    seed(tmp_path, ago_s=100, calm_s=0)
    slurm.is_down = True
    answers = opened(slurm, tmp_path)
    assert answers.jobs()[1] == {"7": LINE}
    assert answers.jobs(since=time.time())[1] == {"7": LINE}
    assert slurm.asked == 1


def test_an_answer_is_as_old_as_what_it_says(slurm, tmp_path):
    answers = opened(slurm, tmp_path, look_s=10.0)
    answers.new_job_interval_s = 0.0
    since = seed(tmp_path, ago_s=100, calm_s=3000)
    answers.jobs()
    assert (slurm.asked, changed(tmp_path)) == (1, since)
    slurm.lines = {"7": LINE._replace(state="COMPLETING")}
    answers.jobs(since=time.time() + 1)
    assert (slurm.asked, changed(tmp_path) > since) == (2, True)


def test_slurm_is_not_asked_again_right_after_another_process(slurm, tmp_path, monkeypatch):
    def lock(file: Path) -> bool:
        seed(tmp_path, ago_s=0, calm_s=0)  # by that other one, who then gave the lock back
        return try_lock(file)

    monkeypatch.setattr("batchai_magics.backends.slurm.queries.try_lock", lock)
    assert opened(slurm, tmp_path).jobs()[1] == {"7": LINE}
    assert slurm.asked == 0


def test_without_room_for_it_the_latest_answer_is_believed(slurm, tmp_path, monkeypatch):
    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    seed(tmp_path, ago_s=100, calm_s=0)
    slurm.lines = {"7": LINE._replace(state="COMPLETING")}
    monkeypatch.setattr("batchai_magics.backends.folders.private_files.write", no_room)
    answers = opened(slurm, tmp_path)
    for _ in range(3):
        assert answers.jobs()[1] == slurm.lines
    assert slurm.asked == 1


def test_without_any_answer_slurms_error_is_told(slurm, tmp_path):
    slurm.is_down = True
    with pytest.raises(ServiceError, match="down"):
        opened(slurm, tmp_path).jobs()


@pytest.mark.parametrize(("calm_s", "allowed_s"), [(0.0, 10.0), (99.0, 10.0), (300.0, 30.0), (6000.0, 60.0)])
def test_the_longer_nothing_changes_the_more_rarely_it_is_asked(calm_s, allowed_s):
    reply = CachedReply(calm_s, 0.0, calm_s, ())
    assert reply.ttl_s(10.0) == allowed_s
    assert reply.ttl_s(0.0) == 0.0


def test_an_answer_of_the_future_is_not_believed(slurm, tmp_path):
    ahead = time.time() + 1000
    cache_file(tmp_path).write_text(json.dumps(CachedReply(ahead, ahead, ahead, ())))
    assert opened(slurm, tmp_path).jobs()[1] == {"7": LINE}
