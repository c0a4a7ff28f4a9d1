"""Samples become rates, a table, small curves, and the reason why a rank is slow."""

import json
import math
from dataclasses import replace

import pytest

from batchai_magics.metrics.runs.resource_usage import (
    MAX_POINTS,
    MAX_RANKS,
    SlownessCause,
    UsageCurve,
    UsageCurves,
    UsageRates,
    frame,
    is_idle,
    mean_usage,
    reason_for,
)
from batchai_magics.models.telemetry_records import GpuUse, MachineUse, RankUse, Sample, TelemetryRecord


def use(rank, *, cpu_s=0.0, memory=100, core_wait_s=0.0, faults=0, processes=1):
    return RankUse(rank, cpu_s, memory, 0, 0, core_wait_s, faults, processes)


def record(*samples):
    """A record of samples a second apart."""
    made = [
        Sample(float(t), "m", tuple(ranks), MachineUse(1.0, 500, 10 * t)) for t, ranks in enumerate(samples)
    ]
    return TelemetryRecord({0: "n0", 1: "n1"}, tuple(made))


def growing(**rates):
    """Ten seconds of three ranks, of which the first grows at other rates than the others."""
    others = {"cpu_s": 1.0}
    return record(
        *[
            [use(0, **{name: rate * t for name, rate in rates.items()})]
            + [use(rank, **{name: rate * t for name, rate in others.items()}) for rank in (1, 2)]
            for t in range(10)
        ]
    )


def test_counters_become_rates_and_the_first_sample_has_none():
    rows = [row for row in UsageRates().rows(record([use(0, cpu_s=1)], [use(0, cpu_s=2.5)])) if row.rank == 0]
    assert math.isnan(rows[0].cpu_percent)
    assert rows[0].memory_bytes == 100
    assert rows[1].cpu_percent == 150
    assert rows[1].node == "n0"


def test_decreasing_counter_gives_no_negative_rate():
    rows = [row for row in UsageRates().rows(record([use(0, cpu_s=5)], [use(0, cpu_s=2)])) if row.rank == 0]
    assert rows[1].cpu_percent == 0


def test_later_samples_continue_the_rates_of_earlier_ones():
    whole = record([use(0, cpu_s=1)], [use(0, cpu_s=2)], [use(0, cpu_s=4)])
    uses = UsageRates()
    first = list(uses.rows(TelemetryRecord(whole.nodes, whole.samples[:2])))
    rest = list(uses.rows(TelemetryRecord(whole.nodes, whole.samples[2:])))
    assert repr(first + rest) == repr(list(UsageRates().rows(whole)))


def test_the_table_has_a_row_for_each_rank_gpu_and_machine():
    sample = Sample(1e9, "m", (use(0), use(1)), MachineUse(2.0, 500), (GpuUse(3, 97, 1 << 30),))
    table = frame(TelemetryRecord({0: "n0", 1: "n1"}, (sample,)))
    assert table["rank"].tolist()[:2] == [0, 1]
    assert table["node"].tolist() == ["n0", "n1", "m", "m"]
    assert table["gpu_percent"].dropna().tolist() == [97]
    assert table["load"].dropna().tolist() == [2]
    assert str(table["time"].dt.tz) == "UTC"


def test_empty_table_has_all_columns():
    table = frame(TelemetryRecord({}))
    assert table.empty
    assert {"time", "node", "rank", "gpu", "cpu_percent", "sent_bytes_per_s"} <= set(table.columns)


@pytest.mark.parametrize(
    ("rates", "cause", "text"),
    [
        ({"cpu_s": 1.0}, SlownessCause.COMPUTE, "it needs longer for its part"),
        ({"cpu_s": 0.2}, SlownessCause.WAIT, "it waits for data, the disk, the network or a lock"),
        ({"cpu_s": 0.75}, SlownessCause.COMPUTE, "it needs longer for its part"),
        ({"cpu_s": 0.2, "core_wait_s": 0.7}, SlownessCause.CORE, "it waits for a CPU core"),
        ({"cpu_s": 0.2, "faults": 500}, SlownessCause.MEMORY, "it waits for its memory"),
    ],
)
def test_a_slow_rank_gets_its_reason(rates, cause, text):
    reason = reason_for(mean_usage(growing(**rates)), 0)
    assert reason.cause is cause
    assert reason.text.startswith(f"{text}: ")


