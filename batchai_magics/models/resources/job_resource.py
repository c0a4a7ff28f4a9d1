"""Job resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from batchai_magics.models.job_execution import Attempt, ExecutionInfo, RankExit
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources.cluster_resource import NOTES
from batchai_magics.models.response_object import Provisioning, ResponseObject, WireObject, head, unreadable
from batchai_magics.models.states import (
    CANCELLED,
    CONDITION_MET,
    DEPENDENCY_FAILED,
    STOPPED,
    TERMINATED,
    ExecutionState,
)
from batchai_magics.models.wire_times import elapsed_time, wire_time

if TYPE_CHECKING:
    from batchai_magics.models.error_details import ErrorDetail
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.prices import Cost
    from batchai_magics.models.toolkit_settings import Toolkit


WAITING = "batchaiWaiting"  # beside a job's state: why it waits
RANKS = "batchaiRanks"  # beside a job's executionInfo: exits of its ranks, first failure first
ATTEMPTS = "batchaiAttempts"  # beside them: the attempts of a requeued job


@dataclass(frozen=True)
class JobResource:
    """A job.

    `cost`: what it has cost so far; None unless requested and known. `notes`: messages for its creator.
    Neither is part of its JSON.
    """

    id: ResourceId
    spec: JobSpec  # what it was created with, without secrets
    provisioning: Provisioning  # its creation time and provisioning state
    state: ExecutionState
    state_changed: datetime  # when that changed, in UTC
    output_path_segment: str  # the path of its run below each output prefix
    execution: ExecutionInfo | None = None  # its times, exit code and errors; None before it starts
    ranks: tuple[RankExit, ...] = ()  # the exit of each process, first failure first; empty where unknown
    waiting: str = ""  # why it is queued, if the backend reports that
    attempts: tuple[Attempt, ...] = ()  # the attempts of a job that was requeued; else empty
    cost: Cost | None = field(default=None, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def wire_spec(self) -> WireObject:
        """The fields of its description in the service's JSON, without secrets; the caller may change it."""
        fields: WireObject = self.spec.to_wire()["properties"]
        return fields

    @property
    def cluster_id(self) -> str:
        """The ARM id of its cluster."""
        return self.spec.cluster.id

    @property
    def toolkit(self) -> Toolkit:
        """Its toolkit."""
        return self.spec.toolkit

    @property
    def node_count(self) -> int:
        """The number of its nodes."""
        return self.spec.node_count

    def with_cost(self, cost: Cost | None) -> JobResource:
        """The job with its cost."""
        return self._with(cost=cost)

    def with_waiting(self, reason: str) -> JobResource:
        """The job with the reason why it is queued."""
        return self._with(waiting=reason)

    def with_notes(self, notes: Sequence[str]) -> JobResource:
        """The job with messages for its creator."""
        return self._with(notes=tuple(notes))

    def _with(self, **fields: object) -> JobResource:
        job = copy(self)  # reads no field: a listed job reads some of them on demand
        vars(job).update(fields)
        return job

    @property
    def waits_for_nodes(self) -> bool:
        """Whether it is queued and has no nodes yet, as far as is known, and its backend does not say why."""
        return self.state is ExecutionState.QUEUED and not self.waiting

    @property
    def is_running(self) -> bool:
        """Whether its processes or their preparation run."""
        return self.state is ExecutionState.RUNNING and self.execution is not None

    @property
    def has_begun(self) -> bool:
        """Whether anything of it ran; a job that ends in the queue gets the time of its end as its start."""
        execution = self.execution
        return execution is not None and (execution.ended != execution.started or bool(self.ranks))

    @property
    def lost_predecessor(self) -> str:
        """Why it never began, a sentence about the predecessor that failed; empty for any other job."""
        return next((error.message for error in self._errors if error.code == DEPENDENCY_FAILED), "")

    @property
    def failures(self) -> list[ErrorDetail]:
        """Why it failed, was cancelled or was stopped; empty for any other job."""
        return [error for error in self._errors if not error.is_warning]

    @property
    def warnings(self) -> list[ErrorDetail]:
        """Its warnings, which did not make it fail."""
        return [error for error in self._errors if error.is_warning]

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled; its state is then failed."""
        return self._has_error(TERMINATED)

    @property
    def is_stopped(self) -> bool:
        """Whether a stop condition ended it; its state is then failed."""
        return self._has_error(CONDITION_MET)

    @property
    def has_failed(self) -> bool:
        """Whether it failed, and was not cancelled or stopped."""
        return self.state is ExecutionState.FAILED and not (self.is_cancelled or self.is_stopped)

    @property
    def word(self) -> str:
        """The displayed state: the service's, `cancelled` or `stopped`."""
        if self.is_stopped:
            return STOPPED
        return CANCELLED if self.is_cancelled else self.state.value

    def elapsed(self, now: datetime) -> str:
        """How long it has run, or waited if it did not start: `12:31`, `1:02:03`."""
        start = self.execution.started if self.execution else self.provisioning.created
        end = self.execution.ended if self.execution and self.execution.ended else now
        return elapsed_time((end - start).total_seconds())

    @property
    def _errors(self) -> Sequence[ErrorDetail]:
        return self.execution.errors if self.execution else ()

    def _has_error(self, code: str) -> bool:
        return self.state is ExecutionState.FAILED and any(error.code == code for error in self._errors)

    def to_wire(self) -> WireObject:
        """The service's JSON without secrets, extended by the exits of its ranks."""
        from batchai_magics.models.toolkit_settings import toolkit_in  # as below

        spec = self.wire_spec
        priority, cluster = spec.pop("schedulingPriority"), spec.pop("cluster")
        properties = {
            "experimentName": self.id.experiment,
            "schedulingPriority": priority,
            "cluster": cluster,
            "jobOutputDirectoryPathSegment": self.output_path_segment,
            "nodeCount": spec.pop("nodeCount"),
            "toolType": toolkit_in(spec).tool_type,
            **spec,
            **self.provisioning.to_wire(),
            "executionState": self.state.value,
            "executionStateTransitionTime": wire_time(self.state_changed),
        }
        if self.execution:
            properties["executionInfo"] = self.execution.to_wire()
        if self.waiting:
            properties[WAITING] = self.waiting
        if self.attempts:
            properties[ATTEMPTS] = [attempt.to_wire() for attempt in self.attempts]
        if self.ranks:
            properties[RANKS] = [rank.to_wire() for rank in self.ranks]
        return {**head(self.id), "properties": properties}

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> JobResource:
        """Reads the service's JSON; ServiceError names the path of a field that is missing or invalid."""
        response = ResponseObject.of(data, "the job")
        properties = response.object("properties")
        provisioning = Provisioning.from_wire(properties.fields)
        info = properties.object("executionInfo").fields
        return JobResource(
            id=response.id(),
            spec=_job_spec(properties),
            provisioning=provisioning,
            state=properties.choice("executionState", ExecutionState),
            state_changed=properties.time("executionStateTransitionTime", provisioning.created),
            output_path_segment=properties.text("jobOutputDirectoryPathSegment", ""),
            execution=ExecutionInfo.from_wire(info) if info else None,
            ranks=tuple(RankExit.from_wire(rank) for rank in properties.items(RANKS)),
            waiting=properties.text(WAITING, ""),
            attempts=tuple(Attempt.from_wire(attempt) for attempt in properties.items(ATTEMPTS)),
            notes=tuple(map(str, data.get(NOTES) or ())),
        )


def _job_spec(properties: ResponseObject) -> JobSpec:
    from batchai_magics.models.job_spec import JobSpec  # slow import that lists of stored jobs do not need
    from batchai_magics.models.toolkit_settings import Toolkit

    spec = properties.model(JobSpec)
    if not any(getattr(spec, kind.field) is not None for kind in Toolkit):
        raise unreadable(properties.path, "no settings of a toolkit are there")
    return spec
