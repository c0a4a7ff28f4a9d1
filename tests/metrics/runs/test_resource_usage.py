"""Samples become rates, a table, and the reason why a rank is slow."""

import math

import pytest

from batchai_magics.metrics.runs.resource_usage import (
    SlownessCause,
    UsageRates,
    frame,
    mean_usage,
    reason_for,
)
from batchai_magics.models.telemetry_records import GpuUse, MachineUse, RankUse, Sample, TelemetryRecord


def use(rank, *, cpu_s=0.0, memory=100, core_wait_s=0.0, faults=0):
    return RankUse(rank, cpu_s, memory, 0, 0, core_wait_s, faults, 1)


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


def test_sums_become_rates_and_the_first_sample_has_none():
    rows = [row for row in UsageRates().rows(record([use(0, cpu_s=1)], [use(0, cpu_s=2.5)])) if row.rank == 0]
    assert math.isnan(rows[0].cpu_percent)
    assert rows[0].memory_bytes == 100
    assert rows[1].cpu_percent == 150
    assert rows[1].node == "n0"


def test_a_sum_that_fell_is_no_negative_rate():
    rows = [row for row in UsageRates().rows(record([use(0, cpu_s=5)], [use(0, cpu_s=2)])) if row.rank == 0]
    assert rows[1].cpu_percent == 0


def test_samples_that_come_later_go_on_where_the_others_ended():
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


def test_a_table_of_nothing_has_its_columns():
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


def test_where_all_lack_cores_the_slow_one_does_not_wait_for_data():
    crowded = [[use(rank, cpu_s=0.1 * t, core_wait_s=0.7 * t) for rank in range(3)] for t in range(10)]
    assert reason_for(mean_usage(record(*crowded)), 0).cause is SlownessCause.CORE


def test_a_rank_of_which_nothing_is_known_has_none():
    assert reason_for(mean_usage(growing(cpu_s=1.0)), 7) is None
    assert reason_for({}, 0) is None
