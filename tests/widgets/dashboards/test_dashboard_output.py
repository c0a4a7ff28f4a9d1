"""The views of clusters and of lists of jobs over the publisher; what reaches the page is recorded."""

import gc
import threading
import tracemalloc

import pytest
from ipywidgets.widgets.widget import _instances

from batchai_magics import widgets
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.listed_job import MAX_INTERVAL_S
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.display import HELLO_S
from batchai_magics.widgets.dashboards.jobs_dashboard import MAX_READS
from tests.patience import PATIENCE_S
from tests.threads import join_all, package_threads
from tests.widgets.core.recorded_page import say, turns
from tests.widgets.dashboards.opened_dashboards import KINDS, WIDGET, opened, sent, subject
from tests.widgets.scripted_cluster import JOB, ExecutionState, NodeState
from tests.widgets.scripted_job import step_line


@pytest.mark.parametrize("kind", KINDS)
def test_a_live_view_comes_with_a_snapshot_for_the_saved_notebook(publisher, place, page, kind):
    shown = opened(publisher, place, page, kind)
    assert WIDGET in page.shown[shown.id]
    snapshot = page.shown[shown.second_id]
    assert "resnet" in snapshot["text/plain"]
    assert f'data-batchai-snapshot="{shown.id}"' in snapshot["text/html"]


