"""A backend that does not answer for a while: following goes on, says so, and loses nothing."""

from __future__ import annotations

import pytest

from batchai_magics.errors import NotFoundError, UnreachableError
from batchai_magics.follow import ConnectionLost, ConnectionRestored, LogBytes, StateChanged, endings, events
from tests.follow.event_steps import Pauses
from tests.widgets.scripted_job import JOB, ScriptedBackend


class Shaky(ScriptedBackend):
    """Answers, or not, as the test says."""

    is_there = True

    def show(self, id):
        if not self.is_there:
            raise UnreachableError("nobody listens", code="EndpointUnreachable")
        return super().show(id)


@pytest.fixture
def backend(tmp_path):
    return Shaky(tmp_path)


class Story:
    """Does one thing after the other, each time that somebody waits."""

    def __init__(self, *steps):
        self.steps, self.waits = list(steps), []

    def __call__(self, seconds):
        self.waits.append(seconds)
        if self.steps:
            self.steps.pop(0)()


def away(backend):
    backend.write("two\n")
    backend.is_there = False


def back(backend):
    backend.write("three\n")
    backend.is_there = True
    backend.finish()


def test_an_outage_is_told_once_and_no_byte_is_lost(backend):
    backend.write("one\n")
    nothing = [lambda: None] * 3
    wait = Story(lambda: away(backend), *nothing, lambda: back(backend))
    seen = list(events(backend, JOB, stop=Pauses(wait)))
    told = [event for event in seen if isinstance(event, ConnectionLost | ConnectionRestored)]
    log = b"".join(event.chunk.data for event in seen if isinstance(event, LogBytes))
    assert (told, log) == (
        [ConnectionLost(JOB, "nobody listens"), ConnectionRestored(JOB)],
        b"one\ntwo\nthree\n",
    )
    assert isinstance(seen[-1], StateChanged)


def test_the_longer_it_lasts_the_more_rarely_it_is_asked_but_never_too_rarely(backend):
    wait = Story(lambda: away(backend), *[lambda: None] * 12, lambda: back(backend))
    list(events(backend, JOB, stop=Pauses(wait)))
    delays = wait.waits[1:13]
    assert delays[:3] == pytest.approx([delays[0], 2 * delays[0], 4 * delays[0]])
    assert delays == sorted(delays)
    assert delays[-1] == 5.0


def test_one_that_never_answered_is_an_error(backend):
    backend.is_there = False
    with pytest.raises(UnreachableError):
        list(events(backend, JOB))
    with pytest.raises(UnreachableError):
        list(endings(backend, [JOB]))


def test_the_end_of_a_job_is_seen_after_an_outage(backend):
    wait = Story(lambda: away(backend), lambda: None, lambda: back(backend))
    assert [job for over in endings(backend, [JOB], wait=wait) for job in over] == [JOB]


def test_a_job_that_was_deleted_is_still_an_error(backend):
    def gone(id):
        raise NotFoundError("gone", code="JobNotFound")

    stream = events(backend, JOB)
    next(stream)
    backend.show = gone
    with pytest.raises(NotFoundError):
        list(stream)
