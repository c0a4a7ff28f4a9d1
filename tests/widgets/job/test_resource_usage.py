"""What a page is sent of the resource usage of a job."""

import json

from batchai_magics.follow import MetricsAdded, UsageSampled
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.metrics import Measurement
from batchai_magics.models.telemetry_records import MachineUse, RankUse, Sample, TelemetryRecord
from batchai_magics.widgets.job.job_view import Cursor


def record(*times):
    """Two ranks that compute, the second twice as much."""
    samples = [
        Sample(
            time,
            "m",
            tuple(RankUse(rank, time * (rank + 1), 100, 0, 0, 0.0, 0, 1) for rank in (0, 1)),
            MachineUse(1.0),
        )
        for time in times
    ]
    return TelemetryRecord({0: "n0", 1: "n0"}, tuple(samples))


def sent_usage(*events):
    """What a page is sent of a job with these events."""
    model = JobModel()
    for event in events:
        model.take(event)
    return json.loads(Cursor().next_batch(model, 1 << 20).buffers[-1])


def printed(rates, steps=30):
    """Steps of ranks at these speeds."""
    return [
        Measurement("images_per_sec", rate + step % 3, "images/sec", step=step, rank=rank)
        for step in range(1, steps)
        for rank, rate in enumerate(rates)
    ]


def test_a_straggler_has_its_reason():
    used, steps = UsageSampled(None, record(1.0, 2.0, 3.0)), MetricsAdded(None, printed([40, 100]))
    (slow,) = sent_usage(used, steps)["slow"].items()
    assert slow[0] == "0"
    assert slow[1].startswith("it waits for data, the disk, the network or a lock: it uses 100 % of a core")


def test_ranks_of_one_speed_are_no_stragglers():
    used, steps = UsageSampled(None, record(1.0, 2.0, 3.0)), MetricsAdded(None, printed([100, 100]))
    assert sent_usage(used, steps)["slow"] == {}


def test_a_view_is_sent_what_is_new_once():
    model, cursor = JobModel(), Cursor()
    model.take(UsageSampled(None, record(1.0, 2.0)))
    batch = cursor.next_batch(model, 1 << 20)
    assert batch.content["use"]
    assert json.loads(batch.buffers[-1])["ranks"]
    assert cursor.is_up_to_date(model)
    model.take(UsageSampled(None, record(3.0)))
    assert not cursor.is_up_to_date(model)
    cursor.next_batch(model, 1 << 20)
    cursor.rewind({})
    assert cursor.next_batch(model, 1 << 20).content["use"], "a page that comes anew gets it all"
