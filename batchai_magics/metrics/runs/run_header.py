"""Model, batch size, devices and process count of a run, from the header of its log."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from batchai_magics.metrics.measurement import Fact
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.runs.mean_rates import GLOBAL_RATES
from batchai_magics.metrics.runs.step_series import count_ranks

# step lines of tf_cnn_benchmarks then contain the rate of all processes
_ALL_REDUCE = "distributed_all_reduce"
_QUOTED = re.compile(r"'([^']*)'")


@dataclass(frozen=True)
class RunHeader:
    """The parameters of one run; None if the log does not contain them.

    `ranks` is the announced number of processes, 0 if unknown. `is_rate_global`: each process prints the rate
    of all processes. That is so in tf_cnn_benchmarks with `distributed_all_reduce` and in CNTK, whose
    processes divide the samples of all by their own time.
    """

    model: str | None
    dataset: str | None
    variable_update: str | None
    batch_size_global: int | None
    batch_size_per_device: int | None
    devices: tuple[str, ...]
    device_count: int | None
    ranks: int
    is_rate_global: bool


def run_header(run: MeasurementTable, *, ranks_seen: int) -> RunHeader:
    """The header of one run, in which `ranks_seen` processes printed records."""
    facts = [fact for _, fact in run.facts]
    names = run.names
    entries = {fact.key: fact.value for fact in facts}
    devices = _devices(facts)
    counted = max(
        _count(entries.get("device_count")) or 0, _printed_devices(run) if "devices" in names else 0
    )
    device_count = len(devices) or counted or None
    per_device, in_all = _batch_sizes(entries, device_count, is_alone=ranks_seen <= 1)
    return RunHeader(
        model=entries.get("model"),
        dataset=entries.get("dataset"),
        variable_update=entries.get("variables"),
        batch_size_global=in_all,
        batch_size_per_device=per_device,
        devices=devices,
        device_count=device_count,
        ranks=max(counted, *map(count_ranks, facts), 0),
        is_rate_global=entries.get("variables") == _ALL_REDUCE or not names.isdisjoint(GLOBAL_RATES),
    )


def _batch_sizes(
    entries: Mapping[str, str], device_count: int | None, *, is_alone: bool
) -> tuple[int | None, int | None]:
    """The batch size per device and in total. A bare `batch_size` is per device if devices are counted."""
    per_device, in_all = (
        _count(entries.get("batch_size_per_device")),
        _count(entries.get("batch_size_global")),
    )
    if not (device_count or is_alone):
        return per_device, in_all
    per_device = _count(entries.get("batch_size")) if per_device is None else per_device
    if in_all is None and per_device is not None:
        in_all = per_device * (device_count or 1)
    return per_device, in_all


def _devices(facts: Sequence[Fact]) -> tuple[str, ...]:
    """All devices in the headers, without duplicates: Horovod ranks each print all, others their own."""
    named = (fact.value for fact in facts if fact.key == "devices")
    return tuple(dict.fromkeys(device for value in named for device in _QUOTED.findall(value)))


def _printed_devices(run: MeasurementTable) -> int:
    """The number of devices that a line of a program's own tells."""
    told = (number for lines in run.lines if "devices" in lines.names for number in lines.value("devices"))
    return int(max((number for number in told if math.isfinite(number)), default=0))


def _count(value: str | None) -> int | None:
    """Parse an integer; Python 3 printed `64.0` for some months of 2018."""
    try:
        return None if value is None else int(float(value))
    except (ValueError, OverflowError):
        return None
