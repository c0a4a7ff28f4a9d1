"""What the views of clusters and of lists of jobs ask of the backend, and how often."""

from dataclasses import replace

import pytest

from batchai_magics.backends.base import Capabilities, Pace
from batchai_magics.commands.output.command_result import SelectedJobs
from batchai_magics.follow.status_poller import StatusPoller
from batchai_magics.jobs.listed_job import MAX_INTERVAL_S
from batchai_magics.models.runs.labels import Labels
from batchai_magics.widgets.dashboards.cluster_dashboard import NODES_TTL_S
from batchai_magics.widgets.dashboards.jobs_dashboard import LABELS_INTERVAL_S, JobsModel
from tests.widgets.dashboards.opened_dashboards import SPEED, cluster_model, jobs_model
from tests.widgets.scripted_cluster import (
    CLUSTER,
    EXPERIMENT,
    ExecutionState,
    NodeState,
    ScriptedCluster,
    ScriptedLabels,
)


def test_a_long_list_shows_its_newest_jobs_and_how_many_there_are(tmp_path):
    place = ScriptedCluster(tmp_path)
    for number in range(260):
        place.run(f"job-{number}", ExecutionState.QUEUED)
    model = JobsModel(place, EXPERIMENT, preferences=SPEED)
    model.poll()
    assert model.facts()["total"] == 260
    assert [row["name"] for row in model.rows()][::199] == ["job-259", "job-60"]


@pytest.mark.parametrize("make", [cluster_model, jobs_model])
def test_dashboard_polls_no_more_often_than_the_backends_pace(place, clock, make):
    place.capabilities = Capabilities(name="place", pace=Pace(poll_interval_s=10.0))
    model = make(place, clock)
    first, looks = model.poll(), place.looks
    place.run("another")
    place.states.append(NodeState.LEAVING)
    clock.now += 9.9
    assert (first, model.poll(), place.looks) == (True, False, looks)
    clock.now += 0.2
    assert model.poll()


def test_cluster_dashboard_shares_status_requests_with_followers_of_its_jobs(place, clock):
    place.capabilities = Capabilities(name="place", pace=Pace(poll_interval_s=10.0))
    model = cluster_model(place, clock)
    watcher = StatusPoller(place, [CLUSTER], clock=clock)
    watcher.poll()
    looks = place.looks
    assert model.poll()
    assert place.looks == looks


def test_nodes_are_listed_when_the_cluster_has_changed_and_at_intervals(place, clock):
    asked = []
    place.nodes = lambda id: asked.append(id) or ScriptedCluster.nodes(place, id)
    model = cluster_model(place, clock)
    for _ in range(3):
        clock.now += 1
        model.poll()
    assert len(asked) == 1
    place.states.append(NodeState.LEAVING)
    clock.now += 1
    assert model.poll()
    assert len(model.nodes) == 5
    place.states[0], place.states[2] = place.states[2], place.states[0]  # the counts stay as they were
    clock.now += NODES_TTL_S
    assert model.poll()
    assert model.nodes[0].state is NodeState.IDLE


def words_of(model):
    """The progress of the jobs that have some."""
    return {name: job.progress.words for name, job in model.listed.items() if job.progress}


def test_running_jobs_have_progress(place, clock):
    place.run("old", ExecutionState.SUCCEEDED)
    model = jobs_model(place, clock)
    place.tell("old", "step 9/10\n")
    place.tell("resnet", "step 3/10\n")
    model.poll()
    assert words_of(model) == {"resnet": "step 3/10"}
    (place.folder / "resnet" / "stderr.txt").write_text("\r 40%|#  | 4/10 [00:01<00:02, 1it/s]")
    clock.now += MAX_INTERVAL_S
    model.poll()
    assert words_of(model) == {"resnet": "4/10"}
    assert "40 %, 4/10" in model.bundle()["text/plain"]


