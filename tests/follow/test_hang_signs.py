"""What warns of a job that hangs, and where its ranks are when it prints nothing for a while."""

import threading

import pytest

from batchai_magics.backends.base import Backend, Chunk, WriteTime
from batchai_magics.errors import CapabilityError
from batchai_magics.follow.hang_signs import StandstillPoller, hang_signs
from batchai_magics.models.states import ExecutionState
from batchai_magics.models.telemetry_records import MachineUse, RankUse, Sample, TelemetryRecord
from batchai_magics.records.rank_stacks import Frame, RankStack, RankStacks
from tests.clock import Clock
from tests.patience import PATIENCE_S
from tests.widgets.scripted_job import JOB, START, ScriptedBackend, resource
from tests.world import until

TRACE = "Traceback (most recent call last):\n  File \"/job/train.py\", line 3, in load\nKeyError: 'x'\n"


def signs(backend, limit_s=600.0, *, after_s):
    return hang_signs(backend, backend.show(JOB), limit_s, now=START.timestamp() + after_s)


class Used:
    """The telemetry of a job with one rank, which uses a part of a core."""

    def __init__(self, cores):
        self.cores = cores

    def read(self, id, *, after=0.0):
        ranks = [RankUse(0, self.cores * t, 1, 0, 0, 0.0, 0, 1) for t in range(700)]
        samples = [Sample(START.timestamp() + t, "m", (rank,), MachineUse()) for t, rank in enumerate(ranks)]
        return TelemetryRecord({0: "n0"}, tuple(each for each in samples if each.time > after))


def test_a_job_that_is_silent_and_idle_is_warned_of_with_what_to_do(tmp_path):
    backend = ScriptedBackend(tmp_path)
    backend.telemetry = Used(0.01)
    assert signs(backend, after_s=599) == ()
    (sign,) = signs(backend, after_s=660)
    assert sign == (
        "Nothing was printed for 11 min, and the processors are idle: "
        "`batchai stacks resnet` shows where each rank is, `batchai profile resnet` where its time goes."
    )
    assert signs(backend, 0.0, after_s=660) == ()


def test_silence_alone_is_no_warning(tmp_path):
    backend = ScriptedBackend(tmp_path)
    assert signs(backend, after_s=660) == ()  # what it uses is not known
    backend.telemetry = Used(0.9)
    assert signs(backend, after_s=660) == ()


def test_a_traceback_of_a_job_that_goes_on_is_a_warning(tmp_path):
    backend = ScriptedBackend(tmp_path)
    backend.write(TRACE, "stderr.txt")
    (sign,) = signs(backend, after_s=1)
    assert sign == "stderr has a traceback, and the job goes on: /job/train.py:3: KeyError: 'x'"
    backend.finish(ExecutionState.SUCCEEDED)
    assert signs(backend, after_s=1) == ()


MINUTE_S = 60.0


@pytest.fixture
def job():
    return resource(ExecutionState.RUNNING)


@pytest.fixture
def clock(job):
    return Clock(job.execution.started.timestamp())


class Ranks:
    """A rank in `step`, and what happens while it is asked where it is."""

    line, then = 7, staticmethod(lambda: None)

    def ask(self, backend, job):
        self.then()
        return RankStacks("it", (RankStack(0, "n0", (Frame("train.py", self.line, "step"),)),))


@pytest.fixture
def ranks():
    return Ranks()


class Silent(Backend):
    """A backend of which nothing is asked."""


@pytest.fixture
def poller(clock, ranks):
    """A poller whose limit is a minute."""
    made = StandstillPoller(Silent(), MINUTE_S, clock=clock, ask=ranks.ask)
    made.pause_s = 0.0
    return made


def answers():
    """Waits until the ranks have been asked."""
    until(lambda: not [each for each in threading.enumerate() if "_collect" in each.name])


def test_a_standstill_is_reported_once_with_the_functions_of_the_ranks(poller, clock, job):
    assert poller.poll(job) == []
    clock.now += MINUTE_S
    (event,) = until(lambda: poller.poll(job))
    assert event.sentence == "Nothing was printed for 1 minute. Rank 0 is in step (train.py:7)."
    clock.now += MINUTE_S
    assert poller.poll(job) == []


def test_a_standstill_is_reported_again_after_new_output(poller, clock, job):
    clock.now += MINUTE_S
    until(lambda: poller.poll(job))
    poller.printed(Chunk(b"x", 0, 1, is_complete=False))
    assert poller.poll(job) == []
    clock.now += MINUTE_S
    assert until(lambda: poller.poll(job))


def test_standstill_counts_from_the_last_output_not_from_its_reading(poller, clock, job):
    clock.now += 2 * MINUTE_S
    poller.printed(Chunk(b"x", 0, 1, is_complete=False, times=(WriteTime(0, clock.now - MINUTE_S),)))
    assert until(lambda: poller.poll(job))


def test_a_job_that_does_not_run_does_not_stand_still(poller, clock):
    clock.now += MINUTE_S
    assert poller.poll(resource(ExecutionState.QUEUED)) == []


def test_output_while_the_ranks_are_asked_makes_the_report_void(poller, ranks, clock, job):
    has_printed = threading.Event()
    ranks.then = lambda: has_printed.wait(PATIENCE_S)
    clock.now += MINUTE_S
    assert poller.poll(job) == []
    poller.printed(Chunk(b"x", 0, 1, is_complete=False))
    has_printed.set()
    answers()
    assert poller.poll(job) == []


def test_a_silent_job_whose_ranks_move_on_is_not_reported(poller, ranks, clock, job):
    def move_on():
        ranks.line += 1

    ranks.then = move_on
    clock.now += MINUTE_S
    assert poller.poll(job) == []
    until(lambda: ranks.line >= 9)
    answers()
    assert poller.poll(job) == []


def test_a_silent_job_whose_ranks_cannot_be_asked_is_not_reported(poller, ranks, clock, job):
    asked = threading.Semaphore(0)

    def refuse():
        asked.release()
        raise CapabilityError("no commands on nodes")

    ranks.then = refuse
    for _ in range(2):  # it is looked at again after as long a time
        clock.now += MINUTE_S
        assert poller.poll(job) == []
        assert asked.acquire(timeout=PATIENCE_S)
        answers()
    assert poller.poll(job) == []