def test_slow_rank_does_not_wait_for_data_if_all_ranks_lack_cores():
    crowded = [[use(rank, cpu_s=0.1 * t, core_wait_s=0.7 * t) for rank in range(3)] for t in range(10)]
    assert reason_for(mean_usage(record(*crowded)), 0).cause is SlownessCause.CORE


def test_rank_without_samples_has_no_usage():
    assert reason_for(mean_usage(growing(cpu_s=1.0)), 7) is None
    assert reason_for({}, 0) is None


class TestIdle:
    """Whether a run that prints nothing is idle, of its samples."""

    @staticmethod
    def of(*ranks, nodes=("n0", "n1"), gpu=None, notes=()):
        """Of ranks that grow at these rates a second; a GPU that is used at a percentage."""
        gpus = () if gpu is None else (GpuUse(0, gpu, 5),)

        def sample(time):
            grown = [{key: rate * time for key, rate in each.items()} for each in ranks]
            uses = tuple(use(rank, **each) for rank, each in enumerate(grown))
            return Sample(float(time), "m", uses, MachineUse(), gpus)

        samples = tuple(map(sample, range(600)))
        record = TelemetryRecord(dict(enumerate(nodes)), samples, notes)
        return is_idle(
            lambda after: replace(record, samples=tuple(each for each in samples if each.time > after)),
            silent_s=400.0,
            now=600.0,
        )

    def test_ranks_that_wait_are_idle(self):
        assert self.of({}, {"cpu_s": 0.01})
        assert self.of({}, {}, gpu=0)

    def test_a_rank_that_computes_or_waits_for_a_core_or_a_gpu_makes_it_busy(self):
        assert not self.of({}, {"cpu_s": 0.5})
        assert not self.of({}, {"core_wait_s": 0.5})
        assert not self.of({}, {}, gpu=90)

    def test_run_with_unknown_usage_is_not_idle(self):
        assert not self.of({})  # no samples of the other node
        assert not self.of({}, {"processes": 0})  # they are another user's
        assert not self.of({}, {}, notes=("what processes in containers use is not known",))
        assert not is_idle(lambda after: TelemetryRecord({}), silent_s=400.0, now=600.0)


def curves_of(*times, ranks=2, gpus=(), busy=1):
    """The curves, as the page has them, of ranks that compute, each more than the one before."""
    samples = [
        Sample(
            time,
            "m",
            tuple(use(rank, cpu_s=busy * time * (rank + 1)) for rank in range(ranks)),
            MachineUse(1.0),
            gpus,
        )
        for time in times
    ]
    curves = UsageCurves()
    curves.take(TelemetryRecord(dict.fromkeys(range(ranks), "n0"), tuple(samples)))
    return json.loads(curves.to_json())


def test_a_curve_has_few_points_however_long_it_is():
    curve = UsageCurve()
    for value in range(10_000):
        curve.add(float(value))
    assert MAX_POINTS / 2 <= len(curve.points) <= MAX_POINTS
    assert curve.points == sorted(curve.points)
    assert curve.last == 9999
    assert abs(curve.points[0] - curve._width / 2) <= 1


def test_each_rank_gpu_and_machine_has_curves():
    data = curves_of(1.0, 2.0, 3.0, gpus=(GpuUse(3, 97, 5),))
    assert [row["rank"] for row in data["ranks"]] == [0, 1]
    assert data["ranks"][1]["curves"]["cpu_percent"] == {"points": [200, 200], "last": 200}
    assert "gpu_memory_bytes" not in data["ranks"][0]["curves"], "a rank without a GPU has no curve for it"
    assert data["gpus"][0]["curves"]["gpu_percent"]["last"] == 97
    assert data["machines"][0]["machine"] == "m"


def test_idle_gpu_has_a_usage_curve_and_gpu_of_unknown_use_has_none():
    idle, unknown = curves_of(1.0, 2.0, gpus=(GpuUse(0, 0, 5), GpuUse(1, None, 5)))["gpus"]
    assert idle["curves"]["gpu_percent"]["last"] == 0
    assert list(unknown["curves"]) == ["gpu_memory_bytes"]


def test_a_rank_that_computes_nothing_has_the_curves_of_the_others():
    ranks = curves_of(1.0, 2.0, 3.0, busy=0)["ranks"]
    assert ranks
    assert all("cpu_percent" in row["curves"] for row in ranks)


def test_many_ranks_are_counted_and_not_drawn():
    data = curves_of(1.0, 2.0, ranks=MAX_RANKS + 5)
    assert (len(data["ranks"]), data["more"]) == (MAX_RANKS, 5)
