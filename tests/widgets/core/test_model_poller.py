"""How often a model is polled, and what it reports when that fails."""

import pytest

from batchai_magics.errors import BatchAIError, UnreachableError
from batchai_magics.follow import StateChanged
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.widgets.core.view_stream import ModelPoller
from tests.widgets.core.recorded_page import turns
from tests.widgets.scripted_job import resource


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


def asked_within(source, poller, times):
    source.asked = 0
    for now in times:
        poller.poll(now)
    return source.asked


def test_polls_back_off_until_something_changes():
    source = Scripted()
    model = JobModel(source)
    model.max_interval_s = 2.0
    poller = ModelPoller(model)
    assert asked_within(source, poller, [i / 10 for i in range(200)]) < 30
    quiet = asked_within(source, poller, [20 + i / 10 for i in range(20)])
    assert quiet == 1
    source.news = [StateChanged(resource())]
    while source.news:
        poller.poll(30.0)
    assert asked_within(source, poller, [30 + i / 10 for i in range(1, 5)]) >= 2


@pytest.mark.parametrize(("cost_s", "count"), [(0.001, 100), (0.04, 25), (3.0, 20)])
def test_expensive_polls_are_less_frequent(cost_s, count):
    source, spent_s = Scripted(), [0.0]

    def poll():
        spent_s[0] += cost_s
        source.asked += 1
        return [StateChanged(resource())]

    source.poll = poll
    poller = ModelPoller(JobModel(source), cpu_time=lambda: spent_s[0])
    assert asked_within(source, poller, [i / 10 + 0.001 * i for i in range(100)]) == count


def test_model_that_is_behind_is_polled_again_immediately():
    source = Scripted()
    source.is_behind = True
    poller = ModelPoller(JobModel(source))
    assert asked_within(source, poller, [1.0, 1.0, 1.0]) == 3


def test_ended_model_is_not_polled():
    source = Scripted()
    source.is_over = True
    poller = ModelPoller(JobModel(source))
    assert asked_within(source, poller, [1.0, 9.0, 99.0]) == 1
    assert poller.model.is_over


def test_problem_is_cleared_by_the_next_successful_poll():
    source = Scripted()
    poller = ModelPoller(JobModel(source))
    source.poll = lambda: (_ for _ in ()).throw(BatchAIError("no disk"))
    poller.poll(1.0)
    assert poller.model.problem == "no disk"
    source.poll = list
    poller.poll(9.0)
    assert poller.model.problem == ""


def test_polls_of_an_unreachable_server_back_off_and_the_view_says_so():
    source = Scripted()

    def poll():
        source.asked += 1
        raise UnreachableError("nothing is listening there", code="EndpointUnreachable")

    poller = ModelPoller(JobModel(source))
    source.poll = poll
    asked_within(source, poller, [i / 10 for i in range(300)])
    assert asked_within(source, poller, [30 + i / 10 for i in range(100)]) == 2
    assert poller.model.problem == "nothing is listening there. Trying again; nothing is lost."
    source.poll = lambda: Scripted.poll(source)
    assert asked_within(source, poller, [50 + i / 10 for i in range(50)]) > 5
    assert poller.model.problem == ""


def test_model_without_an_output_yet_is_polled(publisher, clock):
    source = Scripted()
    publisher.model("job", lambda: JobModel(source))
    turns(publisher, clock, 1)
    assert source.asked > 1
