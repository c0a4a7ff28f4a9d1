"""What a job's processes use is asked for from time to time, from the last sample on, and at the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batchai_magics.backends.base import Pace
from batchai_magics.follow import Follower
from batchai_magics.follow.job_events import TELEMETRY_POLL_S, TelemetryPoller, UsageSampled
from batchai_magics.models.states import ExecutionState
from batchai_magics.models.telemetry_records import MachineUse, Sample, TelemetryRecord
from tests.follow.event_steps import states
from tests.widgets.scripted_job import JOB, ScriptedBackend, resource


class Sampled(ScriptedBackend):
    """A backend that has samples of its job, as many as the test says; notes how it is asked for them."""

    def __init__(self, folder):
        super().__init__(folder)
        self.telemetry = self
        self.times, self.asked, self.now_s = [], [], 1000.0

    def read(self, item, *place, after=None, **named):
        if after is None:
            return super().read(item, *place, **named)
        self.asked.append((item, after))
        return record(*(time for time in self.times if time > after))


def record(*times):
    return TelemetryRecord({0: "node-0"}, tuple(Sample(time, "host", (), MachineUse()) for time in times))


@pytest.fixture
def backend(tmp_path):
    return Sampled(tmp_path)


@pytest.fixture
def telemetry(backend):
    return TelemetryPoller(backend, JOB, clock=lambda: backend.now_s)


def test_new_samples_are_reported_once(backend, telemetry):
    assert telemetry.poll(backend.job) == []
    backend.now_s += TELEMETRY_POLL_S
    backend.times = [3.0, 4.0]
    assert telemetry.poll(backend.job) == [UsageSampled(JOB, record(3.0, 4.0))]
    backend.now_s += TELEMETRY_POLL_S
    backend.times = [3.0, 4.0, 5.0]
    assert telemetry.poll(backend.job) == [UsageSampled(JOB, record(5.0))]
    assert backend.asked == [(JOB, 0.0), (JOB, 0.0), (JOB, 4.0)]
    backend.telemetry = None  # nobody takes samples
    backend.now_s += TELEMETRY_POLL_S
    assert telemetry.poll(backend.job) == []


@pytest.mark.parametrize(("look_s", "pause_s"), [(0.0, TELEMETRY_POLL_S), (30.0, 30.0)])
def test_samples_are_requested_at_the_pace_of_the_backend(backend, telemetry, look_s, pause_s):
    backend.capabilities = replace(backend.capabilities, pace=Pace(poll_interval_s=look_s))
    telemetry.poll(backend.job)
    backend.now_s += pause_s - 0.01
    telemetry.poll(backend.job)
    assert len(backend.asked) == 1
    backend.now_s += 0.01
    telemetry.poll(backend.job)
    assert len(backend.asked) == 2


def test_the_last_samples_are_reported_when_the_job_ends(backend, telemetry):
    telemetry.poll(backend.job)
    backend.times = [7.0]
    backend.finish()
    assert telemetry.poll(backend.job) == [UsageSampled(JOB, record(7.0))]


def test_a_job_that_waits_uses_nothing(backend, telemetry):
    assert telemetry.poll(resource(ExecutionState.QUEUED)) == []
    assert backend.asked == []


@pytest.mark.parametrize("with_use", [True, False])
def test_follower_reports_samples_before_the_end_if_requested(backend, with_use):
    follower = Follower(backend, JOB, with_telemetry=with_use, clock=lambda: backend.now_s)
    backend.times = [1.0]
    assert (
        [e for e in follower.poll() if isinstance(e, UsageSampled)] == [UsageSampled(JOB, record(1.0))]
    ) is with_use
    backend.times = [1.0, 2.0]
    backend.finish()
    *others, last = follower.poll()
    assert states([last]) == ["succeeded"]
    assert (
        [e for e in others if isinstance(e, UsageSampled)] == [UsageSampled(JOB, record(2.0))]
    ) is with_use


def test_every_event_names_its_job_or_file(backend):
    backend.write("step: 1, loss: 2.0\nstep: 2, loss: 1.0")
    backend.times = [1.0]
    follower = Follower(backend, JOB, with_telemetry=True)
    news = follower.poll()
    backend.finish()
    news += follower.poll()
    jobs = {getattr(event, "job", None) or event.file.job for event in news}
    assert {getattr(job, "id", job) for job in jobs} == {JOB}
    assert {event.file.path for event in news if hasattr(event, "file")} == {"stdout.txt"}
    assert {type(event).__name__ for event in news} == {
        *("StateChanged", "NodesChanged", "UsageSampled", "LogBytes", "MetricsAdded")
    }
