"""What each look at a job tells of its state, its nodes and its place in the queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.follow import Follower, NodesChanged, QueueChanged, endings
from batchai_magics.follow.job_events import MAX_POLL_S, QUEUE_POLL_S, QueuePoller
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import Node
from batchai_magics.models.states import ExecutionState, NodeState
from tests.follow.event_steps import STDOUT, failing, log, states
from tests.follow.test_pauses import Waits
from tests.widgets.scripted_cluster import EXPERIMENT, ScriptedCluster
from tests.widgets.scripted_job import JOB, resource

OTHER = JOB.parent.child(Kind.JOB, "other")


def test_what_a_job_tells_about_itself_is_new_also_in_the_same_state(backend, follower):
    backend.job = replace(backend.job, output_path_segment="elsewhere")
    assert states(follower.poll()) == ["running"]


def test_nodes_are_told_when_they_are_new(backend, follower):
    backend.counts = NodeStateCounts(running_node_count=1, leaving_node_count=1)
    (event,) = follower.poll()
    assert event == NodesChanged(JOB, backend.counts, backend.counts)
    assert follower.poll() == []


def test_news_is_not_lost_when_a_later_question_fails(backend):
    follower, tail = Follower(backend, JOB), backend.tail
    backend.tail = failing
    with pytest.raises(StorageError):
        follower.poll()
    backend.tail = tail
    told = follower.poll()
    assert states(told) == ["running"]
    assert NodesChanged(JOB, backend.counts, backend.counts) in told
    assert follower.poll() == []


def test_a_log_is_not_lost_when_another_cannot_be_read(backend):
    backend.write("out\n")
    read = backend.read
    follower = Follower(backend, JOB, [STDOUT, FileRef(JOB, "stderr.txt")])
    backend.read = lambda file, *at: read(file, *at) if file == STDOUT else failing()
    with pytest.raises(StorageError):
        follower.poll()
    backend.read = read
    assert log(follower.poll()) == [("stdout.txt", b"out\n", False)]


def test_a_job_without_its_cluster_is_followed_to_its_end(backend):
    def show(id):
        if id.kind is Kind.CLUSTER:
            raise NotFoundError("gone")
        return backend.job

    backend.show = show
    follower = Follower(backend, JOB)
    follower.poll()
    backend.finish()
    assert states(follower.poll()) == ["succeeded"]


def test_nothing_is_told_after_the_end(backend, follower):
    backend.finish()
    assert states(follower.poll()) == ["succeeded"]
    assert follower.is_over
    backend.write("more\n")
    assert follower.poll() == []


def test_what_a_queued_job_waits_for_is_not_known_where_its_cluster_is_gone(backend):
    def gone(id):
        raise NotFoundError("gone", code="ClusterNotFound")

    backend.nodes = gone
    queue = QueuePoller(backend, clock=lambda: 0.0)
    assert queue.poll(resource(ExecutionState.QUEUED)) == [QueueChanged(JOB)]


def test_a_queue_is_looked_at_from_time_to_time_and_told_when_it_has_changed(backend):
    now, queued = [0.0], resource(ExecutionState.QUEUED)
    nodes = [Node("n", NodeState.RUNNING, OTHER)]
    backend.nodes = lambda id: nodes
    queue = QueuePoller(backend, clock=lambda: now[0])
    assert queue.poll(backend.job) == []  # it runs
    assert queue.poll(queued) == [QueueChanged(JOB, ("other",))]
    nodes.clear()
    now[0] = QUEUE_POLL_S - 0.1
    assert queue.poll(queued) == []
    now[0] = QUEUE_POLL_S
    assert queue.poll(queued) == [QueueChanged(JOB)]
    now[0] *= 2
    assert queue.poll(queued) == []


@pytest.mark.parametrize(
    ("waited_s", "spent_s", "pause_s"),
    [(60.0, 0.0, QUEUE_POLL_S), (0.0, 0.25, 5.0), (0.0, 60.0, MAX_POLL_S)],
    ids=["a look that waits on a busy machine", "one that costs", "one that costs more than that"],
)
def test_a_queue_is_looked_at_less_often_the_more_a_look_costs(backend, waited_s, spent_s, pause_s):
    now, spent, queued = [0.0], [0.0], resource(ExecutionState.QUEUED)
    nodes = [Node("n", NodeState.RUNNING, OTHER)]

    def dear(id):
        now[0] += waited_s
        spent[0] += spent_s
        return [*nodes]

    backend.nodes = dear
    queue = QueuePoller(backend, clock=lambda: now[0], spent=lambda: spent[0])
    assert queue.poll(queued) == [QueueChanged(JOB, ("other",))]
    nodes.clear()
    now[0] += pause_s - 0.01
    assert queue.poll(queued) == []
    now[0] += 0.01
    assert queue.poll(queued) == [QueueChanged(JOB)]


def test_what_is_before_a_job_is_told_beside_what_has_the_nodes(backend):
    waiting = [JOB.parent.child(Kind.JOB, name) for name in ("first", "second", "first")]
    theirs = JOB.workspace_id.child(Kind.EXPERIMENT, "theirs").child(Kind.JOB, "long")
    backend.jobs_ahead_of = lambda job: [*waiting, JOB] if job.id == JOB else []
    # it may have got a node since its state was read, and does not wait for itself
    backend.nodes = lambda id: [Node("n", NodeState.RUNNING, job) for job in (OTHER, theirs, JOB)]
    seen = QueuePoller(backend, clock=lambda: 0.0).poll(resource(ExecutionState.QUEUED))
    assert seen == [QueueChanged(JOB, ("other", "theirs/long"), ("first", "second"))]


def test_endings_come_once_in_the_look_that_finds_them(tmp_path):
    place = ScriptedCluster(tmp_path)
    for name, state in (("a", ExecutionState.SUCCEEDED), ("b", ExecutionState.RUNNING)):
        place.run(name, state)
    place.run("c")
    ids = {name: EXPERIMENT.child(Kind.JOB, name) for name in "abcd"}
    waits = Waits(99, {2: lambda: place.run("c", ExecutionState.FAILED), 3: lambda: place.jobs.pop("b")})
    told = list(endings(place, list(ids.values()), wait=waits))
    assert told == [[ids["a"], ids["d"]], [], [ids["c"]], [ids["b"]]]
    assert waits.told == pytest.approx([0.02, 0.022, 0.02])


def test_endings_know_names_in_any_letter_case(tmp_path):
    place = ScriptedCluster(tmp_path)
    place.run("Resnet")
    looks = endings(place, [EXPERIMENT.child(Kind.JOB, "RESNET")], wait=lambda seconds: None)
    assert next(looks) == []
