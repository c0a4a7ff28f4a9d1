"""All who watch one backend share its looks, at the pace that it tells."""

import gc
from dataclasses import replace

import pytest

from batchai_magics.backends.base import Backend, Capabilities, Pace, StatusSnapshot
from batchai_magics.follow import Follower, endings
from batchai_magics.follow.status_poller import FRESH_S, StatusPoller
from batchai_magics.models.resource_ids import Kind
from tests.clock import Clock
from tests.widgets.scripted_cluster import CLUSTER, EXPERIMENT, ScriptedCluster
from tests.widgets.scripted_job import JOB, ScriptedBackend

A, B, C = (EXPERIMENT.child(Kind.JOB, name) for name in "abc")


class Counting(Backend):
    """Notes what each look asks for."""

    def __init__(self, pace=None):
        self.capabilities = Capabilities(name="counting", pace=pace or Pace())
        self.asked = []

    def status(self, ids, *, since=None, wait_s=0.0):
        self.asked.append(sorted(id.name for id in ids))
        return StatusSnapshot({id.key: len(self.asked) for id in ids})


@pytest.fixture
def clock():
    return Clock(100.0)


def test_one_request_serves_all_pollers(clock):
    backend = Counting()
    watchers = [StatusPoller(backend, [id], clock=clock) for id in (A, B, C)]
    assert [watcher.poll().of(id) for watcher, id in zip(watchers, (A, B, C), strict=True)] == [1, 1, 1]
    assert backend.asked == [["a", "b", "c"]]


def test_each_poll_returns_a_new_status(clock):
    backend = Counting()
    first, second = (StatusPoller(backend, [id], clock=clock) for id in (A, B))
    looks = [watcher.poll() for watcher in (first, second, first, second)]
    assert [look.of(A) for look in looks] == [1, 1, 2, 2]


def test_an_old_status_is_requested_again(clock):
    backend = Counting()
    first, second = (StatusPoller(backend, [id], clock=clock) for id in (A, B))
    first.poll()
    clock.now += FRESH_S * 1.1
    assert second.poll().of(B) == 2


def test_new_poller_gets_no_earlier_status(clock):
    backend = Counting()
    StatusPoller(backend, [A], clock=clock).poll()
    assert StatusPoller(backend, [A], clock=clock).poll().of(A) == 2


def test_polls_keep_the_pace_of_the_backend(clock):
    backend = Counting(Pace(poll_interval_s=5))
    watcher = StatusPoller(backend, [A], clock=clock)
    assert watcher.poll().of(A) == 1
    clock.now += 4.9
    assert watcher.poll() is None
    clock.now += 0.1
    assert watcher.poll().of(A) == 2


def test_added_job_is_polled_at_once(clock):
    backend = Counting(Pace(poll_interval_s=5))
    watcher = StatusPoller(backend, [A], clock=clock)
    watcher.poll()
    watcher.add(B)
    assert watcher.poll().of(B) == 2


def test_garbage_collected_poller_is_not_polled_for(clock):
    backend = Counting()
    gone = StatusPoller(backend, [A], clock=clock)
    gone.poll()
    del gone
    gc.collect()
    StatusPoller(backend, [B], clock=clock).poll()
    assert backend.asked[-1] == ["b"]


def test_backends_do_not_share(clock):
    one, other = Counting(), Counting()
    watchers = [StatusPoller(backend, [A], clock=clock) for backend in (one, other)]
    for watcher in watchers:
        watcher.poll()
    assert (len(one.asked), len(other.asked)) == (1, 1)


def test_followers_of_many_jobs_ask_in_one_look(tmp_path, clock):
    place, asked = ScriptedCluster(tmp_path), []
    for name in "abc":
        place.run(name)
    plain = place.status

    def status(ids, since):
        asked.append({id.name for id in ids})
        return plain(ids)

    place.status = status
    followers = [Follower(place, id, clock=clock) for id in (A, B, C)]
    for _ in range(2):
        clock.now += 1
        for follower in followers:
            follower.poll()
    before = len(asked)
    clock.now += 1
    for follower in followers:
        follower.poll()
    assert asked[before:] == [{"a", "b", "c", CLUSTER.name}]


def paced(backend, **pace):
    backend.capabilities = replace(backend.capabilities, pace=Pace(**pace))
    return backend


def test_the_loop_waits_at_the_pace_of_the_backend(tmp_path, clock):
    backend, waits = paced(ScriptedBackend(tmp_path), poll_interval_s=5), []

    def wait(seconds):
        waits.append(seconds)
        clock.now += seconds
        backend.finish()

    list(endings(backend, [JOB], wait=wait, clock=clock))
    assert waits == [5]


def test_status_contains_only_the_requested_jobs(tmp_path):
    place = ScriptedCluster(tmp_path)
    for name in "abc":
        place.run(name)
    missing = EXPERIMENT.child(Kind.JOB, "nope")
    assert sorted(place.status([A, C, missing]).states) == [A.key, C.key]
    assert place.status([missing]).states == {}