def test_views_of_two_kinds_have_style_sheets_of_their_own_in_one_page(publisher, place, page):
    ids = [opened(publisher, place, page, kind).widget._anywidget_id for kind in (*KINDS, *KINDS)]
    assert (ids[:2] == ids[2:], len({*ids})) == (True, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_that_is_loaded_again_is_sent_the_snapshot(publisher, clock, place, page, kind):
    shown = opened(publisher, place, page, kind)
    say(shown, kind="ready", page="first", turn=1)
    turns(publisher, clock, 60)
    assert sent(page, "outputs") == []
    say(shown, kind="ready", page="loaded again", turn=1)
    turns(publisher, clock, 1)
    (content,) = sent(page, "outputs")
    assert content["model_id"] == shown.widget.model_id
    assert content["outputs"] == [None, page.shown[shown.second_id]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_loaded_again_that_was_away_is_sent_the_snapshot_it_missed(
    publisher, clock, place, page, kind
):
    shown = opened(publisher, place, page, kind)
    say(shown, kind="ready", page="first", turn=1)
    say(shown, kind="ready", page="loaded again", turn=1)
    turns(publisher, clock, 1)
    shown.view.has_page = False
    turns(publisher, clock, 60)
    assert len(sent(page, "outputs")) == 1
    say(shown, kind="ready", page="loaded again", turn=2)
    turns(publisher, clock, 1)
    assert len(sent(page, "outputs")) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_html_output_is_refreshed(publisher, clock, place, page, kind):
    shown = opened(publisher, place, page, kind, ui="html")
    assert set(page.shown[shown.id]) == {"text/html", "text/plain"}
    place.run("another")
    place.states.append(NodeState.LEAVING)
    turns(publisher, clock, 8)
    assert ("another" if kind == "jobs" else "leaving") in page.shown[shown.id]["text/plain"]


@pytest.mark.parametrize("kind", KINDS)
def test_text_output_is_text(place, page, kind):
    widgets.show_dashboard(subject(place, kind), ui="text")
    assert set(page.shown[""]) == {"text/plain"}
    assert "resnet" in page.shown[""]["text/plain"]


def test_text_is_shown_without_a_frontend(place, page):
    page.has_kernel = False
    widgets.show_dashboard(place.jobs_subject)
    assert set(page.shown[""]) == {"text/plain"}


def test_only_the_newest_html_output_of_a_resource_is_refreshed(publisher, place, page):
    older = opened(publisher, place, page, "cluster", ui="html")
    newer = opened(publisher, place, page, "cluster", ui="html")
    assert (older.is_closed, newer.is_closed) == (True, False)


@pytest.mark.parametrize("kind", KINDS)
def test_ten_views_share_polls_that_back_off_without_changes(publisher, clock, place, page, kind):
    place.jobs.clear()
    for _ in range(10):
        say(opened(publisher, place, page, kind), kind="ready")
    turns(publisher, clock, 30)
    place.looks = 0
    turns(publisher, clock, 20)
    assert place.looks <= (11 if kind == "cluster" else 6)


def test_view_of_a_silent_page_is_not_polled_until_its_next_message(publisher, clock, place, page):
    shown = opened(publisher, place, page, "cluster")
    say(shown, kind="ready")
    turns(publisher, clock, 80)
    place.looks = 0
    turns(publisher, clock, 30)
    assert place.looks == 0
    say(shown, kind="alive")
    turns(publisher, clock, 3)
    assert place.looks > 0


def test_page_is_sent_rates_once_and_again_after_a_change(publisher, clock, place, page):
    say(opened(publisher, place, page, "jobs"), kind="ready")
    turns(publisher, clock, 2)
    assert sent(page, "rates")[0]["rates"] == {
        "old": {
            "values": [50, 60],
            "last": "",
            "label": "images/sec",
            "failure": "exit code 1",
            "progress": None,
        },
        "resnet": {
            "values": [100, 200, 300],
            "last": "",
            "label": "images/sec",
            "failure": "",
            "progress": None,
        },
    }
    count = len(sent(page, "rates"))
    turns(publisher, clock, 10)
    assert len(sent(page, "rates")) == count
    place.tell("resnet", step_line(40, 0, 200) + step_line(40, 1, 200))
    turns(publisher, clock, MAX_INTERVAL_S + 5)
    rates = sent(page, "rates")[-1]["rates"]
    assert {name: one["values"] for name, one in rates.items()} == {"resnet": [100, 200, 300, 400]}


def test_page_resizes_the_cluster_and_is_sent_errors(publisher, clock, place, page):
    shown = opened(publisher, place, page, "cluster")
    say(shown, kind="ready")
    say(shown, kind="scale", id="a", settings={"manual": {"targetNodeCount": 7}})
    say(shown, kind="scale", id="b", settings={"manual": {"targetNodeCount": -1}})
    say(shown, kind="scale", id="c", settings={"manual": {"targetNodeCount": 101}})
    turns(publisher, clock, 3)
    answers = {answer["id"]: answer for answer in sent(page, "reply")}
    assert [not answers[id]["text"] for id in "abc"] == [True, False, False]
    assert "quota" in answers["c"]["text"]
    assert [patch["manual"]["targetNodeCount"] for patch in place.patches] == [7]
    assert shown.view.state["facts"]["target"] == 7


def test_page_opens_existing_jobs_only(publisher, clock, place, page):
    shown = opened(publisher, place, page, "jobs")
    say(shown, kind="ready")
    say(shown, kind="open", id="a", names=["resnet"])
    say(shown, kind="open", id="c", names=["resnet", "old"])
    say(shown, kind="open", id="b", names=["resnet", "gone"])
    turns(publisher, clock, 2)
    answers = {answer["id"]: answer for answer in sent(page, "reply")}
    assert answers["a"]["model"] == "model of resnet"
    assert answers["c"]["model"] == "model of resnet, old"
    assert answers["b"]["text"] == "The job was deleted."
    assert "model" not in answers["b"]


@pytest.mark.parametrize("kind", KINDS)
def test_view_without_a_page_is_frozen_and_becomes_live_again_after_a_hello(
    publisher, clock, place, page, kind
):
    shown = opened(publisher, place, page, kind)
    for _ in range(3):  # cells that end while the page is still busy
        shown.on_cell_end(lambda is_met: True)
    assert WIDGET in page.shown[shown.id]
    turns(publisher, clock, int(HELLO_S))
    shown.on_cell_end(lambda is_met: True)
    turns(publisher, clock, 1)
    assert set(page.shown[shown.id]) == {"text/html", "text/plain"}
    say(shown, kind="ready")
    turns(publisher, clock, 1)
    assert WIDGET in page.shown[shown.id]
    assert publisher.outputs() == [shown]


def test_a_list_of_jobs_without_a_page_is_frozen_when_all_logs_of_ended_jobs_are_read(
    publisher, clock, place, page
):
    for number in range(3 * MAX_READS):
        place.run(f"ended{number}", ExecutionState.SUCCEEDED, rates=[100])
    shown = opened(publisher, place, page, "jobs")
    clock.now += HELLO_S

    def wait_for(is_met):
        turns(publisher, clock, 1)
        return is_met()

    shown.on_cell_end(wait_for)
    assert page.shown[shown.id]["text/plain"].count("images/sec 100") == 3 * MAX_READS


@pytest.mark.parametrize(("ui", "kinds"), [("auto", {"text/html", "text/plain"}), ("widget", {WIDGET})])
def test_a_view_without_changes_for_long_is_frozen_unless_a_widget_was_asked_for(
    publisher, clock, place, page, ui, kinds
):
    place.states = [NodeState.IDLE] * 4
    shown = opened(publisher, place, page, "cluster", ui=ui)
    for _ in range(11):
        say(shown, kind="ready")
        turns(publisher, clock, 60)
    assert set(page.shown[shown.id]) >= kinds
    assert (WIDGET in page.shown[shown.id]) is (ui == "widget")


def test_a_deleted_cluster_ends_its_view_and_says_so(publisher, clock, place, page):
    shown = opened(publisher, place, page, "cluster")
    place.jobs.clear()
    place.show = lambda id: place.job(JOB)
    turns(publisher, clock, 2)
    assert shown.is_frozen
    assert shown.model.problem == "The cluster was deleted."


@pytest.mark.slow
def test_two_hundred_views_leave_no_thread_no_model_and_no_memory(place, page, monkeypatch):
    for name in ("show", "update"):
        monkeypatch.setattr(display, name, lambda bundle, display_id: None)
    place.run("quiet")
    widgets.close_all()  # what an earlier test may have left open
    before_threads, before_models = package_threads(), set(_instances)
    publisher = widgets._publisher()
    _show_and_leave(publisher, place, 50)  # imports and caches are made
    tracemalloc.start()
    before = _memory()
    _show_and_leave(publisher, place, 200)
    started = package_threads() - before_threads
    assert len(started) == 2
    assert len(set(_instances) - before_models) <= 64
    widgets.close_all()
    assert not join_all(started)
    assert _memory() - before < 2_000_000
    tracemalloc.stop()
    assert (package_threads() - before_threads, set(_instances) - before_models) == (set(), set())


def _show_and_leave(publisher, place, count):
    """Shows this many views whose pages say hello and goodbye, and waits until the publisher is at rest."""
    for number in range(count):
        earlier = publisher.outputs()
        if number % 3 == 2:
            widgets.show(Job(place, place.jobs["quiet"].id))
        else:
            widgets.show_dashboard(subject(place, KINDS[number % 3]))
        # The newest is not always the last: those that have used up the budget move to the back.
        (shown,) = [output for output in publisher.outputs() if output not in earlier]
        say(shown, kind="ready")
        say(shown, kind="bye")
    assert publisher.wait_for(lambda: len(publisher.outputs()) <= 32, PATIENCE_S)
    is_idle = threading.Event()
    publisher.run_in_background(is_idle.set)
    assert is_idle.wait(PATIENCE_S)


def _memory():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
