"""The publisher with real jobs handles over scripted backends; what reaches the page is recorded."""

import pytest

from batchai_magics import widgets
from batchai_magics.errors import BatchAIError, NotFoundError, UnreachableError, UsageError
from batchai_magics.follow import Follower, StateChanged
from batchai_magics.jobs.handle import Job
from batchai_magics.widgets.core import display, pages
from batchai_magics.widgets.core.budget import Budget
from batchai_magics.widgets.core.display import HELLO_S
from batchai_magics.widgets.core.feed import Watch
from batchai_magics.widgets.core.publisher import FROZEN_KEPT, Publisher
from batchai_magics.widgets.job.feed import JobFeed
from batchai_magics.widgets.job.showing import JobCard, LiveJob
from tests.threads import ended, ours
from tests.widgets.scripted import FAILURE, JOB, ExecutionState, ScriptedBackend, resource, step_line


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Page:
    """What the page has been given: displays by id, and custom messages."""

    def __init__(self, monkeypatch):
        self.shown = {}
        self.updates = 0
        self.messages = []
        monkeypatch.setattr(display, "show", self.show)
        monkeypatch.setattr(display, "update", self.update)
        monkeypatch.setattr(pages, "script", lambda: "export default {}")
        monkeypatch.setattr(pages, "style", lambda: "")

    def show(self, data, display_id):
        self.shown[display_id] = dict(data)

    def update(self, data, display_id):
        assert display_id in self.shown
        self.updates += 1
        self.shown[display_id] = dict(data)

    def listen(self, view):
        view.send = lambda content, buffers=None: self.messages.append((content, buffers))


@pytest.fixture
def page(monkeypatch):
    return Page(monkeypatch)


@pytest.fixture
def backend(tmp_path):
    return ScriptedBackend(tmp_path)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def budget(clock):
    return Budget(clock)


@pytest.fixture
def publisher(clock, budget):
    return Publisher(clock=clock, budget=budget)


def live(publisher, backend, page, clock):
    job = Job(backend, JOB)
    feed = publisher.feed(JOB.key, lambda: (Follower(backend, JOB), JobFeed(processes=4)))
    showing = LiveJob(job, feed, work=lambda task: task(), clock=clock)
    page.listen(showing.view)
    publisher.step()
    showing.open()
    publisher.add(showing)
    return showing


def asking_page(monkeypatch):
    """A page that has asked for the cell, whatever the view's bundle is."""
    made = Page(monkeypatch)
    monkeypatch.setattr(pages, "script", lambda *name: "export default {}")
    monkeypatch.setattr(pages, "style", lambda *name: "")
    monkeypatch.setattr(display, "is_asked_by_page", lambda: True)
    return made


def turns(publisher, clock, seconds):
    for _ in range(int(seconds * 10)):
        clock.now += 0.1
        publisher.step()


def say(showing, **content):
    showing.view._handle_custom_msg(content, [])


class Scripted:
    """A source that tells what it is given, and how often it was asked."""

    noun = "job"

    def __init__(self):
        self.asked, self.news = 0, []
        self.is_over = self.is_behind = False

    def poll(self):
        self.asked += 1
        news, self.news = self.news, []
        return news


def asked_within(source, watch, times):
    source.asked = 0
    for now in times:
        watch.poll(now)
    return source.asked


def test_what_tells_nothing_is_asked_ever_less_often_until_there_is_news():
    source = Scripted()
    watch = Watch(source, JobFeed(), longest_s=2.0)
    assert asked_within(source, watch, [i / 10 for i in range(200)]) < 30
    quiet = asked_within(source, watch, [20 + i / 10 for i in range(20)])
    assert quiet == 1
    source.news = [StateChanged(resource())]
    while source.news:
        watch.poll(30.0)
    assert asked_within(source, watch, [30 + i / 10 for i in range(1, 5)]) >= 2


def test_what_is_behind_is_asked_at_once():
    source = Scripted()
    source.is_behind = True
    watch = Watch(source, JobFeed())
    assert asked_within(source, watch, [1.0, 1.0, 1.0]) == 3


def test_what_is_over_is_not_asked_any_more():
    source = Scripted()
    source.is_over = True
    watch = Watch(source, JobFeed())
    assert asked_within(source, watch, [1.0, 9.0, 99.0]) == 1
    assert watch.feed.is_over


