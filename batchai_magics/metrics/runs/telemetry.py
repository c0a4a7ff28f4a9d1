"""What ranks use, over time: sums become rates, rates a table, and a slow rank gets its reason."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean, median
from typing import TYPE_CHECKING

from batchai_magics.models.telemetry import GpuUse, MachineUse, RankUse, Sample, TelemetryRecord

if TYPE_CHECKING:
    import pandas

_NONE = math.nan
_IDLE = 0.7  # of what the others compute
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


def reason_for(record: TelemetryRecord, rank: int) -> Reason | None:
    """Why that rank is slower than the others; None where its use is not known."""
    means = {number: _Means.of(rows) for number, rows in _by_rank(record).items() if rows}
    own, others = means.pop(rank, None), list(means.values())
    if own is None:
        return None
    if own.faults > _PAGING and own.faults > 2 * _typical([each.faults for each in others]):
        text = f"memory: {own.faults:.0f} of its pages a second come from the disk"
        return Reason(Cause.MEMORY, text)
    if own.core_wait > _CROWDED and own.core_wait > 1.5 * _typical([each.core_wait for each in others]):
        text = f"core: for {own.core_wait:.0f} % of its time it could run and has no core"
        return Reason(Cause.CORE, text)
    typical = _typical([each.cpu for each in others])
    if others and own.cpu < _IDLE * typical:
        text = f"wait: it uses {own.cpu:.0f} % of a core, the others {typical:.0f} %"
        return Reason(Cause.WAIT, f"{text}; it waits for data, the disk, the network or a lock")
    if not others and own.cpu < 100 * _IDLE:
        return Reason(Cause.WAIT, f"wait: it uses {own.cpu:.0f} % of a core")
    return Reason(Cause.COMPUTE, f"compute: it uses {own.cpu:.0f} % of a core, and needs longer for its part")


@dataclass(frozen=True)
class _Means:
    """What a rank uses in the mean."""

    cpu: float
    core_wait: float
    faults: float

    @classmethod
    def of(cls, rows: Sequence[Use]) -> _Means:
        """The means of a rank's rows, the first of which is its start and no part of its work."""
        rows = rows[1:] or rows
        return cls(
            fmean(row.cpu_percent for row in rows),
            fmean(row.core_wait_percent for row in rows),
            fmean(row.major_faults_per_s for row in rows),
        )


def _by_rank(record: TelemetryRecord) -> Mapping[int, list[Use]]:
    ranks: dict[int, list[Use]] = {}
    for row in Uses().of(record):
        if row.rank is not None and not math.isnan(row.cpu_percent):
            ranks.setdefault(row.rank, []).append(row)
    return ranks


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
    percent, memory_bytes = float(gpu.percent), float(gpu.memory_bytes)
    return Use(sample.time, sample.machine, gpu=gpu.gpu, gpu_percent=percent, gpu_memory_bytes=memory_bytes)


def _rate(now: float, before: float, elapsed_s: float) -> float:
    """Growth a second; none where the sum fell, since a process that had its part in it is gone."""
    return max(0.0, now - before) / elapsed_s
