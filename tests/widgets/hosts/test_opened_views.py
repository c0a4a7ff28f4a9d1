"""The views of all jobs that one server sends to its pages, without a browser."""

import dataclasses
import json
import struct

import pytest

from batchai_magics.backends.base import Capabilities, Pace
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import Experiment, Workspace
from batchai_magics.widgets.dashboards.jobs_dashboard import AllJobsModel
from batchai_magics.widgets.hosts.opened_pages import OpenedViews
from tests.clock import Clock
from tests.widgets.scripted_cluster import EXPERIMENT, START, ExecutionState, Provisioning, ScriptedCluster

MADE = Provisioning(START, START)
HOME = EXPERIMENT.workspace_id
LAB = dataclasses.replace(HOME, workspace="lab", name="lab")
EXPERIMENTS = (EXPERIMENT, HOME.child(Kind.EXPERIMENT, "other"), LAB.child(Kind.EXPERIMENT, "far"))


class ScriptedGroup(ScriptedCluster):
    """A resource group with a job in three experiments; counts what is listed."""

    def __init__(self, folder):
        super().__init__(folder)
        self.listed = []
        for experiment, name in zip(EXPERIMENTS, ("here", "there", "beyond"), strict=True):
            self.run(name, ExecutionState.SUCCEEDED, rates=[1, 2, 3])
            self.jobs[name] = dataclasses.replace(self.jobs[name], id=experiment.child(Kind.JOB, name))

    def job(self, id):
        return next((job for job in self.jobs.values() if job.id == id), None) or super().job(id)

    def list(self, parent, kind):
        self.listed.append(kind)
        if kind is Kind.WORKSPACE:
            return [Workspace(id, "local", MADE) for id in (HOME, LAB)]
        if kind is Kind.EXPERIMENT:
            return [Experiment(id, MADE) for id in EXPERIMENTS if id.workspace_id == parent]
        return [job for job in self.jobs.values() if job.id.parent == parent]


@pytest.fixture
def group(tmp_path, monkeypatch):
    monkeypatch.setenv("BATCHAI_HEADLINE_METRIC", "images/sec")
    return ScriptedGroup(tmp_path)


@pytest.fixture
def opened(group):
    """What opens the page of all jobs; it is closed in the end."""
    pages = []

    def serve(*, is_read_only=False):
        views = OpenedViews(group, EXPERIMENT, is_read_only=is_read_only)
        pages.append(views.serve("/"))
        return views

    yield serve
    for page in pages:
        page.close()


def received(connection, kind):
    """The next message of this kind, once the page has said hello."""
    connection.view.receive({"kind": "ready", "page": "p", "turn": 1})
    for data in connection.frames():
        content = header(data).get("content", {})
        if content.get("kind") == kind:
            return content


def header(frame):
    """The header of a frame."""
    (length,) = struct.unpack(">I", frame[:4])
    return json.loads(frame[4 : 4 + length])


def test_jobs_of_all_experiments_are_listed_under_names_that_lead_to_them(group):
    model = AllJobsModel(group, EXPERIMENT, clock=Clock())
    model.poll()
    names = [row["name"] for row in model.rows()]
    assert sorted(names) == ["here", "lab/far/beyond", "other/there"]
    assert {model.id_of(name) for name in names} == {job.id for job in group.jobs.values()}
    assert all(model.listed[name].values == [1, 2, 3] for name in names)


def test_a_workspace_or_experiment_that_is_deleted_meanwhile_leaves_the_others(group):
    def deleted(parent, kind, listed=group.list):
        if parent in (LAB, EXPERIMENTS[1]):
            raise NotFoundError("gone")
        return listed(parent, kind)

    group.list = deleted
    model = AllJobsModel(group, EXPERIMENT, clock=Clock())
    model.poll()
    assert [row["name"] for row in model.rows()] == ["here"]


def test_each_list_of_an_experiment_counts_towards_the_pace_of_the_backend(group):
    group.capabilities = Capabilities(name="far", pace=Pace(poll_interval_s=2))
    clock = Clock()
    model = AllJobsModel(group, EXPERIMENT, clock=clock)
    model.poll()
    for clock.now in (1, 3, 5.9):
        model.poll()
    assert group.listed.count(Kind.JOB) == 3
    clock.now = 6
    model.poll()
    assert group.listed.count(Kind.JOB) == 6


