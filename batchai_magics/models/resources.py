"""Resources as a backend shows them: the description plus what became of it, to the service's JSON and back.

Keys that begin with `batchai` are ours: the service had no word for them, and its clients leave out keys that
they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from batchai_magics.models.answer import Answer, unreadable
from batchai_magics.models.cluster import ClusterSpec, NodeStateCounts
from batchai_magics.models.execution import Attempt, ErrorDetail, ExecutionInfo, RankExit
from batchai_magics.models.file_server import FileServer
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import JobSpec
from batchai_magics.models.provisioning import Provisioning, head
from batchai_magics.models.states import (
    CANCELLED,
    CONDITION_MET,
    STOPPED,
    TERMINATED,
    AllocationState,
    ExecutionState,
    NodeState,
)
from batchai_magics.models.times import wire_time
from batchai_magics.models.toolkits import Toolkit
from batchai_magics.models.wire import WireModel

WAITING = "batchaiWaiting"  # beside a job's state: why it waits, in a sentence
NOTES = "batchaiNotes"  # beside a new cluster's properties, once: what who made it should know
RANKS = "batchaiRanks"  # beside a job's executionInfo: how each process ended, the first failure first
ATTEMPTS = "batchaiAttempts"  # beside it too: each time that the job was begun, if it was more than once
NODE_STATE, NODE_JOB, NODE_SINCE = "batchaiState", "batchaiJob", "batchaiSince"  # beside a node's address


class WorkspaceSpec(WireModel):
    """What a workspace is made of (WorkspaceCreateParameters of the 2018-05-01 API)."""

    what: ClassVar[str] = "the workspace description"

    location: str = "local"
    tags: dict[str, str] | None = None


class WorkspacePatch(WireModel):
    """What a change of a workspace changes: all of its tags (WorkspaceUpdateParameters)."""

    what: ClassVar[str] = "the change of the workspace"

    tags: dict[str, str]


class ExperimentSpec(WireModel):
    """What an experiment is made of: nothing but its name."""

    what: ClassVar[str] = "the experiment description"


@dataclass(frozen=True)
class Workspace:
    """A workspace as it stands."""

    id: ResourceId
    location: str
    provisioning: Provisioning
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON."""
        extra = {"tags": dict(self.tags)} if self.tags else {}
        properties = self.provisioning.to_wire()
        return {**head(self.id), "location": self.location, **extra, "properties": properties}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Workspace:
        """Reads the service's JSON."""
        answer = Answer.of(data, "the workspace")
        made = Provisioning.from_wire(answer.object("properties").fields)
        return cls(answer.id(), answer.text("location", ""), made, answer.object("tags").fields)


@dataclass(frozen=True)
class Experiment:
    """An experiment (a named set of jobs) as it stands."""

    id: ResourceId
    provisioning: Provisioning

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON."""
        return {**head(self.id), "properties": self.provisioning.to_wire()}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Experiment:
        """Reads the service's JSON."""
        answer = Answer.of(data, "the experiment")
        return cls(answer.id(), Provisioning.from_wire(answer.object("properties").fields))


@dataclass(frozen=True)
class Cluster:
    """A cluster as it stands."""

    id: ResourceId
    spec: ClusterSpec
    provisioning: Provisioning
    allocation_state: AllocationState
    allocation_changed: datetime
    node_states: NodeStateCounts
    errors: tuple[ErrorDetail, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)  # for who made it, once; no part of its JSON

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON, without any secret."""
        spec = self.spec.to_wire()["properties"]
        properties = {
            **self.provisioning.to_wire(),
            "allocationState": self.allocation_state.value,
            "allocationStateTransitionTime": wire_time(self.allocation_changed),
            "vmSize": spec.pop("vmSize"),
            "currentNodeCount": self.node_states.total,
            "nodeStateCounts": self.node_states.to_wire(),
            **spec,
        }
        if self.errors:
            properties["errors"] = [error.to_wire() for error in self.errors]
        return {**head(self.id), "properties": properties}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Cluster:
        """Reads the service's JSON."""
        answer = Answer.of(data, "the cluster")
        properties = answer.object("properties")
        made = Provisioning.from_wire(properties.fields)
        return cls(
            id=answer.id(),
            spec=properties.model(ClusterSpec),
            provisioning=made,
            allocation_state=properties.choice("allocationState", AllocationState, AllocationState.STEADY),
            allocation_changed=properties.time("allocationStateTransitionTime", made.created),
            node_states=properties.object("nodeStateCounts").model(NodeStateCounts),
            errors=tuple(ErrorDetail.from_wire(error) for error in properties.items("errors")),
            notes=tuple(map(str, data.get(NOTES) or ())),
        )