def test_a_trouble_that_has_passed_is_taken_back():
    source = Scripted()
    watch = Watch(source, JobFeed())
    source.poll = lambda: (_ for _ in ()).throw(BatchAIError("no disk"))
    watch.poll(1.0)
    assert watch.feed.problem == "no disk"
    source.poll = list
    watch.poll(9.0)
    assert watch.feed.problem == ""


def test_a_server_that_does_not_answer_is_asked_ever_more_rarely_and_the_view_says_so():
    source = Scripted()

    def poll():
        source.asked += 1
        raise UnreachableError("nobody listens there", code="EndpointUnreachable")

    watch = Watch(source, JobFeed())
    source.poll = poll
    asked_within(source, watch, [i / 10 for i in range(300)])
    assert asked_within(source, watch, [30 + i / 10 for i in range(100)]) == 2
    assert watch.feed.problem == "nobody listens there. Trying again; nothing is lost."
    source.poll = lambda: Scripted.poll(source)
    assert asked_within(source, watch, [50 + i / 10 for i in range(50)]) > 5
    assert watch.feed.problem == ""


def test_a_thing_that_no_view_shows_yet_is_watched_all_the_same(publisher, clock):
    source = Scripted()
    publisher.feed("job", lambda: (source, JobFeed()))
    turns(publisher, clock, 1)
    assert source.asked > 1


def test_only_the_newest_of_many_ended_views_can_come_back(publisher, backend, page, clock):
    backend.finish()
    views = [live(publisher, backend, page, clock) for _ in range(FROZEN_KEPT + 2)]
    turns(publisher, clock, 10)
    assert [view.is_closed for view in views] == [True, True] + [False] * FROZEN_KEPT
    page.updates = 0
    say(views[-1], kind="ready", have={})
    publisher.step()
    assert page.updates == 2


def test_a_frozen_view_that_is_closed_is_forgotten(publisher, backend, page, clock):
    backend.finish()
    first, second = (live(publisher, backend, page, clock) for _ in range(2))
    turns(publisher, clock, 3)
    first.close()
    publisher.step()
    assert publisher._frozen == [second]


def test_nothing_is_sent_before_a_page_says_hello(publisher, backend, page, clock):
    showing = live(publisher, backend, page, clock)
    backend.write("one\n")
    turns(publisher, clock, 3)
    assert page.messages == []
    say(showing, kind="ready", have={"points": 0, "logs": {}})
    turns(publisher, clock, 1)
    assert [buffers for _, buffers in page.messages] == [[b"one\n"]]


def test_ten_views_of_a_job_ask_for_it_once_and_share_one_budget(publisher, backend, page, clock):
    asked = []
    backend.show = lambda id, show=backend.show: asked.append(id) or show(id)
    views = [live(publisher, backend, page, clock) for _ in range(10)]
    for view in views:
        say(view, kind="ready", have={})
    asked.clear()
    page.messages.clear()
    for _ in range(100):
        backend.write("x" * 99 + "\n")
        clock.now += 0.1
        publisher.step()
    assert sum(id == JOB for id in asked) <= 100
    assert 50 <= len(page.messages) <= 110


def test_every_view_gets_its_turn(publisher, backend, page, clock):
    views = [live(publisher, backend, page, clock) for _ in range(25)]
    for view in views:
        say(view, kind="ready", have={})
    turns(publisher, clock, 6)
    assert all(view.view._cursor.seq > 0 for view in views)


def test_views_that_always_have_more_to_send_take_turns(publisher, backend, page, clock):
    views = [live(publisher, backend, page, clock) for _ in range(25)]
    for view in views:
        say(view, kind="ready", have={})
    for _ in range(80):
        backend.write("x" * 99 + "\n")
        turns(publisher, clock, 0.1)
    assert all(view.view._cursor.seq > 0 for view in views)


def test_a_page_can_read_any_bytes_and_cancel(publisher, backend, page, clock):
    backend.write("0123456789")
    showing = live(publisher, backend, page, clock)
    say(showing, kind="ready", have={})
    say(showing, kind="read", id="a", file="stdout.txt", offset=3, limit=4)
    say(showing, kind="read", id="b", file="stdout.txt", offset=-2, limit=100)
    say(showing, kind="cancel", id="c")
    turns(publisher, clock, 1)
    replies = {content["id"]: (content, buffers) for content, buffers in page.messages if "id" in content}
    assert replies["a"][1] == [b"3456"]
    assert (replies["b"][0]["offset"], replies["b"][1]) == (8, [b"89"])
    assert backend.job.state is ExecutionState.FAILED
    assert showing.view.facts["state"] == "cancelled"


