"""The loop that waits: how long between two looks, and what it does while a backend does not answer."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import chain, islice

import pytest

from batchai_magics import follow
from batchai_magics.backends.base import Pace
from batchai_magics.errors import NotFoundError, UnreachableError
from batchai_magics.follow import (
    ConnectionLost,
    ConnectionRestored,
    Follower,
    LogBytes,
    StateChanged,
    changes,
    endings,
)
from batchai_magics.follow.log_follower import MAX_CHUNKS
from tests.follow.event_steps import Pauses, log, states
from tests.widgets.scripted_cluster import ScriptedCluster
from tests.widgets.scripted_job import JOB, ScriptedBackend


def events(*given, **options):
    """The events of a job, one by one."""
    return chain.from_iterable(follow.events(*given, **options))


class Waits:
    """Notes how long the loop waits; `then` happens at given waits, and the loop stops at the last."""

    def __init__(self, most, then=None):
        self.stop, self.told, self.most, self.then = Pauses(self), [], most, then or {}

    def __call__(self, seconds):
        self.told.append(seconds)
        self.then.get(len(self.told), lambda: None)()
        if len(self.told) == self.most:
            self.stop.set()


def tail_waits(backend):
    """How long each tail was asked to wait."""
    plain, patience = backend.tail, []

    def tail(job, positions, limit, *, wait_s=0.0):
        patience.append(wait_s)
        return plain(job, positions, limit)

    backend.tail = tail
    return patience


def test_the_loop_waits_longer_while_nothing_happens_and_briefly_after_news(backend):
    waits = Waits(13, {11: lambda: backend.write("news\n")})
    list(events(backend, JOB, stop=waits.stop))
    growing = [0.05, 0.065, 0.0845, 0.1098, 0.1428, 0.1856, 0.2413, 0.3137, 0.4079, 0.5, 0.5]
    assert waits.told == pytest.approx([*growing, 0.05, 0.065], abs=1e-3)


def test_a_follower_that_is_behind_reads_on_whatever_the_pace(backend):
    backend.capabilities = replace(backend.capabilities, pace=Pace(poll_interval_s=10.0))
    backend.read_bytes = 1
    backend.write("x" * (MAX_CHUNKS + 1))
    follower = Follower(backend, JOB, clock=lambda: 0.0)
    assert [len(log(follower.poll())) for _ in range(2)] == [MAX_CHUNKS, 1]
    backend.finish()
    waits = Waits(1)
    assert states(list(events(backend, JOB, stop=waits.stop))) == ["succeeded"]
    assert waits.told == []


def test_only_the_first_piece_of_a_look_is_waited_for(backend):
    backend.read_bytes = 2
    follower = Follower(backend, JOB)
    follower.poll()
    backend.write("012345")
    patience = tail_waits(backend)
    assert [data for _, data, _ in log(follower.poll(wait_s=10))] == [b"01", b"23", b"45"]
    assert patience == [10, 0.0, 0.0]


def test_a_loop_that_is_stopped_asks_nothing(tmp_path):
    stop = threading.Event()
    stop.set()
    assert list(events(ScriptedCluster(tmp_path), JOB, stop=stop)) == []


def test_the_loop_waits_for_the_log_as_long_as_the_backends_pace_allows(backend):
    backend.capabilities = replace(backend.capabilities, pace=Pace(max_wait_s=7.0))
    patience = tail_waits(backend)
    waits = Waits(9, {2: backend.finish})
    list(events(backend, JOB, stop=waits.stop))
    assert patience == [0.0, 7.0, 0.0]  # the first and the last look have news at once: the state


def test_a_backend_is_asked_no_sooner_than_its_pace_allows(backend):
    backend.capabilities = replace(backend.capabilities, pace=Pace(poll_interval_s=10.0))
    now = [1000.0]
    follower = Follower(backend, JOB, clock=lambda: now[0])
    follower.poll()
    backend.write("news\n")
    backend.finish()
    now[0] += 9.9
    assert follower.poll() == []
    now[0] += 0.2
    news = follower.poll()
    assert log(news) == [("stdout.txt", b"news\n", False)]
    assert states(news) == ["succeeded"]


def test_changes_yields_a_value_only_when_it_differs(backend):
    waits = Waits(99)
    values = iter([1, 1, 2, UnreachableError("gone"), 2, 3])

    def read():
        value = next(values)
        if isinstance(value, UnreachableError):
            raise value
        return value

    assert list(islice(changes(backend, read, wait=waits), 3)) == [1, 2, 3]
    assert waits.told == [1.0, 1.0, 1.0, 2.0, 1.0]


class Shaky(ScriptedBackend):
    """Answers, or not, as the test says."""

    is_there = True

    def show(self, id):
        if not self.is_there:
            raise UnreachableError("nobody listens", code="EndpointUnreachable")
        return super().show(id)


@pytest.fixture
def shaky(tmp_path):
    return Shaky(tmp_path)


def away(backend):
    backend.write("two\n")
    backend.is_there = False


def back(backend):
    backend.write("three\n")
    backend.is_there = True
    backend.finish()


def test_an_outage_is_told_once_and_no_byte_is_lost(shaky):
    shaky.write("one\n")
    waits = Waits(99, {1: lambda: away(shaky), 5: lambda: back(shaky)})
    seen = list(events(shaky, JOB, stop=waits.stop))
    told = [event for event in seen if isinstance(event, ConnectionLost | ConnectionRestored)]
    log = b"".join(event.chunk.data for event in seen if isinstance(event, LogBytes))
    assert (told, log) == (
        [ConnectionLost(JOB, "nobody listens"), ConnectionRestored(JOB)],
        b"one\ntwo\nthree\n",
    )
    assert isinstance(seen[-1], StateChanged)


def test_pauses_grow_during_an_outage_up_to_a_limit(shaky):
    waits = Waits(99, {1: lambda: away(shaky), 14: lambda: back(shaky)})
    list(events(shaky, JOB, stop=waits.stop))
    delays = waits.told[1:13]
    assert delays[:3] == pytest.approx([delays[0], 2 * delays[0], 4 * delays[0]])
    assert delays == sorted(delays)
    assert delays[-1] == 5.0


def test_loop_that_is_behind_waits_out_an_outage_and_reads_on(shaky):
    shaky.read_bytes = 1
    shaky.write("x" * (3 * MAX_CHUNKS))
    waits, refusals = Waits(99), iter(range(4))
    stream = events(shaky, JOB, stop=waits.stop)
    plain, is_read = shaky.show, next(event for event in stream if isinstance(event, LogBytes))

    def refuse(id):
        if next(refusals, None) is None:
            return plain(id)
        raise UnreachableError("nobody listens", code="EndpointUnreachable")

    shaky.show = refuse
    shaky.finish()
    rest = b"".join(event.chunk.data for event in stream if isinstance(event, LogBytes))
    assert is_read.chunk.data + rest == b"x" * (3 * MAX_CHUNKS)
    assert len(waits.told) == 4


def test_a_backend_that_never_answered_is_an_error(shaky):
    shaky.is_there = False
    with pytest.raises(UnreachableError):
        list(events(shaky, JOB))
    with pytest.raises(UnreachableError):
        list(endings(shaky, [JOB]))


def test_the_end_of_a_job_is_seen_after_an_outage(shaky):
    waits = Waits(99, {1: lambda: away(shaky), 3: lambda: back(shaky)})
    assert [job for over in endings(shaky, [JOB], wait=waits) for job in over] == [JOB]


def test_a_job_that_was_deleted_is_still_an_error(shaky):
    def gone(id):
        raise NotFoundError("gone", code="JobNotFound")

    stream = events(shaky, JOB)
    next(stream)
    shaky.show = gone
    with pytest.raises(NotFoundError):
        list(stream)