def test_failed_job_keeps_its_progress_and_a_succeeded_one_has_none(place, clock):
    model = jobs_model(place, clock)
    place.run("old", ExecutionState.SUCCEEDED)
    place.run("broken", ExecutionState.FAILED, exit_code=1)
    for name in ("old", "broken"):
        (place.folder / name / "stderr.txt").write_text("\r 40%|#  | 4/10 [00:01<00:02, 1it/s]")
    model.poll()
    assert words_of(model) == {"broken": "4/10"}
    assert "failed at 4/10, 40 %" in model.bundle()["text/plain"]


def test_list_has_only_selected_jobs_and_names_the_options_that_selected_them(place, clock):
    place.run("old", ExecutionState.SUCCEEDED)
    selected = SelectedJobs(frozenset({"old", "gone"}), "--tag best")
    model = JobsModel(place, EXPERIMENT, selected=selected, clock=clock)
    model.poll()
    assert [row["name"] for row in model.rows()] == ["old"]
    assert model.reopen_command.endswith(" --tag best")


def test_jobs_have_their_tags_and_the_parameters_that_differ(place, clock):
    place.records = ScriptedLabels()
    place.records.tag("resnet", "best", lr=0.1, batch=32)
    place.records.tag("old", lr=0.5, batch=32)
    model = jobs_model(place, clock)
    model.poll()
    rows = {row["name"]: (row["tags"], row["parameters"]) for row in model.rows()}
    assert rows == {"resnet": (["best"], {"lr": "0.1"}), "old": ([], {"lr": "0.5"})}


def test_each_job_has_a_few_parameters_of_its_own_and_tells_what_it_waits_for(place, clock):
    place.records = ScriptedLabels()
    place.records.tag("old", **{f"of_old_{number}": number for number in range(9)})
    place.records.tag("next", opt="sgd")
    place.run("next", ExecutionState.QUEUED)
    place.jobs["next"] = place.jobs["next"].with_waiting("old has to succeed first")
    place.run("old", ExecutionState.SUCCEEDED)
    model = jobs_model(place, clock)
    model.poll()
    rows = {row["name"]: (len(row["parameters"]), row["waiting"]) for row in model.rows()}
    assert (rows["old"], rows["next"]) == ((5, ""), (1, "old has to succeed first"))


def test_a_row_stays_the_same_while_its_job_does(place, clock):
    place.run("old", ExecutionState.SUCCEEDED)
    model = jobs_model(place, clock)
    model.poll()
    before = {row["name"]: row for row in model.rows()}
    place.run("resnet", ExecutionState.FAILED, exit_code=3)
    clock.now += 1
    assert model.poll()
    after = {row["name"]: row for row in model.rows()}
    assert (after["old"] is before["old"], after["resnet"]["exit_code"]) == (True, 3)


def test_run_that_replaces_one_of_its_name_is_read_with_its_patterns(place, clock):
    place.records = ScriptedLabels()
    place.records.of["resnet"] = Labels(patterns={"gap": r"gap=(\d+)"})
    model = jobs_model(place, clock)
    model.poll()
    place.run("resnet")
    place.tell("resnet", "gap=3\ngap=2\n")
    place.jobs["resnet"] = replace(place.jobs["resnet"], output_path_segment="its next run")
    clock.now += MAX_INTERVAL_S / 2
    model.poll()
    listed = model.listed["resnet"]
    assert (listed.label, listed.values) == ("gap", [3, 2])


def test_labels_are_read_at_intervals_and_for_a_new_job(place, clock):
    place.records = ScriptedLabels()
    model = jobs_model(place, clock)
    clock.now += LABELS_INTERVAL_S / 2
    for _ in range(3):
        model.poll()
    assert place.records.looks == 1
    place.run("new")
    place.records.tag("new", "first")
    clock.now += 1
    model.poll()
    assert (place.records.looks, model.rows()[0]["tags"]) == (2, ["first"])
    place.records.tag("new", "second")
    clock.now += LABELS_INTERVAL_S
    model.poll()
    assert model.rows()[0]["tags"] == ["second"]