def test_an_ended_job_without_a_page_is_frozen_without_widget_view(publisher, backend, page, clock):
    showing = live(publisher, backend, page, clock)
    backend.write("".join(step_line(step, rank) for step in range(10) for rank in range(4)))
    backend.write("<script>alert(1)</script>\n")
    backend.finish(ExecutionState.FAILED, **FAILURE)
    turns(publisher, clock, 2)
    card, chart = page.shown[showing.id], page.shown[showing.second_id]
    assert set(card) == {"text/html", "text/plain"}
    assert set(chart) == {"image/png", "text/plain"}
    assert "<script" not in card["text/html"]
    assert "rank 2 on node-1 failed first" in card["text/plain"]
    assert sum(map(len, [*card.values(), *chart.values()])) < 200_000
    assert publisher.showings() == []


def test_a_page_that_missed_the_end_gets_it_when_it_comes_back(publisher, backend, page, clock):
    showing = live(publisher, backend, page, clock)
    backend.finish()
    turns(publisher, clock, 2)
    page.updates = 0
    turns(publisher, clock, 2)
    assert page.updates == 0
    say(showing, kind="ready", have={})
    turns(publisher, clock, 2)
    assert page.updates == 2


def test_a_view_that_is_used_when_its_job_ends_leaves_the_notebook_the_last_picture(
    publisher, backend, page, clock
):
    showing = live(publisher, backend, page, clock)
    say(showing, kind="ready", have={})
    say(showing, kind="hold", on=True)
    turns(publisher, clock, 1)
    assert "[running]" in page.shown[showing.second_id]["text/plain"]
    backend.write("the last line\n")
    backend.finish()
    turns(publisher, clock, 3)
    assert not showing.is_frozen
    picture = page.shown[showing.second_id]["text/plain"]
    assert "[succeeded]" in picture
    assert "the last line" in picture
    page.updates = 0
    turns(publisher, clock, 60)
    assert page.updates == 0


def test_what_is_published_again_counts_as_sent(publisher, backend, page, clock, budget):
    showing = live(publisher, backend, page, clock)
    backend.finish()
    turns(publisher, clock, 3)
    say(showing, kind="ready", have={})
    clock.now += 2
    before = budget.left_bytes
    publisher.step()
    card = sum(map(len, page.shown[showing.id].values()))
    assert before - budget.left_bytes >= card > 1000


def test_a_deleted_job_ends_its_view_and_says_so(publisher, backend, page, clock):
    showing = live(publisher, backend, page, clock)

    def show(id):
        raise NotFoundError("gone", code="JobNotFound")

    backend.show = show
    turns(publisher, clock, 2)
    assert showing.is_frozen
    assert showing.feed.problem == "The job was deleted."


def test_a_detached_view_becomes_a_card_and_the_job_runs_on(publisher, backend, page, clock):
    showing = live(publisher, backend, page, clock)
    say(showing, kind="ready", have={})
    say(showing, kind="detach", id="d")
    turns(publisher, clock, 1)
    assert set(page.shown[showing.id]) == {"text/html", "text/plain"}
    assert backend.job.state is ExecutionState.RUNNING


def test_views_at_rest_leave_the_budget_to_the_others(publisher, backend, page, clock):
    backend.write("one\n")
    backend.finish()
    for _ in range(3):
        live(publisher, backend, page, clock)
    turns(publisher, clock, 2)
    assert publisher.showings() == []
    late = live(publisher, backend, page, clock)
    say(late, kind="ready", have={})
    turns(publisher, clock, 1)
    assert [buffers for content, buffers in page.messages if content["kind"] == "batch"] == [[b"one\n"]]


def test_a_page_that_asked_gets_time_to_say_hello(publisher, backend, page, clock, monkeypatch):
    monkeypatch.setattr(display, "is_asked_by_page", lambda: True)
    showing = live(publisher, backend, page, clock)
    backend.finish()
    turns(publisher, clock, HELLO_S - 1)
    assert not showing.is_frozen
    turns(publisher, clock, 3)
    assert showing.is_frozen


