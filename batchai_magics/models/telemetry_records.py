"""Telemetry of a job: samples of resource usage, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from batchai_magics.models.response_object import WireObject, unreadable
from batchai_magics.untrusted_files import parse_json


class RankUse(NamedTuple):
    """The resource usage of one rank, summed over its processes.

    Seconds and bytes are cumulative; memory and the number of processes are current values.
    """

    rank: int
    cpu_s: float
    memory_bytes: int
    read_bytes: int  # from files, pipes and sockets alike
    written_bytes: int
    core_wait_s: float  # runnable but waiting for a core
    major_faults: int  # page faults that read from disk
    processes: int
    gpu_memory_bytes: int = 0


class MachineUse(NamedTuple):
    """The usage of a machine: load, available memory, cumulative network traffic."""

    load: float = 0.0
    available_bytes: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0


class GpuUse(NamedTuple):
    """The usage of a GPU: its number, utilization in percent if the driver reports it, used memory."""

    gpu: int
    percent: int | None
    memory_bytes: int


@dataclass(frozen=True)
class Sample:
    """A sample of a machine and the ranks on it; `time` is in seconds since 1970."""

    time: float
    machine: str
    ranks: tuple[RankUse, ...]
    use: MachineUse
    gpus: tuple[GpuUse, ...] = ()

    def to_wire(self) -> WireObject:
        """JSON with the numbers in field order."""
        data = {"time": self.time, "machine": self.machine, "ranks": list(map(list, self.ranks))}
        return {**data, "use": list(self.use), "gpus": list(map(list, self.gpus))}

    @classmethod
    def of(cls, time: float, machine: str, numbers: Mapping[str, Any]) -> Sample:
        """Builds a sample from the JSON of `to_wire`.

        Raises:
            KeyError: A field is missing.
            TypeError: A field has another shape.
        """
        return cls(
            float(time),
            str(machine),
            tuple(RankUse(int(rank), *rest) for rank, *rest in numbers["ranks"]),
            MachineUse(*numbers["use"]),
            tuple(GpuUse(*gpu) for gpu in numbers.get("gpus", ())),
        )

    @classmethod
    def of_line(cls, line: bytes, machine: str) -> Sample | None:
        """Builds a sample from a line that a node has written; None for anything else."""
        try:
            numbers = parse_json(line)
            return cls.of(numbers["t"], machine, {**numbers, "use": numbers["machine"]})
        except (KeyError, TypeError, ValueError):
            return None


@dataclass(frozen=True)
class TelemetryRecord:
    """The resource usage of a job."""

    nodes: Mapping[int, str]  # rank → name of its node
    samples: tuple[Sample, ...] = ()  # the samples in order of time
    notes: tuple[str, ...] = ()  # what is not sampled, and why

    def to_wire(self) -> WireObject:
        """JSON with the fields `nodes`, `notes` and `value` (the samples); the service has no telemetry."""
        nodes = {str(rank): node for rank, node in self.nodes.items()}
        return {
            "nodes": nodes,
            "notes": list(self.notes),
            "value": [sample.to_wire() for sample in self.samples],
        }

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> TelemetryRecord:
        """Reads the JSON of `to_wire`; raises ServiceError if a field is missing or invalid."""
        try:
            samples = tuple(Sample.of(sample["time"], sample["machine"], sample) for sample in data["value"])
            nodes = {int(rank): str(node) for rank, node in data["nodes"].items()}
            return cls(nodes, samples, tuple(map(str, data["notes"])))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise unreadable("the telemetry", str(error)) from None
