"""Descriptions of jobs."""

from __future__ import annotations

from typing import Any

from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId

PREFIX = "$AZ_BATCHAI_MOUNT_ROOT/autoafs"


def job_spec(
    experiment: ResourceId, *, cluster: str = "default", nodes: int = 1, **properties: Any
) -> JobSpec:
    """A job of a shell command, unless another toolkit is given."""
    toolkit = (
        {}
        if any(key.endswith(("Settings",)) and key != "containerSettings" for key in properties)
        else _COMMAND
    )
    body = {
        "cluster": {"id": str(experiment.parent.child(Kind.CLUSTER, cluster))},
        "nodeCount": nodes,
        "stdOutErrPathPrefix": PREFIX,
        **toolkit,
        **properties,
    }
    return JobSpec.from_wire({"properties": body})


_COMMAND = {"customToolkitSettings": {"commandLine": "echo hello"}}
