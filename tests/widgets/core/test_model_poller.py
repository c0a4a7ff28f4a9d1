"""How often a source is asked."""

from batchai_magics.errors import BatchAIError, UnreachableError
from batchai_magics.follow import StateChanged
from batchai_magics.widgets.core.polled_model import ModelPoller
from batchai_magics.widgets.job.job_stream import FollowedJob
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


def test_what_tells_nothing_is_asked_ever_less_often_until_there_is_news():
    source = Scripted()
    model = FollowedJob(source)
    model.max_interval_s = 2.0
    poller = ModelPoller(model)
    assert asked_within(source, poller, [i / 10 for i in range(200)]) < 30
    quiet = asked_within(source, poller, [20 + i / 10 for i in range(20)])
    assert quiet == 1
    source.news = [StateChanged(resource())]
    while source.news:
        poller.poll(30.0)
    assert asked_within(source, poller, [30 + i / 10 for i in range(1, 5)]) >= 2


def test_what_is_behind_is_asked_at_once():
    source = Scripted()
    source.is_behind = True
    poller = ModelPoller(FollowedJob(source))
    assert asked_within(source, poller, [1.0, 1.0, 1.0]) == 3


def test_what_is_over_is_not_asked_any_more():
    source = Scripted()
    source.is_over = True
    poller = ModelPoller(FollowedJob(source))
    assert asked_within(source, poller, [1.0, 9.0, 99.0]) == 1
    assert poller.model.is_over


def test_a_trouble_that_has_passed_is_taken_back():
    source = Scripted()
    poller = ModelPoller(FollowedJob(source))
    source.poll = lambda: (_ for _ in ()).throw(BatchAIError("no disk"))
    poller.poll(1.0)
    assert poller.model.problem == "no disk"
    source.poll = list
    poller.poll(9.0)
    assert poller.model.problem == ""


def test_a_server_that_does_not_answer_is_asked_ever_more_rarely_and_the_view_says_so():
    source = Scripted()

    def poll():
        source.asked += 1
        raise UnreachableError("nothing is listening there", code="EndpointUnreachable")

    poller = ModelPoller(FollowedJob(source))
    source.poll = poll
    asked_within(source, poller, [i / 10 for i in range(300)])
    assert asked_within(source, poller, [30 + i / 10 for i in range(100)]) == 2
    assert poller.model.problem == "nothing is listening there. Trying again; nothing is lost."
    source.poll = lambda: Scripted.poll(source)
    assert asked_within(source, poller, [50 + i / 10 for i in range(50)]) > 5
    assert poller.model.problem == ""


def test_a_thing_that_no_view_shows_yet_is_watched_all_the_same(publisher, clock):
    source = Scripted()
    publisher.model("job", lambda: FollowedJob(source))
    turns(publisher, clock, 1)
    assert source.asked > 1
