"""Resource usage over time: converts counters to rates, tables and curves, and explains slow ranks."""

from __future__ import annotations

import enum
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from batchai_magics.models.telemetry_records import MachineUse, RankUse, Sample, TelemetryRecord

if TYPE_CHECKING:
    import pandas


_NONE = math.nan
_IDLE, _IDLE_PERCENT = 0.7, 50.0  # relative to the others' CPU use; percent of one core
_CROWDED = 25.0  # percent of its time
_PAGING = 20.0  # pages per second
_STANDING_PERCENT = 10.0  # of a core or GPU; below it nothing is computed
_RECENT_S, _MEAN_S = 300.0, 60.0  # the maximum age of samples for that, and the window of their mean

MAX_POINTS = 80  # of a curve; neighbours are joined when it becomes longer
MAX_RANKS = 16  # that are drawn
_OF_RANK = ("cpu_percent", "memory_bytes", "gpu_memory_bytes")
_OF_GPU = ("gpu_percent", "gpu_memory_bytes")
_OF_MACHINE = ("load", "available_bytes", "received_bytes_per_s", "sent_bytes_per_s")
_SHOWN_IF_ZERO = ("cpu_percent", "gpu_percent")  # idleness is worth showing


@dataclass(frozen=True)
class ResourceUsage:
    """Usage of a rank, a GPU or a machine at one time. Rates are since the previous sample; else NaN."""

    time: float
    node: str
    rank: int | None = None
    gpu: int | None = None
    cpu_percent: float = _NONE
    memory_bytes: float = _NONE
    read_bytes_per_s: float = _NONE
    written_bytes_per_s: float = _NONE
    core_wait_percent: float = _NONE
    major_faults_per_s: float = _NONE
    processes: float = _NONE
    gpu_percent: float = _NONE
    gpu_memory_bytes: float = _NONE
    load: float = _NONE
    available_bytes: float = _NONE
    received_bytes_per_s: float = _NONE
    sent_bytes_per_s: float = _NONE


class UsageRates:
    """Converts samples to usage rows, keeping the last samples so that it can be fed incrementally."""

    def __init__(self) -> None:
        self._ranks: dict[int, tuple[float, RankUse]] = {}
        self._machines: dict[str, tuple[float, MachineUse]] = {}

    def rows(self, record: TelemetryRecord) -> Iterator[ResourceUsage]:
        """Yield the rows of these samples."""
        for sample in record.samples:
            for rank in sample.ranks:
                node = record.nodes.get(rank.rank, sample.machine)
                yield _rank_row(sample.time, node, rank, self._ranks.get(rank.rank))
                self._ranks[rank.rank] = sample.time, rank
            yield _machine_row(sample, self._machines.get(sample.machine))
            self._machines[sample.machine] = sample.time, sample.use
            for gpu in sample.gpus:
                yield ResourceUsage(
                    sample.time,
                    sample.machine,
                    gpu=gpu.gpu,
                    gpu_percent=_NONE if gpu.percent is None else float(gpu.percent),
                    gpu_memory_bytes=float(gpu.memory_bytes),
                )


def frame(record: TelemetryRecord) -> pandas.DataFrame:
    """One row per sample and rank, GPU or machine; columns are the fields of `ResourceUsage`.

    `time` is UTC; `rank` and `gpu` are nullable integers. Fields that do not apply are NaN.
    """
    import pandas as pd

    rows = list(UsageRates().rows(record))
    columns = {column.name: [getattr(row, column.name) for row in rows] for column in fields(ResourceUsage)}
    times = pd.to_datetime(pd.Series(columns.pop("time"), dtype="float64"), unit="s", utc=True)
    table = {"time": times.dt.round("ms"), "node": pd.Series(columns.pop("node"), dtype="object")}
    table |= {name: pd.Series(columns.pop(name), dtype="Int64") for name in ("rank", "gpu")}
    return pd.DataFrame(
        {**table, **{name: pd.Series(column, dtype="float64") for name, column in columns.items()}}
    )


class UsageCurve:
    """Values over time, downsampled to a few points that average equally many values."""

    def __init__(self) -> None:
        self.points: list[float] = []
        self.last = 0.0
        self._width = 1  # values per point
        self._rest: list[float] = []

    def add(self, value: float) -> None:
        """Adds the next value."""
        self.last = value
        self._rest.append(value)
        if len(self._rest) == self._width:
            self.points.append(_mean(self._rest))
            self._rest = []
        if len(self.points) >= MAX_POINTS:
            self.points = [_mean(self.points[i : i + 2]) for i in range(0, MAX_POINTS, 2)]
            self._width *= 2

    @property
    def fields(self) -> dict[str, Any]:
        """The curve as the page expects it."""
        return {"points": [_rounded(point) for point in self.points], "last": _rounded(self.last)}


