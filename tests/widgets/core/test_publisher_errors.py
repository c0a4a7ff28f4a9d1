"""What goes wrong with one view leaves the others alone, and closing leaves nothing."""

from batchai_magics import widgets
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.widgets.core.publisher import Publisher
from batchai_magics.widgets.job.job_output import JobCardOutput
from tests.patience import PATIENCE_S
from tests.threads import join_all, package_threads
from tests.widgets.core.recorded_page import live, say, turns
from tests.widgets.core.test_model_poller import Scripted
from tests.widgets.scripted_job import JOB


def test_a_view_that_cannot_be_drawn_does_not_end_the_others(publisher, backend, page, clock):
    broken, whole = (live(publisher, backend, page, clock) for _ in range(2))
    broken.send_next = lambda limit: 1 / 0
    say(whole, kind="ready", have={})
    turns(publisher, clock, 1)
    assert page.messages
    assert publisher.outputs() == [whole]


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


def test_event_that_fails_one_model_does_not_end_the_others(publisher, backend, page, clock):
    source = Scripted()
    broken = publisher.model("broken", lambda: JobModel(source))
    broken.take = lambda event: 1 / 0
    whole = live(publisher, backend, page, clock)
    source.news = ["news"]
    say(whole, kind="ready", have={})
    turns(publisher, clock, 1)
    assert page.messages
    assert (broken.is_over, broken.problem) == (True, "The live view stopped: division by zero")


def test_closing_leaves_no_thread_and_no_model(backend, page):
    before = package_threads()
    widgets.show(Job(backend, JOB))
    started = package_threads() - before
    assert len(started) == 2
    widgets.close_all()
    assert not join_all(started)
    assert not package_threads() - before


def test_a_publisher_that_is_closed_in_the_middle_of_a_round_ends(backend, page):
    before = package_threads()
    publisher = Publisher().start()
    output = JobCardOutput(Job(backend, JOB), JobModel())
    output.send_next = lambda limit: publisher.close() or 0
    output.open()
    publisher.add(output)
    assert not join_all(package_threads() - before)


def test_freeze_ended_freezes_in_the_calling_thread(backend, page):
    widgets.show(Job(backend, JOB))
    backend.finish()
    widgets.freeze_ended(timeout_s=PATIENCE_S)
    assert all("application/vnd.jupyter.widget-view+json" not in data for data in page.shown.values())
    widgets.close_all()
