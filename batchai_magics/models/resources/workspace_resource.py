"""Workspace and experiment resources; the union of all resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.response_object import Provisioning, ResponseObject, WireObject, head
from batchai_magics.models.wire_model import WireModel

if TYPE_CHECKING:
    from batchai_magics.models.file_server import FileServer
    from batchai_magics.models.resources.cluster_resource import Cluster
    from batchai_magics.models.resources.job_resource import JobResource


class WorkspaceSpec(WireModel):
    """The spec of a workspace (WorkspaceCreateParameters of the 2018-05-01 API)."""

    what: ClassVar[str] = "the workspace description"

    location: str = "local"
    tags: dict[str, str] | None = None


class WorkspacePatch(WireModel):
    """A change of all tags of a workspace (WorkspaceUpdateParameters)."""

    what: ClassVar[str] = "the change of the workspace"

    tags: dict[str, str]


@dataclass(frozen=True)
class Workspace:
    """A workspace resource."""

    id: ResourceId
    location: str
    provisioning: Provisioning
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_wire(self) -> WireObject:
        """The service's JSON."""
        extra = {"tags": dict(self.tags)} if self.tags else {}
        properties = self.provisioning.to_wire()
        return {**head(self.id), "location": self.location, **extra, "properties": properties}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Workspace:
        """Reads the service's JSON; raises ServiceError if a field is missing or invalid."""
        response = ResponseObject.of(data, "the workspace")
        provisioning = Provisioning.from_wire(response.object("properties").fields)
        return cls(response.id(), response.text("location", ""), provisioning, response.object("tags").fields)


class ExperimentSpec(WireModel):
    """The spec of an experiment, which has no fields."""

    what: ClassVar[str] = "the experiment description"


@dataclass(frozen=True)
class Experiment:
    """An experiment resource: a named set of jobs."""

    id: ResourceId
    provisioning: Provisioning

    def to_wire(self) -> WireObject:
        """The service's JSON."""
        return {**head(self.id), "properties": self.provisioning.to_wire()}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Experiment:
        """Reads the service's JSON; raises ServiceError if a field is missing or invalid."""
        response = ResponseObject.of(data, "the experiment")
        return cls(response.id(), Provisioning.from_wire(response.object("properties").fields))


Resource: TypeAlias = "Workspace | Experiment | Cluster | JobResource | FileServer"