@dataclass
class _UsageRow:
    """The curves of a rank, a GPU or a machine."""

    head: Mapping[str, Any]
    curves: dict[str, UsageCurve] = field(default_factory=dict)

    def add(self, use: ResourceUsage, names: Iterable[str]) -> None:
        for name in names:
            value = getattr(use, name)
            if not math.isnan(value):
                self.curves.setdefault(name, UsageCurve()).add(value)

    @property
    def fields(self) -> dict[str, Any]:
        shown = {
            name: curve
            for name, curve in self.curves.items()
            if curve.last or any(curve.points) or name in _SHOWN_IF_ZERO
        }
        return {**self.head, "curves": {name: curve.fields for name, curve in shown.items()}}


class UsageCurves:
    """The curves of a job. `version` increases with each sample."""

    def __init__(self) -> None:
        self.version = 0
        self._uses = UsageRates()
        self._means: dict[int, MeanUsage] = {}
        self._ranks: dict[int, _UsageRow] = {}
        self._gpus: dict[tuple[str, int], _UsageRow] = {}
        self._machines: dict[str, _UsageRow] = {}
        self._notes: tuple[str, ...] = ()

    def take(self, record: TelemetryRecord) -> None:
        """Adds samples."""
        self._notes = record.notes
        for use in self._uses.rows(record):
            if use.rank is not None:
                row = self._ranks.setdefault(use.rank, _UsageRow({"rank": use.rank, "node": use.node}))
                row.add(use, _OF_RANK)
                self._means.setdefault(use.rank, MeanUsage()).add(use)
            elif use.gpu is not None:
                head = {"gpu": use.gpu, "machine": use.node}
                self._gpus.setdefault((use.node, use.gpu), _UsageRow(head)).add(use, _OF_GPU)
            else:
                self._machines.setdefault(use.node, _UsageRow({"machine": use.node})).add(use, _OF_MACHINE)
        self.version += 1

    @property
    def has_several_ranks(self) -> bool:
        """Whether there are ranks to compare."""
        return len(self._ranks) > 1

    def to_json(self, stragglers: Sequence[int] = ()) -> bytes:
        """Returns everything, with the reasons of stragglers, as JSON (`ResourceUsage` in messages.d.ts)."""
        reasons = {rank: reason_for(self._means, rank) for rank in stragglers}
        ranks = [row.fields for _, row in sorted(self._ranks.items())]
        data = {
            "ranks": ranks[:MAX_RANKS],
            "more": max(0, len(ranks) - MAX_RANKS),
            "gpus": [row.fields for _, row in sorted(self._gpus.items())],
            "machines": [row.fields for _, row in sorted(self._machines.items())],
            "notes": self._notes,
            "slow": {rank: reason.text for rank, reason in reasons.items() if reason},
        }
        return json.dumps(data, separators=(",", ":")).encode()


def is_idle(read: Callable[[float], TelemetryRecord], *, silent_s: float, now: float) -> bool:
    """Whether all ranks and GPUs of a run that prints nothing are idle; False if that is not known.

    Args:
        read: Reads the samples that were taken after a time.
        silent_s: How long the run has printed nothing.
        now: The current time in seconds since 1970.
    """
    record = read(now - min(silent_s, _RECENT_S))
    # the CPU use of another user's processes is not known
    rows = [
        row
        for row in UsageRates().rows(record)
        if row.gpu is not None or (row.cpu_percent >= 0 and row.processes > 0)
    ]
    known = {row.node for row in rows if row.rank is not None}
    if record.notes or not known or not known.issuperset(record.nodes.values()):
        return False
    uses: dict[tuple[str, int | None, int | None], list[ResourceUsage]] = defaultdict(list)
    for row in rows:
        uses[row.node, row.rank, row.gpu].append(row)
    return all(_recent_percent(group) < _STANDING_PERCENT for group in uses.values())


def _recent_percent(rows: Sequence[ResourceUsage]) -> float:
    """The mean use of a rank's cores with its wait for one, or of a GPU; NaN if it is not known."""
    recent = (row for row in rows if row.time >= rows[-1].time - _MEAN_S)
    return fmean(
        row.cpu_percent + row.core_wait_percent if row.gpu is None else row.gpu_percent for row in recent
    )


class SlownessCause(enum.Enum):
    """Why a rank is slower than the others, judged by its resource usage."""

    COMPUTE = "compute"  # computes all the time and takes longer
    CORE = "core"  # other processes occupy its core
    MEMORY = "memory"  # its memory is paged from disk
    WAIT = "wait"  # waits for data, disk, network or a lock


@dataclass(frozen=True)
class SlownessReason:
    """The cause of slowness, and a sentence with the numbers behind it."""

    cause: SlownessCause
    text: str


