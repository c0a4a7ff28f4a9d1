"""The union of all resources; a string, so that naming it imports none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from batchai_magics.models.file_server import FileServer
    from batchai_magics.models.resources.cluster_resource import Cluster
    from batchai_magics.models.resources.job_resource import JobResource
    from batchai_magics.models.resources.workspace_resource import Experiment, Workspace

Resource: TypeAlias = "Workspace | Experiment | Cluster | JobResource | FileServer"
