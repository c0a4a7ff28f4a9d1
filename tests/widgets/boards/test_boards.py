"""The views of clusters and of lists of jobs over the publisher; what reaches the page is recorded."""

import gc
import tracemalloc

import pytest
from ipywidgets.widgets.widget import _instances

from batchai_magics import widgets
from batchai_magics.backends.base import Capabilities, Pace, Watcher
from batchai_magics.jobs.handle import Job
from batchai_magics.widgets.boards import showing as boards
from batchai_magics.widgets.boards.board import LiveBoard
from batchai_magics.widgets.boards.cluster_feed import NODES_S, ClusterSource
from batchai_magics.widgets.boards.jobs_feed import JobsFeed, JobsSource
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.budget import Budget
from batchai_magics.widgets.core.display import HELLO_S
from batchai_magics.widgets.core.publisher import Publisher
from tests.patience import PATIENCE_S
from tests.threads import ended, ours
from tests.widgets.core.test_publisher import Clock, asking_page, turns
from tests.widgets.place import CLUSTER, EXPERIMENT, JOB, ExecutionState, NodeState, Place
from tests.widgets.scripted import step_line

WIDGET = "application/vnd.jupyter.widget-view+json"
KINDS = ("cluster", "jobs")


@pytest.fixture
def page(monkeypatch):
    return asking_page(monkeypatch)


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.run("resnet", rates=[100, 200, 300])
    made.run("old", ExecutionState.FAILED, exit_code=1, rates=[50, 60])
    return made


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def publisher(clock):
    return Publisher(clock=clock, budget=Budget(clock))


def cluster_source(place, clock):
    return ClusterSource(place, CLUSTER, clock=clock)


def jobs_source(place, clock):
    return JobsSource(place, EXPERIMENT, clock=clock)


def subject(place, kind):
    return place.cluster_subject if kind == "cluster" else place.jobs_subject


def opened(publisher, place, page, kind, *, ui="auto"):
    """A board of this kind, and what it sends is recorded."""
    publisher.do = lambda task: task()
    boards.show(subject(place, kind), publisher, lambda job: f"model of {job.name}", ui=ui)
    shown = publisher.showings()[-1]
    if isinstance(shown, LiveBoard):
        page.listen(shown.view)
    return shown


def say(shown, **content):
    shown.view._handle_custom_msg(content, [])