class MeanUsage:
    """Mean usage of a rank. Its first rate, from startup, is excluded."""

    def __init__(self) -> None:
        self._count = 0
        self._cpu = self._core_wait = self._faults = 0.0
        self.has_gpu = False

    def add(self, row: ResourceUsage) -> None:
        """Add the next row of the rank."""
        if math.isnan(row.cpu_percent):
            return
        if self._count == 1:
            self._cpu = self._core_wait = self._faults = 0.0
        self._count += 1
        self.has_gpu |= row.gpu_memory_bytes > 0
        self._cpu += row.cpu_percent
        self._core_wait += row.core_wait_percent
        self._faults += row.major_faults_per_s

    @property
    def is_known(self) -> bool:
        """Whether any rate is known."""
        return self._count > 0

    @property
    def cpu_percent(self) -> float:
        """Percent of one core."""
        return self._cpu / self._rows

    @property
    def core_wait_percent(self) -> float:
        """Percent of time in which it was runnable without a core."""
        return self._core_wait / self._rows

    @property
    def major_faults_per_s(self) -> float:
        """Pages read from disk."""
        return self._faults / self._rows

    @property
    def _rows(self) -> int:
        return max(1, self._count - 1)


def mean_usage(record: TelemetryRecord) -> dict[int, MeanUsage]:
    """The mean usage of each rank with known rates."""
    means: dict[int, MeanUsage] = {}
    for row in UsageRates().rows(record):
        if row.rank is not None:
            means.setdefault(row.rank, MeanUsage()).add(row)
    return {rank: mean for rank, mean in means.items() if mean.is_known}


def reason_for(means: Mapping[int, MeanUsage], rank: int) -> SlownessReason | None:
    """Why a rank is slower than the others; None if its usage is unknown."""
    known = {number: mean for number, mean in means.items() if mean.is_known}
    usage = known.pop(rank, None)
    if usage is None:
        return None
    others = list(known.values())
    faults, core_wait, cpu = usage.major_faults_per_s, usage.core_wait_percent, usage.cpu_percent
    if faults > max(_PAGING, 2 * _typical([other.major_faults_per_s for other in others])):
        text = f"it waits for its memory: {faults:.0f} of its pages a second come from the disk"
        return SlownessReason(SlownessCause.MEMORY, text)
    typical = _typical([other.core_wait_percent for other in others])
    if core_wait > max(_CROWDED, min(cpu, 1.5 * typical)):
        text = f"it waits for a CPU core: for {core_wait:.0f} % of its time it could run and has none"
        return SlownessReason(SlownessCause.CORE, text)
    typical = _typical([other.cpu_percent for other in others], default=100.0)
    if cpu < max(_IDLE * typical, _IDLE_PERCENT):
        beside = f", the others {typical:.0f} %" if others else ""
        reason = f"it waits for {'its GPU, ' if usage.has_gpu else ''}data, the disk, the network or a lock"
        return SlownessReason(SlownessCause.WAIT, f"{reason}: it uses {cpu:.0f} % of a core{beside}")
    text = f"it needs longer for its part: it uses {cpu:.0f} % of a core"
    return SlownessReason(SlownessCause.COMPUTE, text)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _rounded(value: float) -> float:
    """Rounds to what a sparkline can show."""
    return round(value, 1) if value < 1000 else int(value)


def _typical(values: Sequence[float], default: float = 0.0) -> float:
    return median(values) if values else default


def _rank_row(time: float, node: str, now: RankUse, last: tuple[float, RankUse] | None) -> ResourceUsage:
    row = ResourceUsage(
        time,
        node,
        now.rank,
        memory_bytes=float(now.memory_bytes),
        processes=float(now.processes),
        gpu_memory_bytes=float(now.gpu_memory_bytes),
    )
    if last is None or time <= last[0]:
        return row
    elapsed_s, before = time - last[0], last[1]
    return replace(
        row,
        cpu_percent=100 * _rate(now.cpu_s, before.cpu_s, elapsed_s),
        read_bytes_per_s=_rate(now.read_bytes, before.read_bytes, elapsed_s),
        written_bytes_per_s=_rate(now.written_bytes, before.written_bytes, elapsed_s),
        core_wait_percent=min(100.0, 100 * _rate(now.core_wait_s, before.core_wait_s, elapsed_s)),
        major_faults_per_s=_rate(now.major_faults, before.major_faults, elapsed_s),
    )


def _machine_row(sample: Sample, last: tuple[float, MachineUse] | None) -> ResourceUsage:
    use = sample.use
    load, available_bytes = float(use.load), float(use.available_bytes)
    row = ResourceUsage(sample.time, sample.machine, load=load, available_bytes=available_bytes)
    if last is None or sample.time <= last[0]:
        return row
    elapsed_s, before = sample.time - last[0], last[1]
    return replace(
        row,
        received_bytes_per_s=_rate(use.received_bytes, before.received_bytes, elapsed_s),
        sent_bytes_per_s=_rate(use.sent_bytes, before.sent_bytes, elapsed_s),
    )


def _rate(now: float, before: float, elapsed_s: float) -> float:
    """Increase per second; 0 if the counter fell because a process exited."""
    return max(0.0, now - before) / elapsed_s
