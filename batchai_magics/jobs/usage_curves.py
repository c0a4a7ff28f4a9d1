"""The resource usage of a job as sparklines per rank, GPU and machine."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from batchai_magics.jobs.log_numbers import RecordHistory
from batchai_magics.metrics import summarize
from batchai_magics.metrics.runs.resource_usage import MeanUsage, ResourceUsage, UsageRates, reason_for
from batchai_magics.models.telemetry_records import TelemetryRecord

MAX_POINTS = 80  # of a curve; neighbours are joined when it becomes longer
MAX_RANKS = 16  # that are drawn
GROWTH, MAX_RECORDS = 1.3, 50_000  # after which stragglers are sought again, and are taken as known

_OF_RANK = ("cpu_percent", "memory_bytes", "gpu_memory_bytes")
_OF_GPU = ("gpu_percent", "gpu_memory_bytes")
_SHOWN_IF_ZERO = ("cpu_percent", "gpu_percent")  # that one does nothing is news
_OF_MACHINE = ("load", "available_bytes", "received_bytes_per_s", "sent_bytes_per_s")


class Curve:
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
class _Row:
    """The curves of a rank, a GPU or a machine."""

    head: Mapping[str, Any]
    curves: dict[str, Curve] = field(default_factory=dict)

    def add(self, use: ResourceUsage, names: Iterable[str]) -> None:
        for name in names:
            value = getattr(use, name)
            if not math.isnan(value):
                self.curves.setdefault(name, Curve()).add(value)

    @property
    def fields(self) -> dict[str, Any]:
        seen = {
            name: curve
            for name, curve in self.curves.items()
            if curve.last or any(curve.points) or name in _SHOWN_IF_ZERO
        }
        return {**self.head, "curves": {name: curve.fields for name, curve in seen.items()}}


class UsageCurves:
    """The curves of a job. `version` increases with each sample."""

    def __init__(self) -> None:
        self.version = 0
        self._uses = UsageRates()
        self._means: dict[int, MeanUsage] = {}
        self._ranks: dict[int, _Row] = {}
        self._gpus: dict[tuple[str, int], _Row] = {}
        self._machines: dict[str, _Row] = {}
        self._notes: tuple[str, ...] = ()
        self._stragglers: tuple[int, ...] = ()
        self._due = 8

    def take(self, record: TelemetryRecord) -> None:
        """Adds samples."""
        self._notes = record.notes
        for use in self._uses.rows(record):
            self._take(use)
        self.version += 1

    def to_json(self, records: RecordHistory) -> bytes:
        """Returns everything, with the reasons of stragglers, as JSON (`ResourceUsage` in messages.d.ts)."""
        # Stragglers are sought less often as the number of records grows.
        if len(self._ranks) > 1 and self._due <= len(records) <= MAX_RECORDS:
            self._due = int(len(records) * GROWTH) + 1
            self._stragglers = summarize(records.table).stragglers
        reasons = {rank: reason_for(self._means, rank) for rank in self._stragglers}
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

    def _take(self, use: ResourceUsage) -> None:
        if use.rank is not None:
            row = self._ranks.setdefault(use.rank, _Row({"rank": use.rank, "node": use.node}))
            row.add(use, _OF_RANK)
            self._means.setdefault(use.rank, MeanUsage()).add(use)
        elif use.gpu is not None:
            head = {"gpu": use.gpu, "machine": use.node}
            self._gpus.setdefault((use.node, use.gpu), _Row(head)).add(use, _OF_GPU)
        else:
            self._machines.setdefault(use.node, _Row({"machine": use.node})).add(use, _OF_MACHINE)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _rounded(value: float) -> float:
    """Rounds to what a sparkline can show."""
    return round(value, 1) if value < 1000 else int(value)
