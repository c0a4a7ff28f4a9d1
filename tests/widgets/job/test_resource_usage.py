"""The small curves of what the processes of a job use."""

import json

from batchai_magics.follow import MetricsAdded, UsageSampled
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.metrics import Measurement
from batchai_magics.metrics.runs.resource_usage import MAX_POINTS, MAX_RANKS, UsageCurve, UsageCurves
from batchai_magics.models.telemetry_records import GpuUse, MachineUse, RankUse, Sample, TelemetryRecord
from batchai_magics.widgets.job.job_view import Cursor


def record(*times, ranks=2, gpus=(), busy=1):
    def uses(time):
        return tuple(RankUse(rank, busy * time * (rank + 1), 100, 0, 0, 0.0, 0, 1) for rank in range(ranks))

    samples = [Sample(time, "m", uses(time), MachineUse(1.0), gpus) for time in times]
    return TelemetryRecord(dict.fromkeys(range(ranks), "n0"), tuple(samples))


def curves_json(curves):
    return json.loads(curves.to_json())


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


def test_a_curve_has_few_points_however_long_it_is():
    curve = UsageCurve()
    for value in range(10_000):
        curve.add(float(value))
    assert MAX_POINTS / 2 <= len(curve.points) <= MAX_POINTS
    assert curve.points == sorted(curve.points)
    assert curve.last == 9999
    assert abs(curve.points[0] - curve._width / 2) <= 1


def test_each_rank_gpu_and_machine_has_its_curves():
    curves = UsageCurves()
    curves.take(record(1.0, 2.0, 3.0, gpus=(GpuUse(3, 97, 5),)))
    data = curves_json(curves)
    assert [row["rank"] for row in data["ranks"]] == [0, 1]
    assert data["ranks"][1]["curves"]["cpu_percent"] == {"points": [200, 200], "last": 200}
    assert "gpu_memory_bytes" not in data["ranks"][0]["curves"], "a rank without a GPU has no curve for it"
    assert data["gpus"][0]["curves"]["gpu_percent"]["last"] == 97
    assert data["machines"][0]["machine"] == "m"


def test_a_gpu_that_does_nothing_is_told_and_one_whose_use_is_not_known_is_not():
    curves = UsageCurves()
    curves.take(record(1.0, 2.0, gpus=(GpuUse(0, 0, 5), GpuUse(1, None, 5))))
    idle, unknown = curves_json(curves)["gpus"]
    assert idle["curves"]["gpu_percent"]["last"] == 0
    assert list(unknown["curves"]) == ["gpu_memory_bytes"]


def test_a_rank_that_computes_nothing_has_the_curves_of_the_others():
    curves = UsageCurves()
    curves.take(record(1.0, 2.0, 3.0, busy=0))
    assert all("cpu_percent" in row["curves"] for row in curves_json(curves)["ranks"])


def test_many_ranks_are_counted_and_not_drawn():
    curves = UsageCurves()
    curves.take(record(1.0, 2.0, ranks=MAX_RANKS + 5))
    assert (len(curves_json(curves)["ranks"]), curves_json(curves)["more"]) == (MAX_RANKS, 5)


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