def sent(page, kind):
    return [content for content, _ in page.messages if content["kind"] == kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_live_view_comes_with_a_snapshot_for_the_saved_notebook(publisher, place, page, kind):
    shown = opened(publisher, place, page, kind)
    assert WIDGET in page.shown[shown.id]
    snapshot = page.shown[shown.second_id]
    assert "resnet" in snapshot["text/plain"]
    assert f'data-batchai-snapshot="{shown.id}"' in snapshot["text/html"]


@pytest.mark.parametrize("kind", KINDS)
def test_as_html_a_picture_is_refreshed(publisher, clock, place, page, kind):
    shown = opened(publisher, place, page, kind, ui="html")
    assert set(page.shown[shown.id]) == {"text/html", "text/plain"}
    place.run("another")
    place.states.append(NodeState.LEAVING)
    turns(publisher, clock, 8)
    assert ("another" if kind == "jobs" else "leaving") in page.shown[shown.id]["text/plain"]


@pytest.mark.parametrize("kind", KINDS)
def test_as_text_it_is_text_and_nothing_is_left_running(place, page, kind):
    widgets.show_board(subject(place, kind), ui="text")
    assert set(page.shown[""]) == {"text/plain"}
    assert "resnet" in page.shown[""]["text/plain"]


def test_where_no_page_can_be_text_is_shown(place, page):
    widgets.show_board(place.jobs_subject)
    assert set(page.shown[""]) == {"text/plain"}


def test_only_the_newest_of_two_pictures_of_one_thing_is_refreshed(publisher, place, page):
    older = opened(publisher, place, page, "cluster", ui="html")
    newer = opened(publisher, place, page, "cluster", ui="html")
    assert (older.is_closed, newer.is_closed) == (True, False)


@pytest.mark.parametrize("kind", KINDS)
def test_ten_views_look_once_and_less_often_while_nothing_happens(publisher, clock, place, page, kind):
    place.jobs.clear()
    for _ in range(10):
        say(opened(publisher, place, page, kind), kind="ready")
    turns(publisher, clock, 30)
    place.looks = 0
    turns(publisher, clock, 20)
    assert place.looks <= (11 if kind == "cluster" else 6)


def test_a_page_that_falls_silent_costs_nothing_until_it_speaks_again(publisher, clock, place, page):
    shown = opened(publisher, place, page, "cluster")
    say(shown, kind="ready")
    turns(publisher, clock, 80)
    place.looks = 0
    turns(publisher, clock, 30)
    assert place.looks == 0
    say(shown, kind="alive")
    turns(publisher, clock, 3)
    assert place.looks > 0


def test_the_page_is_told_images_per_sec_once_and_again_when_they_grow(publisher, clock, place, page):
    say(opened(publisher, place, page, "jobs"), kind="ready")
    turns(publisher, clock, 2)
    assert sent(page, "rates")[0]["rates"] == {"old": [50.0, 60.0], "resnet": [100.0, 200.0, 300.0]}
    count = len(sent(page, "rates"))
    turns(publisher, clock, 10)
    assert len(sent(page, "rates")) == count
    place.tell("resnet", step_line(40, 0, 200) + step_line(40, 1, 200))
    turns(publisher, clock, 5)
    assert sent(page, "rates")[-1]["rates"] == {"resnet": [100.0, 200.0, 300.0, 400.0]}


def test_the_page_changes_the_size_and_hears_what_was_wrong(publisher, clock, place, page):
    shown = opened(publisher, place, page, "cluster")
    say(shown, kind="ready")
    say(shown, kind="scale", id="a", settings={"manual": {"targetNodeCount": 7}})
    say(shown, kind="scale", id="b", settings={"manual": {"targetNodeCount": -1}})
    say(shown, kind="scale", id="c", settings={"manual": {"targetNodeCount": 101}})
    turns(publisher, clock, 3)
    answers = {answer["id"]: answer for answer in sent(page, "answer")}
    assert [answers[id]["done"] for id in "abc"] == [True, False, False]
    assert "quota" in answers["c"]["text"]
    assert [patch["manual"]["targetNodeCount"] for patch in place.patches] == [7]
    assert shown.view.facts["target"] == 7


def test_the_page_opens_a_job_that_is_there(publisher, clock, place, page):
    shown = opened(publisher, place, page, "jobs")
    say(shown, kind="ready")
    say(shown, kind="open", id="a", name="resnet")
    say(shown, kind="open", id="b", name="gone")
    turns(publisher, clock, 2)
    answers = {answer["id"]: answer for answer in sent(page, "answer")}
    assert answers["a"]["model"] == "model of resnet"
    assert not answers["b"]["done"]


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_page_a_view_is_still_after_a_while_and_live_again_when_one_comes(
    publisher, clock, place, page, kind
):
    shown = opened(publisher, place, page, kind)
    for _ in range(3):  # cells that end while the page is still busy
        shown.settle(lambda is_met: True)
    assert WIDGET in page.shown[shown.id]
    turns(publisher, clock, int(HELLO_S))
    shown.settle(lambda is_met: True)
    turns(publisher, clock, 1)
    assert set(page.shown[shown.id]) == {"text/html", "text/plain"}
    say(shown, kind="ready")
    turns(publisher, clock, 1)
    assert WIDGET in page.shown[shown.id]
    assert publisher.showings() == [shown]


def test_a_view_where_nothing_happens_for_long_becomes_a_picture(publisher, clock, place, page):
    place.states = [NodeState.IDLE] * 4
    shown = opened(publisher, place, page, "cluster")
    for _ in range(11):
        say(shown, kind="ready")
        turns(publisher, clock, 60)
    assert set(page.shown[shown.id]) == {"text/html", "text/plain"}


def test_a_view_that_is_to_be_a_widget_stays_one(publisher, clock, place, page):
    place.states = [NodeState.IDLE] * 4
    shown = opened(publisher, place, page, "cluster", ui="widget")
    for _ in range(11):
        say(shown, kind="ready")
        turns(publisher, clock, 60)
    assert WIDGET in page.shown[shown.id]


def test_a_deleted_cluster_ends_its_view_and_says_so(publisher, clock, place, page):
    shown = opened(publisher, place, page, "cluster")
    place.jobs.clear()
    place.show = lambda id: place.job(JOB)
    turns(publisher, clock, 2)
    assert shown.is_frozen
    assert shown.feed.problem == "The cluster was deleted."


def test_a_long_list_shows_its_newest_jobs_and_how_many_there_are(tmp_path):
    place = Place(tmp_path)
    for number in range(260):
        place.run(f"job-{number}", ExecutionState.QUEUED)
    source, feed = JobsSource(place, EXPERIMENT), JobsFeed(EXPERIMENT)
    for event in source.poll():
        feed.take(event)
    assert feed.facts()["total"] == 260
    assert [row["name"] for row in feed.rows()][::199] == ["job-259", "job-60"]


@pytest.mark.parametrize("make", [cluster_source, jobs_source])
def test_a_board_asks_no_more_often_than_the_backend_wants(place, clock, make):
    place.capabilities = Capabilities(name="place", pace=Pace(look_s=10.0))
    source = make(place, clock)
    first, looks = source.poll(), place.looks
    place.run("another")
    place.states.append(NodeState.LEAVING)
    clock.now += 9.9
    assert (bool(first), source.poll(), place.looks) == (True, [], looks)
    clock.now += 0.2
    assert source.poll()


def test_a_board_of_a_cluster_shares_the_looks_of_those_who_follow_its_jobs(place, clock):
    place.capabilities = Capabilities(name="place", pace=Pace(look_s=10.0))
    source = cluster_source(place, clock)
    watcher = Watcher(place, [CLUSTER], clock=clock)
    watcher.look()
    looks = place.looks
    assert source.poll()
    assert place.looks == looks


def test_nodes_are_asked_for_when_the_cluster_has_changed_and_now_and_then(place, clock):
    asked = []
    place.nodes = lambda id: asked.append(id) or Place.nodes(place, id)
    source = cluster_source(place, clock)
    for _ in range(3):
        clock.now += 1
        source.poll()
    assert len(asked) == 1
    place.states.append(NodeState.LEAVING)
    clock.now += 1
    assert [len(seen.nodes) for seen in source.poll()] == [5]
    place.states[0], place.states[2] = place.states[2], place.states[0]  # the counts stay as they were
    clock.now += NODES_S
    assert source.poll()[0].nodes[0].state is NodeState.IDLE


@pytest.mark.slow
def test_two_hundred_views_leave_no_thread_no_model_and_no_memory(place, page, monkeypatch):
    monkeypatch.setattr(display, "has_frontend", lambda: True)
    for name in ("show", "update"):
        monkeypatch.setattr(display, name, lambda bundle, display_id: None)
    place.run("quiet")
    before_threads, models = ours(), len(_instances)
    for kind in KINDS:  # imports and caches are made
        widgets.show_board(subject(place, kind))
    widgets.show(Job(place, place.jobs["quiet"].id))
    tracemalloc.start()
    before = _memory()
    for number in range(200):
        if number % 3 == 2:
            widgets.show(Job(place, place.jobs["quiet"].id))
        else:
            widgets.show_board(subject(place, KINDS[number % 3]))
        shown = widgets._publisher().showings()[-1]
        say(shown, kind="ready")
        say(shown, kind="bye")
    publisher = widgets._publisher()
    assert publisher.wait_for(lambda: len(publisher.showings()) <= 32, PATIENCE_S)
    started = ours() - before_threads
    assert len(started) == 2
    assert len(_instances) - models <= 64
    widgets.close_all()
    assert not ended(started)
    assert _memory() - before < 2_000_000
    tracemalloc.stop()
    assert (ours() - before_threads, len(_instances)) == (set(), models)


def _memory():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_jobs_that_run_tell_how_far_they_are(place, clock):
    place.run("old", ExecutionState.SUCCEEDED)
    source, feed = jobs_source(place, clock), JobsFeed(EXPERIMENT)
    place.tell("old", "step 9/10\n")
    place.tell("resnet", "step 3/10\n")
    for event in source.poll():
        feed.take(event)
    assert {name: progress.words for name, progress in feed.progress.items()} == {"resnet": "step 3/10"}
    (place.folder / "resnet" / "stderr.txt").write_text("\r 40%|#  | 4/10 [00:01<00:02, 1it/s]")
    for event in source.poll():
        feed.take(event)
    assert feed.progress["resnet"].words == "4/10"
    assert "40 %, 4/10" in feed.bundle()["text/plain"]


def test_a_job_that_failed_tells_how_far_it_came_and_one_that_succeeded_is_not_asked(place, clock):
    source, feed = jobs_source(place, clock), JobsFeed(EXPERIMENT)
    place.run("old", ExecutionState.SUCCEEDED)
    place.run("broken", ExecutionState.FAILED, exit_code=1)
    for name in ("old", "broken"):
        (place.folder / name / "stderr.txt").write_text("\r 40%|#  | 4/10 [00:01<00:02, 1it/s]")
    for event in source.poll():
        feed.take(event)
    assert {name: progress.words for name, progress in feed.progress.items()} == {"broken": "4/10"}
    assert "failed at 4/10, 40 %" in feed.bundle()["text/plain"]
