"""Model, batch size, devices and process count of a run, from the header of its log."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from batchai_magics.metrics.measurement import Fact
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.runs.log_runs import count_ranks
from batchai_magics.metrics.runs.mean_rates import GLOBAL_RATES

# step lines of tf_cnn_benchmarks then contain the rate of all processes
_ALL_REDUCE = "distributed_all_reduce"
_QUOTED = re.compile(r"'([^']*)'")


@dataclass(frozen=True)
class RunHeader:
    """The parameters of one run; None if the log does not contain them.

    Attributes:
        model: The model that the program named.
        dataset: The data set.
        variable_update: How variables are updated: `horovod`, `parameter_server`, ….
        batch_size_global: Images per step of all devices.
        batch_size_per_device: Images per step of a device.
        devices: The names of the devices.
        device_count: Their number.
        is_rate_global: Each rank prints the speed of all; then nothing is known of single ranks. That is so
            in tf_cnn_benchmarks with `distributed_all_reduce` and in CNTK, whose processes divide the samples
            of all by their own time.
        ranks: The number of processes; 0 if it is unknown.
    """

    model: str | None = None
    dataset: str | None = None
    variable_update: str | None = None
    batch_size_global: int | None = None
    batch_size_per_device: int | None = None
    devices: tuple[str, ...] = ()
    device_count: int | None = None
    is_rate_global: bool = False
    ranks: int = 0


def run_header(run: MeasurementTable, *, ranks_seen: int) -> RunHeader:
    """The header of one run, in which `ranks_seen` processes printed records; `ranks` are as announced."""
    facts = [*map(itemgetter(1), run.facts)]
    names = run.names
    entries = {fact.key: fact.value for fact in facts}
    devices = _devices(facts)
    counted = max(_count(entries, "device_count") or 0, _printed_devices(run))
    device_count = len(devices) or counted or None
    # a bare `batch_size` is per device if devices are counted
    bare = ("batch_size",) if device_count or ranks_seen <= 1 else ()
    per_device, in_all = _count(entries, "batch_size_per_device", *bare), _count(entries, "batch_size_global")
    if bare and in_all is None and per_device is not None:
        in_all = per_device * (device_count or 1)
    return RunHeader(
        model=entries.get("model"),
        dataset=entries.get("dataset"),
        variable_update=entries.get("variables"),
        batch_size_global=in_all,
        batch_size_per_device=per_device,
        devices=devices,
        device_count=device_count,
        is_rate_global=entries.get("variables") == _ALL_REDUCE or not names.isdisjoint(GLOBAL_RATES),
        ranks=max(counted, *map(count_ranks, facts), 0),
    )


def _devices(facts: Sequence[Fact]) -> tuple[str, ...]:
    """All devices in the headers, without duplicates: Horovod ranks each print all, others their own."""
    named = (fact.value for fact in facts if fact.key == "devices")
    return tuple(dict.fromkeys(device for value in named for device in _QUOTED.findall(value)))


def _printed_devices(run: MeasurementTable) -> int:
    """The number of devices that a line of a program's own tells."""
    printed = (lines.value("devices") for lines in run.lines if "devices" in lines.names)
    return int(max(filter(math.isfinite, chain.from_iterable(printed)), default=0))


def _count(entries: Mapping[str, str], *keys: str) -> int | None:
    """The first of these entries that is a number; Python 3 printed `64.0` for some months of 2018."""
    for key in keys:
        with suppress(KeyError, ValueError, OverflowError):
            return int(float(entries[key]))
    return None
