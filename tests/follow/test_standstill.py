"""A job that prints nothing for a while, and where its ranks are then."""

import threading

import pytest

from batchai_magics.backends.base import BackendDefaults, Chunk, WriteTime
from batchai_magics.errors import CapabilityError
from batchai_magics.follow import hang_signs
from batchai_magics.follow.hang_signs import StandstillPoller
from batchai_magics.models.states import ExecutionState
from batchai_magics.records import rank_stacks
from batchai_magics.records.rank_stacks import Frame, RankStack, RankStacks
from tests.patience import PATIENCE_S
from tests.widgets.scripted_job import resource
from tests.world import until

MINUTE_S = 60.0


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def job():
    return resource(ExecutionState.RUNNING)


@pytest.fixture
def clock(job):
    clock = Clock()
    clock.now = job.execution.started.timestamp()
    return clock


@pytest.fixture
def poller(clock, monkeypatch):
    """A poller whose job has a rank in `step`; its limit is a minute."""
    ranks = RankStacks("it", (RankStack(0, "n0", (Frame("train.py", 7, "step"),)),))
    monkeypatch.setattr(hang_signs, "stacks_of", lambda backend, job: ranks)
    return StandstillPoller(BackendDefaults(), MINUTE_S, clock=clock)


def test_it_is_reported_once_with_the_place_of_the_ranks(poller, clock, job):
    assert poller.poll(job) == []
    clock.now += MINUTE_S
    (event,) = until(lambda: poller.poll(job))
    assert event.sentence == "Nothing was printed for 1 minute. Rank 0 is in step (train.py:7)."
    clock.now += MINUTE_S
    assert poller.poll(job) == []


def test_it_is_reported_again_after_new_output(poller, clock, job):
    clock.now += MINUTE_S
    until(lambda: poller.poll(job))
    poller.printed(Chunk(b"x", 0, 1, is_complete=False))
    assert poller.poll(job) == []
    clock.now += MINUTE_S
    assert until(lambda: poller.poll(job))


def test_the_time_of_the_last_output_counts_not_that_of_reading_it(poller, clock, job):
    clock.now += 2 * MINUTE_S
    poller.printed(Chunk(b"x", 0, 1, is_complete=False, times=(WriteTime(0, clock.now - MINUTE_S),)))
    assert until(lambda: poller.poll(job))


def test_a_job_that_does_not_run_does_not_stand_still(poller, clock):
    clock.now += MINUTE_S
    assert poller.poll(resource(ExecutionState.QUEUED)) == []


def test_output_while_the_ranks_are_asked_makes_the_report_void(poller, clock, job, monkeypatch):
    has_printed, ask = threading.Event(), hang_signs.stacks_of
    monkeypatch.setattr(hang_signs, "stacks_of", lambda *words: has_printed.wait(PATIENCE_S) and ask(*words))
    clock.now += MINUTE_S
    assert poller.poll(job) == []
    poller.printed(Chunk(b"x", 0, 1, is_complete=False))
    has_printed.set()
    until(lambda: not [each for each in threading.enumerate() if "_collect" in each.name])
    assert poller.poll(job) == []


def test_a_silent_job_whose_ranks_move_on_is_not_reported(clock, job, monkeypatch):
    lines = iter(range(1000))

    def moving(backend, job):
        return RankStacks("it", (RankStack(0, "n0", (Frame("train.py", next(lines), "step"),)),))

    monkeypatch.setattr(hang_signs, "stacks_of", moving)
    monkeypatch.setattr(rank_stacks, "SAMPLE_PAUSE_S", 0.0)
    poller = StandstillPoller(BackendDefaults(), MINUTE_S, clock=clock)
    clock.now += MINUTE_S
    assert poller.poll(job) == []
    until(lambda: next(lines) >= 2)
    until(lambda: not [each for each in threading.enumerate() if "_collect" in each.name])
    assert poller.poll(job) == []


def test_a_silent_job_whose_ranks_cannot_be_asked_is_not_reported(clock, job, monkeypatch):
    asked = threading.Semaphore(0)

    def refuse(backend, job):
        asked.release()
        raise CapabilityError("no commands on nodes")

    monkeypatch.setattr(hang_signs, "stacks_of", refuse)
    poller = StandstillPoller(BackendDefaults(), MINUTE_S, clock=clock)
    for _ in range(2):  # it is looked at again after as long a time
        clock.now += MINUTE_S
        assert poller.poll(job) == []
        assert asked.acquire(timeout=PATIENCE_S)
        until(lambda: not [each for each in threading.enumerate() if "_collect" in each.name])
    assert poller.poll(job) == []