def test_a_thousand_jobs_are_listed_and_a_change_of_one_sends_its_values_only(group, opened):
    group.jobs.clear()
    group.run("last", rates=[1, 2])
    for number in range(1200):
        group.run(f"older-{number}", ExecutionState.QUEUED)
    connection = opened().connect("/")
    rates = received(connection, "rates")["rates"]
    assert {name: one["values"] for name, one in rates.items()} == {"last": [1, 2]}
    facts, rows = connection.view.state["facts"], connection.view.state["rows"]
    assert (facts["total"], len(rows), rows[0]["name"]) == (1201, 1000, "last")
    group.tell("last", "30\timages/sec: 3.0 +/- 0.0 (jitter = 0.0)\t1.000\n")
    assert list(received(connection, "rates")["rates"]) == ["last"]


def test_page_is_sent_all_rows_once_and_then_changed_ones(group, opened):
    connection = opened().connect("/")
    states = (header(data).get("state", {}) for data in connection.frames())
    rows = next(state["rows"] for state in states if state.get("rows"))
    assert sorted(row["name"] for row in rows) == ["here", "lab/far/beyond", "other/there"]
    connection.view.receive({"kind": "ready", "page": "p", "turn": 1})
    group.jobs["here"] = dataclasses.replace(group.jobs["here"], state=ExecutionState.FAILED)
    changed = next(state["changed_rows"] for state in states if state.get("changed_rows"))
    assert [(rows[place]["name"], row["state"]) for place, row in changed] == [("here", "failed")]


def test_a_page_without_jobs_is_sent_that_it_has_no_rows(group, opened):
    group.jobs.clear()
    connection = opened().connect("/")
    first = next(header(data)["state"] for data in connection.frames())
    assert (first["is_first"], first["rows"]) == (True, [])


@pytest.mark.parametrize(
    "address", ["/nothing", "/job", "/job/gone", "/job/a b", "/job/x/y", "/compare", "/sweep/gone"]
)
def test_an_address_of_nothing_says_so(opened, address):
    with pytest.raises(BatchAIError):
        opened().connect(address)


def test_reopened_list_does_not_read_logs_again(opened):
    views = opened()
    first = views.connect("/")
    received(first, "rates")
    known = dict(views.jobs.listed)
    first.close()
    second = views.connect("/")
    received(second, "rates")
    assert views.jobs.listed == known


@pytest.mark.parametrize("kind", ["cancel", "again"])
def test_a_read_only_page_changes_nothing_whatever_it_is_sent(group, opened, kind):
    group.run("going", rates=[1])
    connection = opened(is_read_only=True).connect("/job/going")
    assert connection.view.state["facts"]["is_read_only"]
    assert not connection.view.state["facts"]["can_profile"]
    assert not connection.view.state["facts"]["can_again"]
    connection.view.receive({"kind": kind, "id": "asked"})
    assert received(connection, "reply")["text"] == "This page is read-only."
    assert group.jobs["going"].state is ExecutionState.RUNNING


def test_jobs_of_the_same_name_in_two_experiments_are_told_apart(group, opened):
    there = EXPERIMENTS[1].child(Kind.JOB, "here")
    group.jobs["other"] = dataclasses.replace(group.jobs["here"], id=there, state=ExecutionState.FAILED)
    views = opened()
    shown = [views.connect(f"/compare/{name}").view.state["rows"] for name in ("here", "other%2Fhere")]
    assert [row["state"] for (row,) in shown] == ["succeeded", "failed"]


def test_a_job_is_compared_and_opened_under_its_name(opened):
    views = opened()
    connection = views.connect("/compare/here/other%2Fthere")
    assert [row["name"] for row in connection.view.state["rows"]] == ["here", "there"]
    assert views.connect("/job/lab%2Ffar%2Fbeyond").view.state["facts"]["experiment"] == "far"
