"""What ranks use, over time: sums become rates, rates a table, and a slow rank gets its reason."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import TYPE_CHECKING

from batchai_magics.models.telemetry import GpuUse, MachineUse, RankUse, Sample, TelemetryRecord

if TYPE_CHECKING:
    import pandas


_NONE = math.nan
_IDLE, _IDLE_PERCENT = 0.7, 50.0  # of what the others compute; of one core
_CROWDED = 25.0  # percent of its time
_PAGING = 20.0  # pages a second


@dataclass(frozen=True)
class Use:
    """One row: a rank, a GPU or a machine at a moment. Rates are means since the sample before; else NaN."""

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


class Uses:
    """Samples become rows; it remembers the last ones, and so may be given samples as they come."""

    def __init__(self) -> None:
        self._ranks: dict[int, tuple[float, RankUse]] = {}
        self._machines: dict[str, tuple[float, MachineUse]] = {}

    def of(self, record: TelemetryRecord) -> Iterator[Use]:
        """The rows of these samples."""
        for sample in record.samples:
            for rank in sample.ranks:
                node = record.nodes.get(rank.rank, sample.machine)
                yield _of_rank(sample.time, node, rank, self._ranks.get(rank.rank))
                self._ranks[rank.rank] = sample.time, rank
            yield _of_machine(sample, self._machines.get(sample.machine))
            self._machines[sample.machine] = sample.time, sample.use
            yield from (_of_gpu(sample, gpu) for gpu in sample.gpus)


def frame(record: TelemetryRecord) -> pandas.DataFrame:
    """One row a rank, GPU or machine and sample; the columns are the fields of `Use`.

    `time` is UTC, `rank` and `gpu` are nullable integers. What a row is not about is NaN.
    """
    import pandas as pd

    rows = list(Uses().of(record))
    columns = {field.name: [getattr(row, field.name) for row in rows] for field in fields(Use)}
    times = pd.to_datetime(pd.Series(columns.pop("time"), dtype="float64"), unit="s", utc=True)
    table = {"time": times.dt.round("ms"), "node": pd.Series(columns.pop("node"), dtype="object")}
    table |= {name: pd.Series(columns.pop(name), dtype="Int64") for name in ("rank", "gpu")}
    return pd.DataFrame(
        {**table, **{name: pd.Series(each, dtype="float64") for name, each in columns.items()}}
    )


class Cause(enum.Enum):
    """Why a rank is slower than the others, by what it uses."""

    COMPUTE = "compute"  # it computes all the time, and needs longer
    CORE = "core"  # others have the core that it could use
    MEMORY = "memory"  # its memory comes from the disk
    WAIT = "wait"  # it waits for data, the disk, the network or a lock


@dataclass(frozen=True)
class Reason:
    """Why a rank is slow, and the sentence that says by which numbers."""

    cause: Cause
    text: str


class Means:
    """What a rank uses in the mean; its first rate is that of its start, and no part of its work."""

    def __init__(self) -> None:
        self._count = 0
        self._cpu = self._core_wait = self._faults = 0.0
        self.has_gpu = False

    def add(self, row: Use) -> None:
        """Takes the next row of the rank."""
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
        """Whether there is any."""
        return self._count > 0

    @property
    def cpu_percent(self) -> float:
        """Of one core."""
        return self._cpu / self._rows

    @property
    def core_wait_percent(self) -> float:
        """Of its time, in which it could run and had no core."""
        return self._core_wait / self._rows

    @property
    def major_faults_per_s(self) -> float:
        """Pages that came from the disk."""
        return self._faults / self._rows

    @property
    def _rows(self) -> int:
        return max(1, self._count - 1)


def means_of(record: TelemetryRecord) -> dict[int, Means]:
    """The means of each rank of which there are any."""
    means: dict[int, Means] = {}
    for row in Uses().of(record):
        if row.rank is not None:
            means.setdefault(row.rank, Means()).add(row)
    return {rank: mean for rank, mean in means.items() if mean.is_known}


def reason_for(means: Mapping[int, Means], rank: int) -> Reason | None:
    """Why that rank is slower than the others; None where its use is not known."""
    known = {number: mean for number, mean in means.items() if mean.is_known}
    own = known.pop(rank, None)
    if own is None:
        return None
    others = list(known.values())
    return _of_memory(own, others) or _of_cores(own, others) or _of_waiting(own, others) or _of_work(own)


def _of_memory(own: Means, others: Sequence[Means]) -> Reason | None:
    faults = own.major_faults_per_s
    if faults <= max(_PAGING, 2 * _typical([each.major_faults_per_s for each in others])):
        return None
    return Reason(Cause.MEMORY, f"memory: {faults:.0f} of its pages a second come from the disk")


def _of_cores(own: Means, others: Sequence[Means]) -> Reason | None:
    core_wait = own.core_wait_percent
    typical = _typical([each.core_wait_percent for each in others])
    if core_wait <= max(_CROWDED, min(own.cpu_percent, 1.5 * typical)):
        return None
    return Reason(Cause.CORE, f"core: for {core_wait:.0f} % of its time it could run and has no core")


def _of_waiting(own: Means, others: Sequence[Means]) -> Reason | None:
    typical = _typical([each.cpu_percent for each in others]) if others else 100.0
    if own.cpu_percent >= max(_IDLE * typical, _IDLE_PERCENT):
        return None
    beside = f", the others {typical:.0f} %" if others else ""
    gpu = "its GPU, " if own.has_gpu else ""
    text = f"wait: it uses {own.cpu_percent:.0f} % of a core{beside}"
    return Reason(Cause.WAIT, f"{text}; it waits for {gpu}data, the disk, the network or a lock")


def _of_work(own: Means) -> Reason:
    text = f"compute: it uses {own.cpu_percent:.0f} % of a core, and needs longer for its part"
    return Reason(Cause.COMPUTE, text)


def _typical(values: Sequence[float]) -> float:
    return median(values) if values else 0.0


def _of_rank(time: float, node: str, now: RankUse, last: tuple[float, RankUse] | None) -> Use:
    row = Use(
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


def _of_machine(sample: Sample, last: tuple[float, MachineUse] | None) -> Use:
    use = sample.use
    load, available_bytes = float(use.load), float(use.available_bytes)
    row = Use(sample.time, sample.machine, load=load, available_bytes=available_bytes)
    if last is None or sample.time <= last[0]:
        return row
    elapsed_s, before = sample.time - last[0], last[1]
    return replace(
        row,
        received_bytes_per_s=_rate(use.received_bytes, before.received_bytes, elapsed_s),
        sent_bytes_per_s=_rate(use.sent_bytes, before.sent_bytes, elapsed_s),
    )


def _of_gpu(sample: Sample, gpu: GpuUse) -> Use:
    percent, memory_bytes = _NONE if gpu.percent is None else float(gpu.percent), float(gpu.memory_bytes)
    return Use(sample.time, sample.machine, gpu=gpu.gpu, gpu_percent=percent, gpu_memory_bytes=memory_bytes)


def _rate(now: float, before: float, elapsed_s: float) -> float:
    """Growth a second; none where the sum fell, since a process that had its part in it is gone."""
    return max(0.0, now - before) / elapsed_s
