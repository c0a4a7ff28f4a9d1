"""How long the loop waits between two looks at a job."""

from __future__ import annotations

import threading

import pytest

from batchai_magics.follow import Follower, events
from batchai_magics.follow import follower as follower_module
from tests.follow.news import log, states
from tests.widgets.place import Place
from tests.widgets.scripted import JOB


class Waits:
    """Notes how long the loop waits; `then` happens at given waits, and the loop stops at the last."""

    def __init__(self, most, then=None):
        self.stop, self.told, self.most, self.then = threading.Event(), [], most, then or {}

    def __call__(self, seconds):
        self.told.append(seconds)
        self.then.get(len(self.told), lambda: None)()
        if len(self.told) == self.most:
            self.stop.set()


def test_the_loop_waits_longer_while_nothing_happens_and_briefly_after_news(backend):
    waits = Waits(13, {11: lambda: backend.write("news\n")})
    list(events(backend, JOB, stop=waits.stop, wait=waits))
    growing = [0.05, 0.065, 0.0845, 0.1098, 0.1428, 0.1856, 0.2413, 0.3137, 0.4079, 0.5, 0.5]
    assert waits.told == pytest.approx([*growing, 0.05, 0.065], abs=1e-3)


def test_the_loop_does_not_wait_while_there_is_more_to_read(backend, monkeypatch):
    monkeypatch.setattr(follower_module, "PIECE_BYTES", 1)
    monkeypatch.setattr(follower_module, "MOST_PIECES", 1)
    backend.write("0123456789")
    backend.finish()
    waits = Waits(1)
    assert states(list(events(backend, JOB, wait=waits))) == ["succeeded"]
    assert waits.told == []


def test_only_the_first_piece_of_a_look_is_waited_for(backend, monkeypatch):
    monkeypatch.setattr(follower_module, "PIECE_BYTES", 2)
    plain, patience = backend.tail, []

    def tail(job, positions, limit, *, wait_s=0.0):
        patience.append(wait_s)
        return plain(job, positions, limit)

    follower = Follower(backend, JOB)
    follower.poll()
    backend.write("012345")
    monkeypatch.setattr(backend, "tail", tail)
    assert [data for _, data, _ in log(follower.poll(wait_s=10))] == [b"01", b"23", b"45"]
    assert patience == [10, 0.0, 0.0]


def test_a_loop_that_is_stopped_asks_nothing(tmp_path):
    stop = threading.Event()
    stop.set()
    assert list(events(Place(tmp_path), JOB, stop=stop)) == []
