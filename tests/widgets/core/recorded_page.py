"""A page that records what it is given, a clock that is set by hand, and turns of the publisher."""

from batchai_magics.follow import Follower
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.widgets.core import display, pages
from batchai_magics.widgets.job.job_output import LiveJobOutput
from tests.widgets.scripted_job import JOB


class Page:
    """What a page has been given: displays by id, and custom messages."""

    def __init__(self, monkeypatch, *, is_asking=False):
        self.is_asking, self.has_kernel = is_asking, True
        self.shown = {}
        self.updates = 0
        self.messages = []
        monkeypatch.setattr(display, "show", self.show)
        monkeypatch.setattr(display, "update", self.update)
        monkeypatch.setattr(display, "has_frontend", lambda: self.has_kernel)
        monkeypatch.setattr(display, "is_requested_by_page", lambda: self.is_asking)
        monkeypatch.setattr(pages, "script", lambda *name: "export default {}")
        monkeypatch.setattr(pages, "style", lambda *name: "")

    def show(self, data, display_id):
        self.shown[display_id] = dict(data)

    def update(self, data, display_id):
        assert display_id in self.shown
        self.updates += 1
        self.shown[display_id] = dict(data)

    def listen(self, output):
        output.widget.send = lambda content, buffers=None: self.messages.append((content, buffers))


def live(publisher, backend, page, clock):
    job = Job(backend, JOB)
    model = publisher.model(JOB.key, lambda: JobModel(Follower(backend, JOB), processes=4))
    output = LiveJobOutput(job, model, work=lambda task: task(), clock=clock)
    page.listen(output)
    publisher.step()
    output.open()
    publisher.add(output)
    return output


def turns(publisher, clock, seconds):
    for _ in range(int(seconds * 10)):
        clock.now += 0.1
        publisher.step()


def say(output, **content):
    output.widget._handle_custom_msg(content, [])