def test_a_page_that_keeps_the_view_of_an_ended_job_is_still_answered(publisher, backend, page, clock):
    backend.write("0123456789")
    showing = live(publisher, backend, page, clock)
    say(showing, kind="ready", have={})
    backend.finish()
    turns(publisher, clock, 4)
    assert showing.is_frozen
    assert page.messages[-1][0] == {"kind": "keep"}
    assert f'data-batchai-snapshot="{showing.id}"' in page.shown[showing.id]["text/html"]
    say(showing, kind="read", id="a", file="stdout.txt", offset=3, limit=4)
    turns(publisher, clock, 1)
    assert page.messages[-1][1] == [b"3456"]
    say(showing, kind="bye")
    turns(publisher, clock, 1)
    assert showing.is_closed


def test_a_view_that_cannot_be_drawn_does_not_end_the_others(publisher, backend, page, clock):
    broken, whole = (live(publisher, backend, page, clock) for _ in range(2))
    broken.send_next = lambda limit: 1 / 0
    say(whole, kind="ready", have={})
    turns(publisher, clock, 1)
    assert page.messages
    assert publisher.showings() == [whole]


def test_a_view_that_cannot_be_published_again_does_not_end_the_others(publisher, backend, page, clock):
    broken, whole = (live(publisher, backend, page, clock) for _ in range(2))
    backend.finish()
    turns(publisher, clock, 3)
    say(whole, kind="ready", have={})
    clock.now += 2
    broken.republish = lambda: 1 / 0
    before = page.updates
    publisher.step()
    assert page.updates > before
    assert (broken.is_closed, whole.is_closed) == (True, False)


def test_a_view_that_cannot_be_closed_does_not_end_the_others(publisher, backend, page, clock):
    broken, whole = (live(publisher, backend, page, clock) for _ in range(2))
    broken.republish = broken.close = lambda: 1 / 0
    backend.finish()
    turns(publisher, clock, 3)
    assert broken.is_closed
    assert not whole.is_closed


def test_news_that_cannot_be_taken_do_not_end_the_others(publisher, backend, page, clock):
    source = Scripted()
    broken = publisher.feed("broken", lambda: (source, JobFeed()))
    broken.take = lambda event: 1 / 0
    whole = live(publisher, backend, page, clock)
    source.news = ["news"]
    say(whole, kind="ready", have={})
    turns(publisher, clock, 1)
    assert page.messages
    assert (broken.is_over, broken.problem) == (True, "The live view stopped: division by zero")


def test_the_html_card_is_refreshed_and_stays(publisher, backend, page, clock):
    feed = publisher.feed(JOB.key, lambda: (Follower(backend, JOB), JobFeed()))
    publisher.step()
    showing = JobCard(Job(backend, JOB), feed, clock=clock)
    showing.open()
    publisher.add(showing)
    backend.write("hello\n")
    turns(publisher, clock, 3)
    assert "hello" in page.shown[showing.id]["text/html"]
    backend.finish()
    turns(publisher, clock, 2)
    assert "succeeded" in page.shown[showing.id]["text/plain"]


def test_closing_leaves_no_thread_and_no_model(backend, page, monkeypatch):
    monkeypatch.setattr(display, "has_frontend", lambda: True)
    before = ours()
    widgets.show(Job(backend, JOB))
    started = ours() - before
    assert len(started) == 2
    widgets.close_all()
    assert not ended(started)
    assert not ours() - before


def test_a_publisher_that_is_closed_in_the_middle_of_a_round_ends(backend, page):
    before = ours()
    publisher = Publisher().start()
    showing = JobCard(Job(backend, JOB), JobFeed())
    showing.send_next = lambda limit: publisher.close() or 0
    showing.open()
    publisher.add(showing)
    assert not ended(ours() - before)


def test_settling_freezes_in_the_calling_thread(backend, page, monkeypatch):
    monkeypatch.setattr(display, "has_frontend", lambda: True)
    widgets.show(Job(backend, JOB))
    backend.finish()
    widgets.settle()
    assert all("application/vnd.jupyter.widget-view+json" not in data for data in page.shown.values())
    widgets.close_all()


def test_where_nothing_but_text_can_be_shown_text_is_shown(backend, page):
    backend.write("hello\n")
    widgets.show(Job(backend, JOB), ui="text")
    assert "hello" in page.shown[""]["text/plain"]


def test_an_unknown_way_to_show_is_refused(backend):
    with pytest.raises(UsageError, match="did you mean"):
        widgets.show(Job(backend, JOB), ui="widgt")