@dataclass(frozen=True)
class JobResource:
    """A job as it stands. `ranks` is what became of each process, first failure first (may be empty).

    `waiting` is why a queued job waits, where the place where it is to run says so. `attempts` is each time
    that it was begun, if it was more than once or is to be begun again.
    """

    id: ResourceId
    spec: JobSpec
    provisioning: Provisioning
    state: ExecutionState
    state_changed: datetime
    output_path_segment: str
    # Made by factories: a plain default would stand in the class, in the way of what is read later.
    execution: ExecutionInfo | None = field(default_factory=lambda: None)
    ranks: tuple[RankExit, ...] = field(default_factory=tuple)
    waiting: str = field(default_factory=str)
    attempts: tuple[Attempt, ...] = field(default_factory=tuple)

    @classmethod
    def reading_later(cls, source: object) -> JobResource:
        """The job with the fields of `source`, each read once, when somebody asks for it."""
        made = object.__new__(cls)
        vars(made)["_source"] = source
        return made

    if not TYPE_CHECKING:  # a checker would take every name for one of a job's

        def __getattr__(self, name: str) -> Any:
            """Reads a field."""
            source = vars(self).get("_source")
            if source is None or name not in type(self).__dataclass_fields__:
                raise AttributeError(f"a job has no {name}", name=name, obj=self)
            value = vars(self)[name] = getattr(source, name)
            return value

    @property
    def is_running(self) -> bool:
        """Whether its processes run, or their preparation does."""
        return self.state is ExecutionState.RUNNING and self.execution is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody ended it; the service calls that failed."""
        return self._has_error(TERMINATED)

    @property
    def is_stopped(self) -> bool:
        """Whether it was ended because a condition of its own was met; the service would call that failed."""
        return self._has_error(CONDITION_MET)

    @property
    def has_failed(self) -> bool:
        """Whether it ended badly by itself."""
        return self.state is ExecutionState.FAILED and not (self.is_cancelled or self.is_stopped)

    @property
    def word(self) -> str:
        """Where it stands, as people say it: the service's word, `cancelled` or `stopped`."""
        if self.is_stopped:
            return STOPPED
        return CANCELLED if self.is_cancelled else self.state.value

    def _has_error(self, code: str) -> bool:
        errors = self.execution.errors if self.execution else ()
        return self.state is ExecutionState.FAILED and any(error.code == code for error in errors)

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON, without any secret; `batchaiRanks` says how each process ended."""
        spec = self.spec.to_wire()["properties"]
        priority, cluster = spec.pop("schedulingPriority"), spec.pop("cluster")
        properties = {
            "experimentName": self.id.experiment,
            "schedulingPriority": priority,
            "cluster": cluster,
            "jobOutputDirectoryPathSegment": self.output_path_segment,
            "nodeCount": spec.pop("nodeCount"),
            "toolType": self.spec.toolkit.tool_type,
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

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> JobResource:
        """Reads the service's JSON, and what became of each process where it is said."""
        answer = Answer.of(data, "the job")
        properties = answer.object("properties")
        made = Provisioning.from_wire(properties.fields)
        info = properties.object("executionInfo").fields
        return cls(
            id=answer.id(),
            spec=_job_spec(properties),
            provisioning=made,
            state=properties.choice("executionState", ExecutionState),
            state_changed=properties.time("executionStateTransitionTime", made.created),
            output_path_segment=properties.text("jobOutputDirectoryPathSegment", ""),
            execution=ExecutionInfo.from_wire(info) if info else None,
            ranks=tuple(RankExit.from_wire(rank) for rank in properties.items(RANKS)),
            waiting=properties.text(WAITING, ""),
            attempts=tuple(Attempt.from_wire(each) for each in properties.items(ATTEMPTS)),
        )


@dataclass(frozen=True)
class Node:
    """One node of a cluster: its id, what it does, for which job, and since when (where that is known)."""

    id: str
    state: NodeState
    job: ResourceId | None = None
    ip_address: str = ""
    port: int = 22
    since: datetime | None = None

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON for where a node is logged in to, and beside it what the node does."""
        data = {"nodeId": self.id, "ipAddress": self.ip_address, "port": self.port}
        data[NODE_STATE] = self.state.value
        if self.job:
            data[NODE_JOB] = str(self.job)
        if self.since:
            data[NODE_SINCE] = wire_time(self.since)
        return data

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Node:
        """Reads the service's JSON; a node of which nothing more is said can be logged in to: it is idle."""
        answer = Answer.of(data, "the node")
        return cls(
            id=answer.text("nodeId"),
            state=answer.choice(NODE_STATE, NodeState, NodeState.IDLE),
            job=answer.id(NODE_JOB) if answer.has(NODE_JOB) else None,
            ip_address=answer.text("ipAddress"),
            port=answer.number("port"),
            since=answer.optional_time(NODE_SINCE),
        )


Resource = Workspace | Experiment | Cluster | JobResource | FileServer


def _job_spec(properties: Answer) -> JobSpec:
    spec = properties.model(JobSpec)
    if not any(getattr(spec, kind.field) is not None for kind in Toolkit):
        raise unreadable(properties.path, "no settings of a toolkit are there")
    return spec
