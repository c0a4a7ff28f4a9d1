"""What the processes of a job use, as it becomes known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from batchai_magics.backends.base import Backend
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from batchai_magics.models.telemetry import TelemetryRecord

LOOK_S = 2.0  # between two questions for samples


@dataclass(frozen=True)
class UseSeen:
    """New samples of what the job's processes use."""

    job: ResourceId
    record: TelemetryRecord


class Telemetry:
    """The samples of one job, asked for from time to time, and once more at its end."""

    def __init__(self, backend: Backend, id: ResourceId, *, clock: Callable[[], float]) -> None:
        self._backend = backend
        self._id = id
        self._clock = clock
        self._due_at = 0.0
        self._after = 0.0

    def news(self, job: JobResource) -> list[UseSeen]:
        """What is new, if it is time to ask, or the job has ended."""
        telemetry = self._backend.telemetry
        is_due = job.state.is_final or self._clock() >= self._due_at
        if telemetry is None or job.state is ExecutionState.QUEUED or not is_due:
            return []
        self._due_at = self._clock() + max(LOOK_S, self._backend.capabilities.pace.look_s)
        record = telemetry.read(self._id, after=self._after)
        if not record.samples:
            return []
        self._after = record.samples[-1].time
        return [UseSeen(self._id, record)]
