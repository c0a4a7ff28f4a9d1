"""What a view says of a job that has printed nothing yet."""

from dataclasses import replace

import pytest

from batchai_magics.backends.base import Chunk, FileRef
from batchai_magics.follow import LogBytes, NodesChanged, QueueChanged, StateChanged
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.job_execution import Attempt
from batchai_magics.widgets.job.job_header import facts_of
from tests.widgets.scripted_job import JOB, START, ExecutionState, resource

TWO_IDLE = NodeStateCounts(idle_node_count=2)
TWO_RUNNING = NodeStateCounts(running_node_count=2)


def feed_of(state, **logs):
    feed = JobModel()
    feed.take(StateChanged(resource(state)))
    for name, data in logs.items():
        write(feed, name, data)
    return feed


def write(feed, name, data):
    file = {"execution": "execution.log", "out": "stdout.txt", "err": "stderr.txt"}.get(name, f"{name}.txt")
    feed.take(LogBytes(FileRef(JOB, file), Chunk(data, 0, len(data), False)))


def test_the_reason_of_the_backend_for_waiting_precedes_the_queue():
    feed = JobModel()
    words = "too few of its nodes are free; Slurm expects it to start on 2026-11-22 at 14:05:59"
    feed.take(StateChanged(replace(resource(ExecutionState.QUEUED), waiting=words)))
    feed.take(QueueChanged(JOB, ("a",), ()))
    assert feed.activity == f"Waiting for 2 nodes of nc6: {words}."


def test_the_facts_have_the_attempts_and_why_the_next_one_waits():
    feed = JobModel()
    attempts = (Attempt(1, ("n1",), START, START, "Slurm lost a node of it"),)
    waits = "too few of its nodes are free"
    feed.take(StateChanged(replace(resource(ExecutionState.QUEUED), attempts=attempts, waiting=waits)))
    facts = facts_of(feed)
    assert facts["attempt"] == 1
    assert facts["before"] == ["attempt 1 on n1: Slurm lost a node of it", f"it waits again: {waits}"]


@pytest.mark.parametrize(
    ("queue", "cluster", "words"),
    [
        (None, None, "Waiting for 2 nodes of nc6 …"),
        (QueueChanged(JOB, ("a",), ()), TWO_RUNNING, "Waiting for 2 nodes of nc6: a is using its nodes."),
        (QueueChanged(JOB, ("a",), ()), TWO_IDLE, "Waiting for 2 nodes of nc6 …"),
        (
            QueueChanged(JOB, ("a", "b"), ("c",)),
            TWO_IDLE,
            "Waiting for 2 nodes of nc6: a and b are using its nodes; c is ahead in the queue.",
        ),
        (
            QueueChanged(JOB, (), tuple("abcde")),
            TWO_IDLE,
            "Waiting for 2 nodes of nc6: 5 jobs are ahead in the queue.",
        ),
        (
            QueueChanged(JOB, (), ("a", "x/b", "x/c", "y/d")),
            TWO_IDLE,
            "Waiting for 2 nodes of nc6: 4 jobs (2 of experiment x and 1 of experiment y) are ahead"
            " in the queue.",
        ),
        (None, NodeStateCounts(), "Waiting for 2 nodes of nc6: it has none."),
        (None, NodeStateCounts(idle_node_count=1), "Waiting for 2 nodes of nc6: it has 1."),
        (
            None,
            NodeStateCounts(preparing_node_count=2),
            "Waiting for 2 nodes of nc6: 2 of its nodes are being prepared.",
        ),
    ],
)
def test_a_queued_job_says_what_it_waits_for(queue, cluster, words):
    feed = feed_of(ExecutionState.QUEUED)
    for event in (queue, cluster and NodesChanged(JOB, NodeStateCounts(), cluster)):
        if event:
            feed.take(event)
    assert feed.activity == words


def test_a_job_that_starts_after_another_one_waits_for_that_and_not_for_nodes():
    queued = resource(ExecutionState.QUEUED)
    spec = queued.spec.model_copy(update={"batchai_after": (str(JOB),)})
    feed = JobModel()
    feed.take(StateChanged(replace(queued, spec=spec, waiting="prep has to succeed first")))
    assert feed.activity == "Waiting: prep has to succeed first."


MOMENT = b"2026-03-01T12:00:00.000000Z "
STARTING = MOMENT + b"starting 4 process(es) on 2 node(s)\n"
PREPARING = MOMENT + b"job preparation started\n"


@pytest.mark.parametrize(
    ("logs", "words"),
    [
        ({}, "Starting …"),
        ({"execution": MOMENT + b"pulling image\n"}, "Starting: pulling image"),
        (
            {"execution": MOMENT + b"starting 4\n" + MOMENT + b"the job ended with exit code 0\n"},
            "Started; no output yet …",
        ),
        ({"execution": PREPARING}, "Preparing the nodes …"),
        (
            {"execution": PREPARING, "stdout-job_prep": b"one\n\rget 10%\rget 20%"},
            "Preparing the nodes: get 20%",
        ),
        ({"execution": PREPARING, "stderr-job_prep": b"wget\n"}, "Preparing the nodes: wget"),
        ({"execution": PREPARING + STARTING}, "Started; no output yet …"),
    ],
)
def test_a_starting_job_shows_the_step_of_its_preparation(logs, words):
    assert feed_of(ExecutionState.RUNNING, **logs).activity == words


@pytest.mark.parametrize("name", ["out", "err"])
def test_after_the_first_output_no_activity_is_shown(name):
    feed = feed_of(ExecutionState.RUNNING, execution=PREPARING)
    write(feed, name, b"x")
    assert feed.activity == ""


def test_a_terminating_job_shows_an_activity_and_an_ended_one_none():
    assert feed_of(ExecutionState.TERMINATING).activity == "Saving, up to 30 s …"
    assert feed_of(ExecutionState.FAILED).activity == ""
