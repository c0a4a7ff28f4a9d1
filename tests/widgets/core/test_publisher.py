"""The publisher with real handles of jobs over scripted backends: turns, budgets, pages that ask."""

import threading

import pytest

from batchai_magics import widgets
from batchai_magics.errors import UsageError
from batchai_magics.follow import Follower
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.widgets.job.job_output import JobCardOutput
from batchai_magics.widgets.job.job_view import follow_job
from tests.patience import PATIENCE_S
from tests.threads import join_all
from tests.widgets.core.recorded_page import live, say, turns
from tests.widgets.scripted_job import JOB, ExecutionState


def test_nothing_is_sent_before_a_page_says_hello(publisher, backend, page, clock):
    output = live(publisher, backend, page, clock)
    backend.write("one\n")
    turns(publisher, clock, 3)
    assert page.messages == []
    say(output, kind="ready", have={"logs": {}})
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


def test_views_that_always_have_more_to_send_take_turns(publisher, backend, page, clock):
    views = [live(publisher, backend, page, clock) for _ in range(25)]
    heard = set()
    for view in views:
        view.widget.send = lambda content, buffers=None, id=view.id: heard.add(id)
        say(view, kind="ready", have={})
    for _ in range(80):
        backend.write("x" * 99 + "\n")
        turns(publisher, clock, 0.1)
    assert heard == {view.id for view in views}


def test_a_page_can_read_any_bytes_and_cancel(publisher, backend, page, clock):
    backend.write("0123456789")
    output = live(publisher, backend, page, clock)
    say(output, kind="ready", have={})
    say(output, kind="read", id="a", file="stdout.txt", offset=3, limit=4)
    say(output, kind="read", id="b", file="stdout.txt", offset=-2, limit=100)
    say(output, kind="cancel", id="c")
    turns(publisher, clock, 1)
    replies = {content["id"]: (content, buffers) for content, buffers in page.messages if "id" in content}
    assert replies["a"][1] == [b"3456"]
    assert (replies["b"][0]["offset"], replies["b"][1]) == (8, [b"89"])
    assert backend.job.state is ExecutionState.FAILED
    assert output.view.state["facts"]["state"] == "cancelled"


def test_republished_outputs_spend_the_budget(publisher, backend, page, clock, budget):
    output = live(publisher, backend, page, clock)
    backend.finish()
    turns(publisher, clock, 3)
    say(output, kind="ready", have={})
    clock.now += 2
    before = budget.left_bytes
    publisher.step()
    card = sum(map(len, page.shown[output.id].values()))
    assert before - budget.left_bytes >= card > 1000


def test_idle_views_do_not_use_the_budget(publisher, backend, page, clock):
    backend.write("one\n")
    backend.finish()
    for _ in range(3):
        live(publisher, backend, page, clock)
    turns(publisher, clock, 2)
    assert publisher.outputs() == []
    late = live(publisher, backend, page, clock)
    say(late, kind="ready", have={})
    turns(publisher, clock, 1)
    assert [buffers for content, buffers in page.messages if content["kind"] == "batch"] == [[b"one\n"]]


def test_the_html_card_is_refreshed_and_stays(publisher, backend, page, clock):
    model = publisher.model(JOB.key, lambda: JobModel(Follower(backend, JOB)))
    publisher.step()
    output = JobCardOutput(Job(backend, JOB), model, clock=clock)
    output.open()
    publisher.add(output)
    backend.write("hello\n")
    turns(publisher, clock, 3)
    assert "hello" in page.shown[output.id]["text/html"]
    backend.finish()
    turns(publisher, clock, 2)
    assert "succeeded" in page.shown[output.id]["text/plain"]


def test_ui_text_shows_the_log_as_text(backend, page):
    backend.write("hello\n")
    widgets.show(Job(backend, JOB), ui="text")
    assert "hello" in page.shown[""]["text/plain"]


def test_unknown_ui_is_refused(backend):
    with pytest.raises(UsageError, match="Did you mean"):
        widgets.show(Job(backend, JOB), ui="widgt")


def test_a_view_that_comes_just_as_the_last_one_is_frozen_is_kept_up_to_date(publisher, backend, page, clock):
    live(publisher, backend, page, clock).freeze()
    output = live(publisher, backend, page, clock)  # the publisher takes a step before it is added
    say(output, kind="ready", have={"logs": {}})
    backend.write("news\n")
    turns(publisher, clock, 3)
    assert b"news\n" in b"".join(part for _, buffers in page.messages for part in buffers or ())


def test_a_view_that_is_slow_to_open_keeps_no_other_waiting(publisher, backend):
    begun, end, stepped = threading.Event(), threading.Event(), threading.Event()

    def open_slowly():
        begun.set()
        end.wait()
        return follow_job(Job(backend, JOB))

    def step():
        publisher.step()
        stepped.set()

    threads = [
        threading.Thread(target=publisher.model, args=("slow", open_slowly)),
        threading.Thread(target=step),
    ]
    threads[0].start()
    try:
        assert begun.wait(PATIENCE_S)
        threads[1].start()
        assert stepped.wait(PATIENCE_S)
    finally:
        end.set()
        assert not join_all(threads)
