"""Resources as the far side shows them, understood. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from batchai_magics.models.file_server import FileServer
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, Experiment, JobResource, Resource, Workspace

_READ: Mapping[Kind, Callable[[Mapping[str, Any]], Resource]] = {
    Kind.WORKSPACE: Workspace.from_wire,
    Kind.EXPERIMENT: Experiment.from_wire,
    Kind.CLUSTER: Cluster.from_wire,
    Kind.JOB: JobResource.from_wire,
    Kind.FILE_SERVER: FileServer.from_wire,
}


def resource(data: Mapping[str, Any], kind: Kind) -> Resource:
    """The resource of that kind that a JSON object shows."""
    return _READ[kind](data)


def any_resource(data: Mapping[str, Any]) -> Resource:
    """The resource that a JSON object shows, of whichever kind its id is."""
    return resource(data, ResourceId.parse(str(data.get("id"))).kind)
