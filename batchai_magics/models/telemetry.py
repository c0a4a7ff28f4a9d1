"""What the processes of a job use of their machines, sample by sample, and its JSON both ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from batchai_magics.models.answer import unreadable


class RankUse(NamedTuple):
    """What one rank has used until then, all of its processes together.

    Seconds and bytes are sums since they began, but for memory and the number of processes, which are those
    of the moment.
    """

    rank: int
    cpu_s: float
    memory_bytes: int
    read_bytes: int  # from files, pipes and sockets alike
    written_bytes: int
    core_wait_s: float  # it could have run, and had no core
    major_faults: int  # its memory had to come from the disk
    processes: int
    gpu_memory_bytes: int = 0


class MachineUse(NamedTuple):
    """A machine as a whole: its load, its free memory, what came and went over its network until then."""

    load: float = 0.0
    available_bytes: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0


class GpuUse(NamedTuple):
    """One GPU: its number, its use in percent where the driver tells it, and its memory that is taken."""

    gpu: int
    percent: int | None
    memory_bytes: int


@dataclass(frozen=True)
class Sample:
    """One moment, in seconds since 1970, of a machine and the ranks on it."""

    time: float
    machine: str
    ranks: tuple[RankUse, ...]
    use: MachineUse
    gpus: tuple[GpuUse, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """Its JSON: the numbers in the order of the values' fields."""
        data = {"time": self.time, "machine": self.machine, "ranks": list(map(list, self.ranks))}
        return {**data, "use": list(self.use), "gpus": list(map(list, self.gpus))}

    @classmethod
    def of(cls, time: float, machine: str, numbers: Mapping[str, Any]) -> Sample:
        """The sample of these numbers; TypeError or KeyError for what is none."""
        return cls(
            float(time),
            str(machine),
            tuple(RankUse(int(rank), *rest) for rank, *rest in numbers["ranks"]),
            MachineUse(*numbers["use"]),
            tuple(GpuUse(*gpu) for gpu in numbers.get("gpus", ())),
        )


@dataclass(frozen=True)
class TelemetryRecord:
    """Samples in the order of their times, the nodes of the ranks, and what is not sampled and why."""

    nodes: Mapping[int, str]
    samples: tuple[Sample, ...] = ()
    notes: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """Its JSON."""
        nodes = {str(rank): node for rank, node in self.nodes.items()}
        return {"nodes": nodes, "notes": list(self.notes), "value": [each.to_wire() for each in self.samples]}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> TelemetryRecord:
        """Reads what `to_wire` gives."""
        try:
            samples = tuple(Sample.of(each["time"], each["machine"], each) for each in data["value"])
            nodes = {int(rank): str(node) for rank, node in data["nodes"].items()}
            return cls(nodes, samples, tuple(map(str, data["notes"])))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise unreadable("the telemetry", str(error)) from None
